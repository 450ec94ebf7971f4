# SPDX-License-Identifier: Apache-2.0
"""Parses `ibv_devinfo`, with or without -v: the only tool that shows the RDMA MTU a port really uses."""

from __future__ import annotations

import re
from typing import Any

from .captures import (
    Section,
    asked_for,
    key_value,
    link_layer,
    number,
    physical_state,
    port_state,
    sections,
    told,
    version,
    whole,
)

_PORT_FIELDS = (
    "state",
    "phys_state",
    "max_mtu",
    "active_mtu",
    "link_layer",
    "lid",
    "width",
    "lane_gbit",
    "rate_gbit",
    "firmware",
    "node_guid",
    "transport",
    "board_id",
    "gids",
)
_GID = re.compile(r"^\s*GID\[\s*(?P<index>\d{1,5})\s*\]:\s*(?P<address>[0-9a-fA-F:.]+)(?:\s*,\s*(?P<type>.+))?$")


def parse_ibv_devinfo(text: str) -> dict[str, dict[int, dict[str, Any]]]:
    """Parse every device with its ports: {device: {port: {state, phys_state, max_mtu, active_mtu, link_layer, ...}}}.

    Missing values are None. Only `ibv_devinfo -v` prints the physical state, the width and the GIDs; the rate is
    computed from the width and speed of a lane, so it needs -v, too. A device printed twice has its last values.
    """
    devices: dict[str, dict[int, dict[str, Any]]] = {}
    for section in sections(text):
        device = section.device or asked_for(section, "-d")
        if section.tool == "ibv_devinfo" and device:
            for port, values in _ports(section).items():
                devices.setdefault(device, {}).setdefault(port, dict.fromkeys(_PORT_FIELDS) | {"gids": []}).update(
                    values
                )
    return devices


def _ports(section: Section) -> dict[int, dict[str, Any]]:
    """Parse the ports of one device; values of the device apply to each."""
    device: dict[str, Any] = {}
    ports: dict[int, dict[str, Any]] = {}
    here: dict[str, Any] = device
    for line in section.lines:
        key, value = key_value(line)
        gid = _GID.match(line)
        if gid:
            here.setdefault("gids", []).append(_gid(gid))
        elif key == "port" and value.isdecimal() and len(value) < 4:
            here = ports.setdefault(int(value), {})
        elif key in _READERS:
            name, read = _READERS[key]
            here[name] = read(value)
    if not ports and _tells_a_port(device):
        ports[1] = {}  # `| grep` removed the port's own line
    for values in ports.values():
        for name, value in device.items():
            values.setdefault(name, value)
        lanes, lane = values.get("width"), values.get("lane_gbit")
        if lanes is not None and lane is not None:
            rate = lanes * lane
            values["rate_gbit"] = int(rate) if rate == int(rate) else rate
    return ports


def _tells_a_port(values: dict[str, Any]) -> bool:
    return any(name in values for name in ("state", "active_mtu", "max_mtu", "link_layer", "phys_state"))


def _gid(found: re.Match[str]) -> dict[str, Any]:
    return {"index": int(found["index"]), "address": found["address"].lower(), "type": told(found["type"] or "")}


def _width(value: str) -> int | None:
    found = re.match(r"(\d{1,2})[xX]\b", value.strip())
    return int(found[1]) if found else None


_READERS: dict[str, tuple[str, Any]] = {
    "state": ("state", port_state),
    "phys state": ("phys_state", physical_state),
    "max mtu": ("max_mtu", whole),
    "active mtu": ("active_mtu", whole),
    "link layer": ("link_layer", link_layer),
    "port lid": ("lid", whole),
    "active width": ("width", _width),
    "active speed": ("lane_gbit", number),
    "fw ver": ("firmware", version),
    "node guid": ("node_guid", told),
    "transport": ("transport", told),
    "board id": ("board_id", told),
}
