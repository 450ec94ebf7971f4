# SPDX-License-Identifier: Apache-2.0
"""Find the time service of a host, and whether it is synchronised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..parsers.systemd import parse_properties

SERVICES = ("chrony.service", "ntpsec.service", "ntp.service", "openntpd.service", "systemd-timesyncd.service")
"""The services that Debian and Ubuntu offer. Their packages conflict with each other, so there is at most one."""

PACKAGE = "systemd-timesyncd"
"""The package to install if there is none: it is a client only, and serves nobody."""
PACKAGE_UNIT = "systemd-timesyncd.service"

_LEAP = 13
"""The column of `chronyc -c tracking` with Normal, Insert second, Delete second or Not synchronised."""


def supervisor(units: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the time service: preferably an enabled one, then a running one, and a masked one last; or None."""
    there = [name for name in SERVICES if (units.get(name) or {}).get("load") in ("loaded", "masked")]

    def rank(name: str) -> tuple[bool, bool, bool]:
        unit = units[name]
        return (unit["load"] == "masked", not unit.get("enabled"), not unit.get("active"))

    return min(there, key=rank, default=None)


def parse_timedatectl(text: str) -> bool | None:
    """Parse `timedatectl show --property=NTPSynchronized`: whether the kernel considers its clock synchronised."""
    return {"yes": True, "no": False}.get(parse_properties(text).get("NTPSynchronized", ""))


def parse_chrony_tracking(text: str) -> bool | None:
    """Parse `chronyc -c tracking`; chrony informs the kernel only if so configured, hence it is asked directly."""
    columns: Sequence[str] = text.strip().split(",")
    if len(columns) <= _LEAP:
        return None
    return columns[_LEAP] != "Not synchronised"
