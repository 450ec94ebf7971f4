# SPDX-License-Identifier: Apache-2.0
"""Read a host's firewall: the rules in force, the kernel's listing of a file, and the connection of this run."""

from __future__ import annotations

from typing import Any

from ..host import Host
from ..parsers.network import parse_ip_addresses
from ..ssh_connection import ssh_ends
from .firewall import TABLE, Connection
from .kinds import compare_listings

_LIST = f"nft --stateless list table {TABLE}"
_ABSENT = "No such file or directory"


class FirewallError(Exception):
    """A firewall that cannot be read or must not be changed; the message is for the operator."""


def live_listing(host: Host, timeout: float = 30.0) -> str | None:
    """List the rules in force in our table, without counters; None if there is no such table."""
    ran = host.run(_LIST.split(), timeout)
    if ran.ok:
        return ran.stdout
    if not ran.problem and _ABSENT in ran.stderr:
        return None
    raise FirewallError(
        f"The rules in force cannot be read ({ran.summary}): run with become, and see `nft list ruleset`"
    )


def listing_of(host: Host, rules: str, timeout: float = 30.0) -> str:
    """List these rules as the kernel does, by loading them in a temporary network namespace."""
    ran = host.run(["unshare", "--net", "--", "/bin/sh", "-c", f"nft -f - && {_LIST}"], timeout, stdin=rules)
    if not ran.ok:
        raise FirewallError(f"nft rejects the rules, nothing was changed ({ran.summary})")
    return ran.stdout


def read_ruleset(host: Host, path: str, timeout: float) -> dict[str, Any]:
    """Return whether the rules of a file are in force, and how the rules in force differ."""
    found: dict[str, Any] = {"loaded": False, "missing": [], "added": [], "error": None}
    if not host.has("nft"):
        return found
    try:
        live = live_listing(host, timeout)
        rules = host.read_text(path)
        if live is None:
            return found
        found["loaded"] = True
        if rules is not None:
            found["missing"], found["added"] = compare_listings(listing_of(host, rules, timeout), live)
    except FirewallError as error:
        found["error"] = str(error)
    return found


def ssh_connection(host: Host, environment: dict[str, str] | None = None) -> Connection | None:
    """Return the SSH connection that this process was started over; None without one, as on the controller itself."""
    ends = ssh_ends(host, environment)
    return None if ends is None else Connection(*ends, _interface(host, ends[1]))


def _interface(host: Host, address: str) -> str | None:
    """Return the interface that has this address."""
    ran = host.run(["ip", "-j", "addr", "show"])
    try:
        links = parse_ip_addresses(ran.stdout) if ran.ok else {}
    except ValueError:
        return None
    for name, link in links.items():
        if any(str(one).partition("/")[0] == address for one in link["addresses"]):
            return name
    return None
