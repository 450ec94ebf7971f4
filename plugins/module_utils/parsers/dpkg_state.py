# SPDX-License-Identifier: Apache-2.0
"""Parses dpkg-query's report of packages that dpkg left half done."""

from __future__ import annotations

from dataclasses import dataclass

BROKEN_FORMAT = "${Package}\\t${db:Status-Eflag}\\t${db:Status-Status}\\n"
"""The --showformat that `parse_broken` expects."""

_WHOLE = ("installed", "config-files", "not-installed")


@dataclass(frozen=True)
class Broken:
    """A package between two states; `reinstall` means that it must be unpacked again before anything else."""

    status: str
    reinstall: bool = False


def parse_broken(text: str) -> dict[str, Broken]:
    """Parse the packages that are neither installed nor gone, by name."""
    found = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 3 and (fields[2] not in _WHOLE or fields[1] != "ok"):
            found[fields[0]] = Broken(fields[2], fields[1] != "ok")
    return found
