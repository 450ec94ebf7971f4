# SPDX-License-Identifier: Apache-2.0
"""Parses `rdma link`, as text or with -j: which network port belongs to which RDMA device."""

from __future__ import annotations

import itertools
import re
from typing import Any

from .captures import capture_lines, json_objects, physical_state, port_state, told

_FIELDS = ("state", "phys_state", "netdev", "lid")
_LINE = re.compile(
    r"(?:^|[\s#:])(?:link\s+|\d{1,4}/\d{1,4}:\s*)(?P<device>[^\s/:]+)/(?P<port>\d{1,3}):?\s+(?P<rest>.*\b(?:state|netdev)\b.*)$",
    re.IGNORECASE,
)


def parse_rdma_link(text: str) -> dict[str, dict[int, dict[str, Any]]]:
    """Parse every device with its ports: {device: {port: {state, phys_state, netdev, lid}}}; missing values are None.

    Handles both what iproute2 prints now (`link mlx5_0/1 state ...`) and what it printed until 2019 (`1/1: mlx5_0/1:
    state ...`).
    """
    devices: dict[str, dict[int, dict[str, Any]]] = {}
    for line in capture_lines(text):
        found = _LINE.search(line)
        if found:
            words = found["rest"].split()
            pairs = {key.lower(): value for key, value in itertools.pairwise(words)}
            _add(devices, found["device"], int(found["port"]), pairs)
    for one in json_objects(text):
        device, port = one.get("ifname"), one.get("port")
        if isinstance(device, str) and isinstance(port, int) and ("physical_state" in one or "state" in one):
            _add(devices, device, port, {key: str(value) for key, value in one.items()})
    return devices


def _add(devices: dict[str, dict[int, dict[str, Any]]], device: str, port: int, pairs: dict[str, str]) -> None:
    values = devices.setdefault(device, {}).setdefault(port, dict.fromkeys(_FIELDS))
    lid = pairs.get("lid", "")
    told_now = {
        "state": port_state(pairs.get("state", "")),
        "phys_state": physical_state(pairs.get("physical_state", "")),
        "netdev": told(pairs.get("netdev", "")),
        "lid": int(lid) if lid.isdecimal() and len(lid) < 10 else None,
    }
    values.update({name: value for name, value in told_now.items() if value is not None})
