# SPDX-License-Identifier: Apache-2.0
"""Read the required speed of the fabric and the marking of its traffic from an intent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import check_keys

LIMITS_ERRORS = {
    "fabric.minimum_bandwidth": "A minimum that is not a rate would let every measurement pass, or none.",
    "fabric.speed": "The speed that a port must negotiate is one that ports have.",
    "fabric.qos": "A priority is one of the eight a switch has, a DSCP one of the 64 that fit into a packet.",
}

MINIMUM_BANDWIDTHS = ("tcp_gbit", "rdma_gbit")
_FASTEST = 1600
"""Gb/s: more than any current port."""
_OF_SPEED = 0.8
"""Share of a link's nominal speed that a healthy one always reaches."""
_QOS_MOST = {"priority": 7, "dscp": 63}


def read_minimum_bandwidth(
    fabric: Mapping[str, Any], profile: Mapping[str, Any], errors: PlanErrors
) -> dict[str, float]:
    """Return the minimum rates between two hosts on one rail; the operator's values override the profile's.

    The profile's rates are for its own ports and are capped for a slower link, which could never reach them.
    """
    given = _mapping(
        fabric,
        "minimum_bandwidth",
        MINIMUM_BANDWIDTHS,
        "fabric.minimum_bandwidth",
        "{tcp_gbit: 20, rdma_gbit: 85}",
        errors,
    )
    speed = fabric.get("speed_gbit")
    most = _OF_SPEED * speed if _is_rate(speed) and speed else _FASTEST
    known = {
        name: min(value, most) for name, value in (profile.get("minimum_bandwidth") or {}).items() if value is not None
    }
    minimum_bandwidth = {**known, **given}
    for name, value in given.items():
        if name in MINIMUM_BANDWIDTHS and not _is_rate(value):
            errors.add(
                "fabric.minimum_bandwidth",
                f"firstlight_fabric.minimum_bandwidth.{name} is {value!r}",
                f"a minimum is a number of Gb/s, from 0 to {_FASTEST}",
                "write it without quotes; 0 lets any rate pass",
            )
            minimum_bandwidth.pop(name)
    return {name: minimum_bandwidth[name] for name in MINIMUM_BANDWIDTHS if minimum_bandwidth.get(name) is not None}


def read_speed(fabric: Mapping[str, Any], profile: Mapping[str, Any], errors: PlanErrors) -> int | None:
    """Return the speed that every fabric port must have negotiated, in Mb/s."""
    speeds = {port.get("speed_mbit") for port in profile.get("ports") or []}
    known = speeds.pop() if len(speeds) == 1 else None
    given = fabric.get("speed_gbit")
    if given is None:
        return int(known) if known is not None else None
    if not _is_rate(given) or given == 0:
        errors.add(
            "fabric.speed",
            f"firstlight_fabric.speed_gbit is {given!r}",
            f"the speed of a port is a number of Gb/s above 0, up to {_FASTEST}",
            "write 200, or 100 where the switch has no more, or leave it out to follow the hardware profile",
        )
        return None
    return int(given * 1000)


def read_qos(fabric: Mapping[str, Any], errors: PlanErrors) -> dict[str, int]:
    """Return priority and DSCP of RDMA traffic; both, or neither."""
    given = _mapping(fabric, "qos", tuple(_QOS_MOST), "fabric.qos", "{priority: 3, dscp: 26}", errors)
    if not given:
        return {}
    wrong = [name for name, most in _QOS_MOST.items() if not _is_whole(given.get(name), most)]
    for name in wrong:
        errors.add(
            "fabric.qos",
            f"firstlight_fabric.qos.{name} is {given.get(name)!r}",
            f"{name} is a whole number from 0 to {_QOS_MOST[name]}, the same as on the switch",
            "write both, as {priority: 3, dscp: 26}, or leave qos out",
        )
    return {} if wrong else {name: given[name] for name in _QOS_MOST}


def _mapping(
    fabric: Mapping[str, Any], name: str, known: tuple[str, ...], identifier: str, example: str, errors: PlanErrors
) -> dict[str, Any]:
    value = fabric.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        errors.add(
            identifier,
            f"firstlight_fabric.{name} is {value!r}",
            f"{name} is a mapping with the keys {', '.join(known)}",
            f"write it as {example}",
        )
        return {}
    check_keys(value, known, f"firstlight_fabric.{name}", errors)
    return dict(value)


def _is_rate(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _FASTEST


def _is_whole(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
