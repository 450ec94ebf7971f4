# SPDX-License-Identifier: Apache-2.0
"""From one set of packages to another: what is removed, where packages come from, and what an upgrade could change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from ..parsers.apt import Fetch, Pin, Step, parse_preferences
from .apt_set import Pins

CHECKSUMS = ("SHA512", "SHA256", "SHA1", "MD5sum")


def pinned_names(preferences: str | None) -> list[str]:
    """Return the packages that one of our preferences files pins to a version: the set as last written."""
    return sorted(
        {one.package for one in parse_preferences(preferences) if one.pin.startswith("version ") and one.package != "*"}
    )


def concerning(pins: Iterable[Pin], packages: Iterable[str]) -> list[Pin]:
    """Return the records that match every package or one of these: by name, glob or regular expression."""
    names = set(packages)
    return [one for one in pins if one.package == "*" or any(_speaks_of(one.package, name) for name in names)]


def _speaks_of(pattern: str, package: str) -> bool:
    if len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/"):
        try:
            return re.search(pattern[1:-1], package) is not None
        except re.error:
            return True  # apt's dialect differs: better a false match than a missed one
    return fnmatchcase(package, pattern.partition(":")[0])


def removal_words(names: Iterable[str]) -> list[str]:
    """Return the arguments that make apt remove the named packages."""
    return [f"{name}-" for name in sorted(names)]


def touching(steps: Iterable[Step], names: Iterable[str]) -> list[str]:
    """Describe what a simulated upgrade would do to these packages, for a message."""
    watched = set(names)
    return [f"{step.name} from {step.old} to {step.new or 'nothing'}" for step in steps if step.name in watched]


def foreign(packages: Pins, files: Iterable[Fetch], own: Iterable[Mapping[str, str]]) -> list[str]:
    """List the packages that apt would not take from the set's own source, for a message.

    `own` are the records of that source. A file that it also offers with the same hash counts as the same file.
    """
    offered: dict[str, set[str]] = {}
    for record in own:
        sums = {f"{kind}:{record[kind]}".lower() for kind in CHECKSUMS if kind in record}
        offered.setdefault(record["Package"], set()).update(sums)
    return [
        f"{one.package} {one.version} from {one.uri}"
        for one in files
        if packages.get(one.package) and one.checksum.lower() not in offered.get(one.package, set())
    ]
