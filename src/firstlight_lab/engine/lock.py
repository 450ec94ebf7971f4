# SPDX-License-Identifier: Apache-2.0
"""The exact versions of everything Python in the lab's image."""

from __future__ import annotations

import re

PIN = re.compile(r"(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[0-9][a-z0-9.]*)")


def parse(text: str) -> dict[str, str]:
    """Return name to version; refuse a line that is not one exact pin.

    Where packages come from is the operator's pip configuration and not the lock's business, so options,
    addresses and files are refused too.
    """
    pins: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        match = PIN.fullmatch(content)
        if match is None:
            raise ValueError(f"engine.lock line {number}: found {content!r}, expected name==version")
        if match["name"] in pins:
            raise ValueError(f"engine.lock line {number}: {match['name']} is pinned twice; remove one of the pins")
        pins[match["name"]] = match["version"]
    return pins


def platform_tags(architecture: str, glibc_minor: int = 36) -> list[str]:
    """Return the wheel platforms that a C library 2.``glibc_minor`` can load, newest first."""
    tags = [f"manylinux_2_{minor}_{architecture}" for minor in range(glibc_minor, 4, -1)]
    tags.append(f"manylinux2014_{architecture}")
    if architecture == "x86_64":
        tags += ["manylinux2010_x86_64", "manylinux1_x86_64"]
    return [*tags, f"linux_{architecture}"]
