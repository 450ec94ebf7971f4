# SPDX-License-Identifier: Apache-2.0
"""Parsers for this machine's view of its neighbours: `ip -j neigh`, `ip -j addr`, `lldpctl -f json`. Pure functions."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.text import parse_json_list

_GONE = {"FAILED", "INCOMPLETE"}
_NO_HOST = {"Bridge", "Router"}


@dataclass(frozen=True)
class Port:
    """An interface of this machine, with its address and network."""

    name: str
    mac: str
    address: str
    network: ipaddress.IPv4Network


def parse_port(text: str, name: str) -> Port | None:
    """Return the named interface in `ip -j addr`, or None if it has no IPv4 address. Raises ValueError."""
    for entry in parse_json_list(text, "ip -j addr"):
        if entry.get("ifname") != name:
            continue
        for info in entry.get("addr_info") or []:
            if info.get("family") == "inet" and info.get("local"):
                network = ipaddress.IPv4Network(f"{info['local']}/{info['prefixlen']}", strict=False)
                return Port(name, str(entry.get("address", "")), str(info["local"]), network)
    return None


def parse_neighbours(text: str) -> dict[str, list[str]]:
    """Parse IPv4 address -> MAC addresses from the kernel's neighbour table. Raises ValueError."""
    found: dict[str, list[str]] = {}
    for entry in parse_json_list(text, "ip -j neigh"):
        address, mac = entry.get("dst"), entry.get("lladdr")
        if not isinstance(address, str) or not isinstance(mac, str) or ":" in address:
            continue
        if _GONE & set(entry.get("state") or []):
            continue
        macs = found.setdefault(address, [])
        if mac.lower() not in macs:
            macs.append(mac.lower())
    return found


@dataclass(frozen=True)
class Neighbour:
    """The device at the other end of a cable, as reported by LLDP."""

    interface: str
    name: str
    port: str
    addresses: tuple[str, ...]
    mac: str | None
    switch: bool


def parse_lldp(text: str) -> list[Neighbour]:
    """Parse `lldpctl -f json`, which prints a single item bare and several as a list. Raises ValueError otherwise."""
    if not text.strip():
        return []
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"`lldpctl -f json` did not print JSON ({error.msg})") from error
    found = document.get("lldp", {}) if isinstance(document, Mapping) else {}
    interfaces = found.get("interface", []) if isinstance(found, Mapping) else []
    return [_neighbour(name, entry) for one in _several(interfaces) for name, entry in _items(one)]


def _neighbour(interface: str, entry: Mapping[str, Any]) -> Neighbour:
    chassis_name, chassis = next(_items(entry.get("chassis") or {}), ("", {}))
    if "id" not in chassis and isinstance(entry.get("chassis"), Mapping) and "id" in entry["chassis"]:
        chassis_name, chassis = "", entry["chassis"]  # a neighbour that does not send its name
    identity = _mapping(chassis.get("id"))
    port = _mapping(entry.get("port"))
    capabilities = [_mapping(one) for one in _several(chassis.get("capability") or [])]
    enabled = {str(one.get("type")) for one in capabilities if one.get("enabled") is True}
    return Neighbour(
        interface=interface,
        name=chassis_name,
        port=str(port.get("descr") or _mapping(port.get("id")).get("value") or ""),
        addresses=tuple(str(one) for one in _several(chassis.get("mgmt-ip") or [])),
        mac=str(identity.get("value")).lower() if identity.get("type") == "mac" else None,
        switch=bool(enabled & _NO_HOST) and "Station" not in enabled,
    )


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, item in _mapping(value).items():
        if isinstance(item, Mapping):
            yield str(key), item
