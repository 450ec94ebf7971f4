# SPDX-License-Identifier: Apache-2.0
"""A host's firewall as it is: the rules in force, what the kernel makes of a file, and the connection we came over."""

from __future__ import annotations

import os
from typing import Any

from .core.firewall import TABLE, Connection
from .core.firewall_kinds import compare_listings
from .core.parsers.network import parse_ip_addresses
from .host import Host

_LIST = f"nft --stateless list table {TABLE}"
_ABSENT = "No such file or directory"
_GENERATIONS = 64
"""Ancestors that are asked for their SSH connection; a chain of shells and sudo is far shorter."""


class FirewallError(Exception):
    """A firewall that cannot be read or must not be changed, in words for the operator."""


def live_listing(host: Host, timeout: float = 30.0) -> str | None:
    """The rules of our table in force, without counts; None when there is no such table."""
    ran = host.run(_LIST.split(), timeout)
    if ran.ok:
        return ran.stdout
    if not ran.problem and _ABSENT in ran.stderr:
        return None
    raise FirewallError(
        f"The rules in force cannot be read ({ran.summary}): run with become, and see `nft list ruleset`"
    )


def listing_of(host: Host, rules: str, timeout: float = 30.0) -> str:
    """What the kernel makes of these rules, in a network namespace of its own that is gone afterwards."""
    ran = host.run(["unshare", "--net", "--", "/bin/sh", "-c", f"nft -f - && {_LIST}"], timeout, stdin=rules)
    if not ran.ok:
        raise FirewallError(f"nft does not take the rules, nothing was changed ({ran.summary})")
    return ran.stdout


def read_ruleset(host: Host, path: str, timeout: float) -> dict[str, Any]:
    """Whether the rules of a file are in force, and what of them is not as it should be."""
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
    """The SSH connection that this process was started over; None when it was not, as on the controller itself.

    sudo takes the variable away, so it is looked for in the processes that this one descends from.
    """
    text = (os.environ if environment is None else environment).get("SSH_CONNECTION") or _inherited(host)
    words = text.split()
    if len(words) != 4 or not words[3].isdecimal():
        return None
    client, server = (word.partition("%")[0] for word in (words[0], words[2]))
    return Connection(client, server, int(words[3]), _interface(host, server))


def _inherited(host: Host) -> str:
    process = "self"
    for _ in range(_GENERATIONS):
        for entry in (host.read_text(f"/proc/{process}/environ") or "").split("\0"):
            name, _, value = entry.partition("=")
            if name == "SSH_CONNECTION" and value:
                return value
        status = (host.read_text(f"/proc/{process}/status") or "").splitlines()
        process = next((line.split()[1] for line in status if line.startswith("PPid:")), "0")
        if process == "0":
            break
    return ""


def _interface(host: Host, address: str) -> str | None:
    """The interface that has this address."""
    ran = host.run(["ip", "-j", "addr", "show"])
    try:
        links = parse_ip_addresses(ran.stdout) if ran.ok else {}
    except ValueError:
        return None
    for name, link in links.items():
        if any(str(one).partition("/")[0] == address for one in link["addresses"]):
            return name
    return None
