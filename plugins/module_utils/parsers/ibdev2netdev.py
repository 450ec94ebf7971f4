# SPDX-License-Identifier: Apache-2.0
"""Parses `ibdev2netdev`, with or without -v: the network port of each RDMA device, and whether it is up."""

from __future__ import annotations

import re
from typing import Any

from .captures import capture_lines, port_state, version

_FIELDS = ("netdev", "up", "state", "pci", "firmware", "type")
_LINE = re.compile(
    r"^[#\s]*(?:(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d)\s+)?"
    r"(?P<device>[^\s(]+)(?:\s+\((?P<type>[^)]{0,80})\))?(?P<about>\s.{0,400}?)?\s+port\s+(?P<port>\d{1,3})"
    r"(?:\s+\((?P<state>[^)]{0,40})\))?\s*=+>\s*(?P<netdev>[^\s(]+)?\s*(?:\((?P<up>[^)]{0,20})\))?",
    re.IGNORECASE,
)
_FIRMWARE = re.compile(r"\bfw\s+(?P<version>\S+)", re.IGNORECASE)


def parse_ibdev2netdev(text: str) -> dict[str, dict[int, dict[str, Any]]]:
    """Parse every device with its ports: {device: {port: {netdev, up, state, pci, firmware, type}}}; missing is None.

    `up` is the word after the network port. Only `ibdev2netdev -v` prints PCI function, firmware and state.
    """
    devices: dict[str, dict[int, dict[str, Any]]] = {}
    for line in capture_lines(text):
        found = _LINE.match(line)
        if not found:
            continue
        firmware = _FIRMWARE.search(found["about"] or "")
        values = devices.setdefault(found["device"], {}).setdefault(int(found["port"]), dict.fromkeys(_FIELDS))
        told_now = {
            "netdev": found["netdev"],
            "up": {"up": True, "down": False}.get((found["up"] or "").strip().lower()),
            "state": port_state(found["state"] or ""),
            "pci": found["pci"],
            "firmware": version(firmware["version"]) if firmware else None,
            "type": (found["type"] or "").split(" - ")[0].strip() or None,
        }
        values.update({name: value for name, value in told_now.items() if value is not None})
    return devices
