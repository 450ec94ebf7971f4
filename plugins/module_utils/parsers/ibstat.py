# SPDX-License-Identifier: Apache-2.0
"""Parses `ibstat`, of all devices, of one device, or of one port."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from .captures import (
    Section,
    asked_for,
    key_value,
    link_layer,
    number,
    physical_state,
    port_state,
    runs,
    sections,
    told,
    version,
    whole,
)

_PORT_FIELDS = ("state", "phys_state", "rate_gbit", "link_layer", "lid", "port_guid", "firmware", "type", "node_guid")
_UNNAMED = re.compile(r"^\s*Physical state:", re.IGNORECASE)
_PORT = re.compile(r"^\s*Port\s+(?P<port>\d{1,3})\s*:", re.IGNORECASE)


def parse_ibstat(text: str) -> dict[str, dict[int, dict[str, Any]]]:
    """Parse every device with its ports: {device: {port: {state, phys_state, rate_gbit, link_layer, firmware, ...}}}.

    States are named as in `rdma link` (ACTIVE, LINK_UP), missing values are None. A device printed twice has its last
    values. Ports without a device named in the text are under ?1, ?2, and so on. The rate of a port that is down means
    nothing: it is what the port fell back to.
    """
    devices: dict[str, dict[int, dict[str, Any]]] = {}
    for section in sections(text):
        if section.tool == "ibstat" and (section.device or asked_for(section)):
            for port, values in _ports(section).items():
                ports = devices.setdefault(section.device or asked_for(section), {})
                ports.setdefault(port, dict.fromkeys(_PORT_FIELDS)).update(values)
        elif section.tool == "ibstat" or any(_UNNAMED.match(line) for line in section.lines if not section.tool):
            for lines in runs(section.lines, _READERS):
                for values in _ports(replace(section, lines=lines)).values():
                    devices[f"?{len(devices) + 1}"] = {1: dict.fromkeys(_PORT_FIELDS) | values}
    return devices


def _ports(section: Section) -> dict[int, dict[str, Any]]:
    device: dict[str, Any] = {}
    ports: dict[int, dict[str, Any]] = {}
    here = device
    for line in section.lines:
        started = _PORT.match(line)
        key, value = key_value(line)
        if started:
            here = ports.setdefault(int(started["port"]), {})
        elif key in _READERS:
            name, read = _READERS[key]
            here[name] = read(value)
    if not ports and {"state", "phys_state", "rate_gbit", "link_layer"} & device.keys():
        ports[1] = {}  # `| grep` removed the port's own line
    for values in ports.values():
        for name, value in device.items():
            values.setdefault(name, value)
    return ports


_READERS: dict[str, tuple[str, Any]] = {
    "ca type": ("type", told),
    "firmware version": ("firmware", version),
    "node guid": ("node_guid", told),
    "state": ("state", port_state),
    "physical state": ("phys_state", physical_state),
    "rate": ("rate_gbit", number),
    "base lid": ("lid", whole),
    "port guid": ("port_guid", told),
    "link layer": ("link_layer", link_layer),
}
