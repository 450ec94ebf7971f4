# SPDX-License-Identifier: Apache-2.0
"""Individually assigned addresses of a rack's nodes, by position, for networks without a contiguous range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.addressing import is_ipv4_address
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.nodes import MOST_NODES, Nodes, is_whole

ERRORS = {"rack.addresses": "A node without an address of its own would be reached by its name, or be another machine."}


def read_addresses(where: str, given: Mapping[str, Any], nodes: Nodes, errors: PlanErrors) -> dict[int, str]:
    """Read the addresses by position; either all nodes of the rack have one, or none."""
    value = given.get("addresses")
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not value:
        _refuse(errors, f"addresses of {where} is {value!r}", "addresses is a mapping of positions to IPv4 addresses")
        return {}
    others = [key for key in ("management", "reach") if given.get(key) is not None]
    if others:
        _refuse(
            errors,
            f"{where} has addresses and {others[0]}",
            "a node is reached in one way: by addresses, by management, or by reach",
        )
        return {}
    wrong = [
        f"{position!r}: {text!r}"
        for position, text in value.items()
        if not is_whole(position, 1, MOST_NODES) or not isinstance(text, str) or not is_ipv4_address(text)
    ]
    if wrong:
        _refuse(
            errors,
            f"addresses of {where} has {', '.join(wrong[:8])}",
            f"each is a position from 1 to {MOST_NODES} with an IPv4 address",
        )
        return {}
    missing = [position for position in nodes.positions if position not in value]
    if missing:
        _refuse(
            errors,
            f"addresses of {where} has none for position {', '.join(str(one) for one in missing[:8])}",
            "every node of the rack has one",
        )
        return {}
    return {int(position): str(text) for position, text in value.items()}


def _refuse(errors: PlanErrors, found: str, rule: str) -> None:
    errors.add(
        "rack.addresses",
        found,
        rule,
        "write addresses: {1: 10.20.1.17, 2: 10.20.1.44}, or management where the addresses are consecutive",
    )
