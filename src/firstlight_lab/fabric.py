# SPDX-License-Identifier: Apache-2.0
"""Administration of the fabric switch, and moving cables."""

from __future__ import annotations

import json
import re
from typing import Any

from .cluster import Lab
from .images import equipment
from .shell import LabError

RATE = re.compile(r"^[1-9][0-9]*(kbit|mbit|gbit)$")
NO_RATE = "none"


def change_fabric(
    lab: Lab,
    *,
    node: str | None = None,
    port: str | None = None,
    mtu: int | None = None,
    down: bool | None = None,
    rate: str | None = None,
    cage: int | None = None,
) -> None:
    """Change the switch's ports: all of them, those of one node, those with one name, or a single one."""
    ports = {entry["name"]: list(entry["ports"]) for entry in lab.record()["nodes"]}
    if node is not None and node not in ports:
        raise LabError(f"There is no node {node!r} in the lab {lab.name}; its nodes are {', '.join(ports)}.")
    known = list(dict.fromkeys(name for of in ports.values() for name in of))
    if port is not None and port not in known:
        raise LabError(f"There is no port {port!r} in the lab {lab.name}; its ports are {', '.join(known) or 'none'}.")
    if mtu is not None and not 1280 <= mtu <= 9216:
        raise LabError(f"The MTU is {mtu}; expected 1280 to 9216.")
    if rate is not None and rate != NO_RATE and not RATE.match(rate):
        raise LabError(
            f"The rate is {rate!r}; expected a number with kbit, mbit or gbit, such as 200mbit, or {NO_RATE}."
        )
    if cage is not None and port is not None:
        raise LabError(f"A cage has two ports, so {port} cannot be moved alone; omit --port with --cage.")
    change: dict[str, Any] = {
        "nodes": [lab.container(node)] if node is not None else [],
        "ports": [port] if port is not None else [],
    }
    if rate is not None:
        change["rate"] = None if rate == NO_RATE else rate
    change.update({key: value for key, value in (("mtu", mtu), ("down", down), ("cage", cage)) if value is not None})
    if len(change) == 2:
        raise LabError("No change was specified; expected at least one of --mtu, --down, --up, --rate and --cage.")
    program = ("python3", "-c", equipment("switch.py"), "change", json.dumps(change))
    lab.engine().docker("exec", lab.container("switch"), *program)
