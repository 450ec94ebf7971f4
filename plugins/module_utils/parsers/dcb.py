# SPDX-License-Identifier: Apache-2.0
"""Parses `dcb` of iproute2: which priorities are lossless, and which DSCP maps to which priority."""

from __future__ import annotations

import re
from typing import Any

from .captures import json_objects

PRIORITIES = 8
_NAMES = {
    **{f"CS{number}": number << 3 for number in range(8)},
    **{f"AF{group}{drop}": (group << 3) + (drop << 1) for group in range(1, 5) for drop in range(1, 4)},
    "EF": 46,
    "BE": 0,
    "LE": 1,
    "VA": 44,
}
"""Names that dcb prints instead of numbers, by RFC 4594."""
_PAIR = re.compile(r"(?P<key>[\w.]+):(?P<value>\w+)")


def parse_dcb_pfc(text: str) -> tuple[bool, ...] | None:
    """Parse `dcb pfc show dev PORT`, with or without -j: whether each of the 8 priorities is paused instead of dropped.

    None when the text does not show all of them.
    """
    for found in json_objects(text):
        listed = found.get("prio_pfc", found.get("prio-pfc"))
        if isinstance(listed, list) and len(listed) == PRIORITIES:
            return tuple(one in (True, 1, "on", "true") for one in listed)
    told = {pair["key"]: pair["value"] for pair in _pairs(text, "prio-pfc")}
    if set(told) != {str(number) for number in range(PRIORITIES)}:
        return None
    return tuple(told[str(number)] == "on" for number in range(PRIORITIES))


def parse_dcb_app(text: str) -> dict[int, int]:
    """Parse `dcb app show dev PORT`, with or without -j: the priority of each DSCP that has one."""
    priorities: dict[int, int] = {}
    for found in json_objects(text):
        listed = found.get("dscp_prio", found.get("dscp-prio"))
        for entry in listed if isinstance(listed, list) else ():
            # Some versions end each entry with an extra blank element.
            if isinstance(entry, list) and len(entry) >= 2 and _is_number(entry[1]):
                dscp = _dscp(str(entry[0]))
                if dscp is not None:
                    priorities[dscp] = entry[1]
    for pair in _pairs(text, "dscp-prio"):
        dscp = _dscp(pair["key"])
        if dscp is not None and pair["value"].isdecimal():
            priorities[dscp] = int(pair["value"][:3])
    return priorities


def parse_dcb_dcbx(text: str) -> frozenset[str]:
    """Parse `dcb dcbx show dev PORT`, with or without -j: host, lld-managed, cee, ieee, static."""
    known = {"host", "lld-managed", "cee", "ieee", "static"}
    for found in json_objects(text):
        return frozenset(key.replace("_", "-") for key, on in found.items() if on is True) & known
    return frozenset(text.split()) & known


def _pairs(text: str, keyword: str) -> list[re.Match[str]]:
    return [
        pair
        for line in text.splitlines()
        if line.strip().startswith(keyword)
        for pair in _PAIR.finditer(line.strip().removeprefix(keyword))
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _dscp(text: str) -> int | None:
    if text.isdecimal() and len(text) < 4:
        return int(text) if int(text) < 64 else None
    return _NAMES.get(text.upper())
