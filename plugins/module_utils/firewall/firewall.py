# SPDX-License-Identifier: Apache-2.0
"""The firewall's table, file and unit, and whether it would admit the connection that a change is made over."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

TABLE = "inet firstlight"
RULES_PATH = "/etc/firstlight/firewall.nft"
UNIT = "firstlight-firewall.service"
UNIT_PATH = f"/etc/systemd/system/{UNIT}"

REMOVAL = f"add table {TABLE}\ndelete table {TABLE}\n"
"""Removes the table, whether it exists or not."""


@dataclass(frozen=True)
class Connection:
    """The SSH connection that a change is made over."""

    client: str
    server: str
    port: int
    interface: str | None = None
    """The interface it comes in on; None if unknown."""


def admits(settings: Mapping[str, Any], connection: Connection) -> bool:
    """Whether a connection like this one could be opened again under the rules of these settings.

    They are `ssh_ports`, `ssh_from`, `fabric` and `openings`, as in role firewall. Raises ValueError for invalid ones.
    """
    client = ipaddress.ip_address(connection.client)
    client = getattr(client, "ipv4_mapped", None) or client  # an IPv4 client on a dual-stack socket
    if client.is_loopback:
        return True
    sources = settings["ssh_from"]
    if _within(connection.port, settings["ssh_ports"]) and (not sources or _is_in(client, sources)):
        return True
    fabric = settings["fabric"]
    if connection.interface in (fabric.get("interfaces") or []):
        return _is_in(client, fabric.get("peers") or [])
    return any(
        opening["protocol"] == "tcp" and _within(connection.port, opening["ports"]) and _is_in(client, opening["from"])
        for opening in settings["openings"]
    )


def _within(port: int, ports: Iterable[Any]) -> bool:
    ranges = [str(one).partition("-") for one in ports]
    return any(int(first) <= port <= int(last or first) for first, _, last in ranges)


def _is_in(address: Any, networks: Iterable[str]) -> bool:
    return any(address in ipaddress.ip_network(network) for network in networks)
