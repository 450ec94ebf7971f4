# SPDX-License-Identifier: Apache-2.0
"""The ports of a host for a connectivity test: MACs, MTUs, addresses, and which have a carrier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...parsers.text import parse_json_list

MEETING_PORT = 27600
"""TCP port where hosts meet; iperf3 and ib_write_bw use the next two. Below the kernel's ephemeral port range."""
MOST_PORTS = 128
"""A host with many containers has many ports; a report does not need all of them."""


def parse_ports(text: str, most: int = MOST_PORTS) -> dict[str, dict[str, Any]]:
    """Parse `ip -j -d addr` into the facts of every port but the loopback. Raises ValueError for other text."""
    found: dict[str, dict[str, Any]] = {}
    for entry in parse_json_list(text, "ip -j -d addr"):
        if not entry.get("ifname") or entry.get("link_type") == "loopback" or len(found) >= most:
            continue
        flags = entry.get("flags") or []
        up = "UP" in flags
        found[str(entry["ifname"])] = {
            "mac": str(entry.get("address") or "").lower(),
            "mtu": entry.get("mtu"),
            "up": up,
            # The carrier of a port that is down is unknown.
            "carrier": ("LOWER_UP" in flags and "NO-CARRIER" not in flags) if up else None,
            "operstate": entry.get("operstate"),
            "ethernet": entry.get("link_type") == "ether",
            "kind": (entry.get("linkinfo") or {}).get("info_kind"),
            "master": entry.get("master"),
            "addresses": [
                f"{address['local']}/{address['prefixlen']}"
                for address in entry.get("addr_info") or []
                if address.get("local") and address.get("family") == "inet"
            ],
        }
    return found


def listens(text: str, port: int) -> bool:
    """Whether a process listens on this TCP port, according to /proc/net/tcp (or tcp6)."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 3 and fields[3] == "0A" and fields[1].rpartition(":")[2] == f"{port:04X}":
            return True
    return False


def bare(address: object) -> str:
    """Return an address without its prefix length."""
    return str(address or "").partition("/")[0]


def own_rails(ports: list[Mapping[str, Any]], peers: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return this host's rails in order: as planned, or without a plan by the ports towards its peers."""
    if ports:
        return [{"port": one["port"], "address": one["address"], "mtu": int(one["mtu"])} for one in ports]
    rails: dict[str, dict[str, Any]] = {}
    for peer in peers:
        rails.setdefault(str(peer["port"]), {"port": peer["port"], "address": None, "mtu": int(peer["mtu"])})
    return list(rails.values())
