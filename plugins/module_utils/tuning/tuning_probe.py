# SPDX-License-Identifier: Apache-2.0
"""Read the settings of a host that are neither files nor units: governors, swap, clock and running managers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..host import Host
from ..parsers.swaps import parse_swaps
from ..parsers.systemd import SYSTEMD_PROPERTIES, parse_properties, parse_systemctl_show
from .clock import SERVICES, parse_chrony_tracking, parse_timedatectl, supervisor
from .files import GOVERNORS
from .settings import parse_ledger

LINGER = "/var/lib/systemd/linger"
SWAPS = "/proc/swaps"
LOGIND = "systemd-logind.service"


def read_managers(host: Host, names: Sequence[str], timeout: float) -> dict[str, str | None]:
    """Return the running settings of systemd and logind, which may differ from their files; None without logind."""
    found: dict[str, str | None] = {}
    for service, command in (("systemd", ["systemctl", "show"]), ("logind", ["loginctl", "show-session"])):
        asked = [name.partition("/")[2] for name in names if name.startswith(f"{service}/")]
        if not asked:
            continue
        result = host.run([*command, *(f"--property={name}" for name in asked)], timeout)
        if not result.ok and not (service == "logind" and _without_logind(host, timeout)):
            raise ValueError(result.summary)
        told = parse_properties(result.stdout) if result.ok else {}
        found |= {f"{service}/{name}": told.get(name) for name in asked}
    return found


def _without_logind(host: Host, timeout: float) -> bool:
    told = parse_properties(host.run(["systemctl", "show", "--property=LoadState", "--", LOGIND], timeout).stdout)
    return told.get("LoadState") in ("not-found", "masked")


def read_linger(host: Host, users: Sequence[str]) -> dict[str, bool]:
    """Return whether the services of these accounts outlive their sessions."""
    return {user: bool(host.file_state(f"{LINGER}/{user}")["exists"]) for user in users}


def read_governors(host: Host) -> dict[str, dict[str, Any]]:
    """Return the current and the available governors of every CPU policy; empty if the kernel offers no choice."""
    found = {}
    for name in host.names(GOVERNORS):
        governor = host.read_text(f"{GOVERNORS}/{name}/scaling_governor")
        if name.startswith("policy") and governor is not None:
            available = host.read_text(f"{GOVERNORS}/{name}/scaling_available_governors") or ""
            found[name] = {"governor": governor.strip(), "available": available.split()}
    return found


def read_swap(host: Host) -> list[dict[str, Any]]:
    """Return the active swap devices."""
    return parse_swaps(host.read_text(SWAPS) or "")


def read_clock(host: Host, timeout: float) -> dict[str, Any]:
    """Return the time service and whether the clock is synchronised; None if that is unknown."""
    result = host.run(["systemctl", "show", f"--property={SYSTEMD_PROPERTIES}", "--", *SERVICES], timeout)
    if not result.ok:
        raise ValueError(result.summary)
    units = parse_systemctl_show(result.stdout, SERVICES)
    name = supervisor(units)
    if name is None:
        return {"service": None, "load": "not-found", "enabled": False, "active": False, "synchronized": None}
    right = None
    if name == "chrony.service":
        right = parse_chrony_tracking(host.run(["chronyc", "-c", "tracking"], timeout).stdout)
    if right is None:
        right = parse_timedatectl(host.run(["timedatectl", "show", "--property=NTPSynchronized"], timeout).stdout)
    unit = units[name]
    return {"service": name, **{key: unit[key] for key in ("load", "enabled", "active")}, "synchronized": right}


def read_ledger(host: Host, path: str) -> dict[str, Any]:
    """Return only the names in a ledger, as its contents are the host's own."""
    text = host.read_text(path)
    if text is None:
        return {"exists": False, "keeps": [], "error": None}
    try:
        return {"exists": True, "keeps": sorted(parse_ledger(text)["things"]), "error": None}
    except ValueError as error:
        return {"exists": True, "keeps": [], "error": str(error)}
