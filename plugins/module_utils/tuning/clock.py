# SPDX-License-Identifier: Apache-2.0
"""Who keeps a host's time, and whether it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..parsers.systemd import parse_properties

SERVICES = ("chrony.service", "ntpsec.service", "ntp.service", "openntpd.service", "systemd-timesyncd.service")
"""What Debian and Ubuntu offer. They exclude each other as packages, so that there is one, or none."""

PACKAGE = "systemd-timesyncd"
"""What is installed where there is none: it only asks for the time, and answers nobody."""
PACKAGE_UNIT = "systemd-timesyncd.service"

_LEAP = 13
"""The column of `chronyc -c tracking` that says Normal, Insert second, Delete second or Not synchronised."""


def supervisor(units: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The service that keeps the time, or could: an enabled one first, then one that runs, a masked one last."""
    there = [name for name in SERVICES if (units.get(name) or {}).get("load") in ("loaded", "masked")]

    def rank(name: str) -> tuple[bool, bool, bool]:
        unit = units[name]
        return (unit["load"] == "masked", not unit.get("enabled"), not unit.get("active"))

    return min(there, key=rank, default=None)


def parse_timedatectl(text: str) -> bool | None:
    """Read `timedatectl show --property=NTPSynchronized`: whether the kernel was told that its clock is right."""
    return {"yes": True, "no": False}.get(parse_properties(text).get("NTPSynchronized", ""))


def parse_chrony_tracking(text: str) -> bool | None:
    """Read `chronyc -c tracking`; chrony tells the kernel only when it was told to, so it is asked itself."""
    columns: Sequence[str] = text.strip().split(",")
    if len(columns) <= _LEAP:
        return None
    return columns[_LEAP] != "Not synchronised"
