# SPDX-License-Identifier: Apache-2.0
"""The positions of a rack that have a node: by count or serials, without absent ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors

ERRORS = {
    "rack.nodes": "Positions decide names and addresses, so each must be unambiguous.",
    "rack.serial": "A serial identifies one machine; used twice, it would be one machine at two addresses.",
    "rack.head": "One host of a cluster runs the Ray head and the server; a position without a node runs nothing.",
}

MOST_NODES = 4096

_SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Nodes:
    """Positions with a node in order, known serials, and the head's position."""

    positions: tuple[int, ...] = ()
    serials: Mapping[int, str] = field(default_factory=dict)
    head: int | None = None


def is_whole(value: object, least: int, most: int) -> bool:
    """Return whether this is an integer (not a bool) within the bounds."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def read_nodes(where: str, given: Mapping[str, Any], errors: PlanErrors) -> Nodes:
    """Read the nodes of a rack from count, serials, absent and head."""
    serials = _serials(where, given.get("serials"), errors)
    count = given.get("count")
    if count is not None and not is_whole(count, 1, MOST_NODES):
        _refuse(errors, f"count of {where} is {count!r}", f"count is a whole number from 1 to {MOST_NODES}")
        return Nodes()
    if count is None and not serials:
        if given.get("serials") is None:
            _refuse(errors, f"{where} has neither count nor serials", "a rack says how many nodes it has, or which")
        return Nodes()
    beyond = sorted(position for position in serials if count is not None and position > count)
    if beyond:
        _refuse(
            errors, f"{where} has count: {count} and a serial at position {beyond[0]}", "positions go from 1 to count"
        )
    listed = range(1, count + 1) if count is not None else sorted(serials)
    absent = _absent(where, given.get("absent"), max(listed), errors)
    positions = tuple(position for position in listed if position not in absent)
    if not positions:
        _refuse(errors, f"every position of {where} is absent", "a rack has at least one node")
    serials = {position: serial for position, serial in serials.items() if position not in absent}
    return Nodes(positions, serials, _head(where, given.get("head"), positions, errors))


def _refuse(errors: PlanErrors, found: str, rule: str) -> None:
    errors.add(
        "rack.nodes",
        found,
        rule,
        "write count: 4, or serials: {1: SERIAL, 2: SERIAL}, and absent: [3] for a position that has no node",
    )


def _serials(where: str, given: object, errors: PlanErrors) -> dict[int, str]:
    """Read serials by position; a list counts from 1, and null in it is a position without a node."""
    if given is None:
        return {}
    if isinstance(given, (list, tuple)):
        given = {position: serial for position, serial in enumerate(given, 1) if serial is not None}
    if not isinstance(given, Mapping) or not given:
        _refuse(errors, f"serials of {where} is {given!r}", "serials is a list, or a mapping of positions to serials")
        return {}
    found: dict[int, str] = {}
    for position, value in given.items():
        if not is_whole(position, 1, MOST_NODES):
            _refuse(
                errors,
                f"serials of {where} has the position {position!r}",
                f"a position is a whole number from 1 to {MOST_NODES}",
            )
        elif not isinstance(value, str) or not _SERIAL.fullmatch(value):
            errors.add(
                "rack.serial",
                f"the serial at position {position} of {where} is {value!r}",
                "a serial is text of letters, digits, dots, dashes and underscores; as a number it loses leading zeros",
                "copy it from the machine's label, in quotes",
            )
        else:
            found[int(position)] = value
    return found


def _absent(where: str, given: object, last: int, errors: PlanErrors) -> frozenset[int]:
    if given is None:
        return frozenset()
    if not isinstance(given, (list, tuple)) or not all(is_whole(one, 1, last) for one in given):
        _refuse(errors, f"absent of {where} is {given!r}", f"absent is a list of positions, which go from 1 to {last}")
        return frozenset()
    return frozenset(given)


def _head(where: str, given: object, positions: tuple[int, ...], errors: PlanErrors) -> int | None:
    if given is None or (is_whole(given, 1, MOST_NODES) and given in positions):
        return given if isinstance(given, int) else None
    shown = ", ".join(str(one) for one in positions[:8]) + (", ..." if len(positions) > 8 else "")
    errors.add(
        "rack.head",
        f"head of {where} is {given!r}",
        f"head is the position of one of the rack's nodes: {shown or 'none'}",
        "write the position of a node that is there, or leave head out where another rack has it",
    )
    return None
