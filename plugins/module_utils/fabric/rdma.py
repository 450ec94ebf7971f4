# SPDX-License-Identifier: Apache-2.0
"""Compare the RDMA device of a fabric port with the plan: present, active, at speed, with large frames and a GID."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..state.vocabulary import UNKNOWN

_HEADERS = 40 + 8 + 12 + 4 + 28 + 4
"""Bytes of a RoCE v2 packet besides the data: addresses, UDP, transport header and its extensions, checksum."""
_FRAMES = (4096, 2048, 1024, 512, 256)


def roce_mtu(port_mtu: int) -> int:
    """Return the MTU that the kernel selects for RDMA on an Ethernet port: 1024 at 1500, 4096 at 9000."""
    return next((size for size in _FRAMES if size <= port_mtu - _HEADERS), _FRAMES[-1])


def rdma_differences(
    desired: Mapping[str, Mapping[str, Any]], observed: Mapping[str, Mapping[str, Any]] | None
) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return (port, expected, observed) for every port whose RDMA device is not as desired."""
    found = []
    for port, want in desired.items():
        expected, seen = _compare(want, observed, port)
        if expected:
            found.append((port, expected, seen))
    return found


def _compare(
    want: Mapping[str, Any], observed: Mapping[str, Mapping[str, Any]] | None, port: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    if observed is None:
        return {"device": "an RDMA device"}, {"device": UNKNOWN}
    have = observed.get(port) or {}
    device = have.get("rdma_device")
    if device is None:
        return {"device": "an RDMA device"}, {"device": "none" if have else "none, the port is missing"}
    wanted: dict[str, Any] = {}
    if want.get("link_layer") and have.get("link_layer") != want["link_layer"]:
        wanted = {"link_layer": want["link_layer"]}
    elif have.get("rdma_state") != "ACTIVE":
        wanted = {"state": "ACTIVE"}
    else:
        speed = link_speed(have)
        if want.get("speed_mbit") and (speed is None or speed < want["speed_mbit"]):
            wanted["speed_mbit"] = want["speed_mbit"]
        if want.get("active_mtu") and have.get("active_mtu") != want["active_mtu"]:
            wanted["active_mtu"] = want["active_mtu"]
        if want.get("address") and want["address"] not in [gid["address"] for gid in have.get("gids") or ()]:
            wanted["gid"] = f"RoCE v2 of {want['address']}"
    values = {
        "link_layer": have.get("link_layer"),
        "state": have.get("rdma_state"),
        "speed_mbit": link_speed(have),
        "active_mtu": have.get("active_mtu"),
        "gid": ", ".join(gid["address"] for gid in have.get("gids") or ()) or "none",
    }
    seen = {field: UNKNOWN if values[field] is None else values[field] for field in wanted}
    return wanted, {"device": device, **seen}


def link_speed(have: Mapping[str, Any]) -> int | None:
    """Return the speed of the port in Mb/s, else the rate that its RDMA device reports."""
    if have.get("speed_mbit"):
        return int(have["speed_mbit"])
    return int(have["rate_gbit"] * 1000) if have.get("rate_gbit") else None


def rdma_sentence(port: str, expected: Mapping[str, Any], seen: Mapping[str, Any]) -> str:
    """Describe a difference in one line: observed, expected, and what to do."""
    have = ", ".join(f"{_WORDS[field]} {seen[field]}" for field in expected)
    wanted = ", ".join(f"{_WORDS[field]} {value}" for field, value in expected.items())
    name = "" if "device" in expected else f" ({seen['device']})"
    return f"RDMA of port {port}{name} has {have}, expected {wanted}: {rdma_remedy(port, expected, seen)}"


_WORDS = {
    "device": "device",
    "link_layer": "link layer",
    "state": "state",
    "speed_mbit": "speed (Mb/s)",
    "active_mtu": "active MTU",
    "gid": "GID",
}


def rdma_remedy(port: str, expected: Mapping[str, Any], seen: Mapping[str, Any]) -> str:
    """Return what to do about the first field that differs: the others often follow from it."""
    if "device" in expected:
        return (
            f"look at `ls /sys/class/net/{port}/device/infiniband` and load its driver (`modprobe mlx5_ib`), "
            "or set firstlight_fabric.rdma to false to run without RDMA"
        )
    if "link_layer" in expected:
        return (
            f"set the card's port to {expected['link_layer']} (`mlxconfig set LINK_TYPE_P1=2`) and power the host off "
            "and on"
        )
    if "state" in expected:
        return (
            f"look at the cable of {port} and at its port of the switch, and bring {port} up (`ip link set {port} up`)"
        )
    if "speed_mbit" in expected:
        return _speed_remedy(port, int(expected["speed_mbit"]) // 1000, seen["speed_mbit"])
    if "active_mtu" in expected:
        if seen["active_mtu"] == UNKNOWN:
            return "install ibverbs-utils, whose `ibv_devinfo` reports it"
        return f"it follows the MTU of {port}: run site.yml, which sets that"
    return f"it follows the address of {port}: run site.yml, which sets that"


def _speed_remedy(port: str, wanted: int, seen: Any) -> str:
    if seen == UNKNOWN:
        return f"look at `ethtool {port}`"
    mode = " (200G-baseCR4)" if wanted == 200 else ""
    got = int(seen) // 1000
    return (
        f"the switch port negotiated {got}G: set it to {wanted}G{mode}, autonegotiation and FEC on the switch, or "
        f"write speed_gbit: {got} in firstlight_fabric where the switch supports no more"
    )
