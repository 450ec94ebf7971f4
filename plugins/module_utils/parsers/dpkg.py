# SPDX-License-Identifier: Apache-2.0
"""Parses dpkg-query, which answers for every package in one call and never opens the apt cache."""

from __future__ import annotations

from collections.abc import Iterable

DPKG_FORMAT = "${Package}\\t${db:Status-Status}\\t${Version}\\n"
"""The --showformat that `parse_dpkg_query` expects."""

HOLD_FORMAT = "${Package}\\t${db:Status-Want}\\t${db:Status-Status}\\n"
"""The --showformat that `parse_holds` expects."""

FULL_FORMAT = "${Package}\\t${db:Status-Want}\\t${db:Status-Status}\\t${Version}\\n"
"""The --showformat that `parse_installed` expects."""


def parse_installed(text: str) -> dict[str, tuple[str, bool]]:
    """Parse the version of every installed package listed, and whether it is on hold."""
    rows = [line.split("\t") for line in text.splitlines()]
    return {row[0]: (row[3], row[1] == "hold") for row in rows if len(row) == 4 and row[2] == "installed" and row[3]}


def parse_holds(text: str, names: Iterable[str]) -> dict[str, bool]:
    """Whether each package is on hold; one that is not installed is not."""
    holds: dict[str, bool] = dict.fromkeys(names, False)
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 3 and fields[0] in holds and fields[1] == "hold" and fields[2] == "installed":
            holds[fields[0]] = True
    return holds


def parse_dpkg_query(text: str, names: Iterable[str]) -> dict[str, str | None]:
    """Parse the installed version of each package.

    None for packages that are absent, half-installed or only have configuration files left.
    """
    versions: dict[str, str | None] = dict.fromkeys(names)
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 3 and fields[0] in versions and fields[1] == "installed" and fields[2]:
            versions[fields[0]] = fields[2]
    return versions


def upstream_version(version: str) -> str:
    """A package's version without epoch and packaging revision: `580.95.05-0ubuntu0.24.04.2` is 580.95.05."""
    plain = version.partition(":")[2] or version
    return plain.rpartition("-")[0] or plain
