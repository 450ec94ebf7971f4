# SPDX-License-Identifier: Apache-2.0
"""Evaluate what a network change did to a host: to its own ports, and to everything else."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from ..parsers.text import parse_json_list

_OURS_TO_COME_AND_GO = ("lo", "docker", "br-", "veth", "virbr", "cni", "flannel", "cali")
"""Links that container engines create and remove by themselves, so that their absence means nothing."""


def comes_and_goes(name: str) -> bool:
    """Whether a link is created and removed by a container engine, or is the loopback."""
    return name.startswith(_OURS_TO_COME_AND_GO)


def wanted_links(ports: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the desired links for ports with an address and an MTU, in the form of a desired state."""
    return {entry["port"]: {"mtu": entry["mtu"], "addresses": [entry["address"]], "up": True} for entry in ports}


def port_states(ports: Iterable[str], links: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the states of the named ports, with absent ones marked as such."""
    return {port: links.get(port, {"exists": False}) for port in ports}


def parse_default_routes(text: str) -> set[str]:
    """Parse `ip -j route show default` into a set of "via <gateway> dev <port>"; empty for other text."""
    try:
        entries = parse_json_list(text, "ip -j route")
    except ValueError:
        return set()
    return {f"via {entry.get('gateway', 'link')} dev {entry['dev']}" for entry in entries if entry.get("dev")}


def overlaps(wanted: Mapping[str, Mapping[str, Any]], links: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Report networks of wanted ports that another port is already in: it may be the path to the controller."""
    found = []
    for port, want in wanted.items():
        for address in want["addresses"]:
            network = ipaddress.ip_interface(address).network
            found += [
                f"{port} would be in {network}, where {name} has {other} already"
                for name, link in links.items()
                if name not in wanted and not comes_and_goes(name)
                for other in link.get("addresses") or []
                if ":" not in other and ipaddress.ip_interface(other).network.overlaps(network)
            ]
    return found


def lost_connectivity(
    ports: Iterable[str],
    links_before: Mapping[str, Mapping[str, Any]],
    links_after: Mapping[str, Mapping[str, Any]],
    routes_before: Iterable[str],
    routes_after: Iterable[str],
) -> list[str]:
    """Report what the host had outside of `ports` and lost: the path to its controller may depend on it."""
    ours = set(ports)
    lost = []
    for name, link in links_before.items():
        if name in ours or comes_and_goes(name):
            continue
        remaining = (links_after.get(name) or {}).get("addresses") or []
        lost += [
            f"port {name} lost its address {address}"
            for address in link.get("addresses") or []
            # Routers renew IPv6 addresses at their own pace; a lost IPv4 address means a lost connection.
            if ":" not in address and address not in remaining
        ]
    kept = set(routes_after)
    lost += [
        f"the default route {route} is gone"
        for route in sorted(routes_before)
        if route not in kept and route.rpartition(" ")[2] not in ours
    ]
    return lost
