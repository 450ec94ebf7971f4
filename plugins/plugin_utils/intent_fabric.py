# SPDX-License-Identifier: Apache-2.0
"""What an intent says of the fabric: its rails, their MTU, and whether RDMA is used over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.addressing import (
    AddressingError,
    host_address,
    overlapping,
    parse_subnet,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent_keys import check_keys, read_mapping
from ansible_collections.firstlight.cluster.plugins.plugin_utils.refusals import Refusals

MTU_LEAST, MTU_MOST = 1280, 9216

_FABRIC_KEYS = ("mtu", "rails", "rdma")
_RAIL_KEYS = ("port", "subnet")


@dataclass(frozen=True)
class Rail:
    """One rail of the fabric: the port it is on in every host, and its subnet."""

    port: str
    subnet: str


@dataclass(frozen=True)
class Fabric:
    """The fabric of the whole cluster; without rails there is none."""

    rails: tuple[Rail, ...]
    mtu: int
    rdma: bool


def read_fabric(intent: Mapping[str, Any], hardware: Mapping[str, Any] | None, size: int, refusals: Refusals) -> Fabric:
    """The fabric between `size` hosts of this hardware."""
    fabric = read_mapping(intent, "firstlight_fabric", _FABRIC_KEYS, refusals)
    rails = _rails(fabric, size, refusals)
    mtu = _mtu(fabric, refusals)
    rdma = fabric.get("rdma", hardware["fabric"]["rdma"] if hardware else False)
    if not isinstance(rdma, bool):
        refusals.add(
            "fabric.rdma",
            f"firstlight_fabric.rdma is {rdma!r}",
            "rdma is true or false",
            "write it without quotes, or leave it out to follow the hardware profile",
        )
    return Fabric(rails, mtu, bool(rdma) and bool(rails))


def _rails(fabric: Mapping[str, Any], size: int, refusals: Refusals) -> tuple[Rail, ...]:
    entries = fabric.get("rails") or []
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, Mapping) for entry in entries):
        refusals.add(
            "intent.type",
            f"firstlight_fabric.rails is {entries!r}",
            "rails is a list of mappings with port and subnet",
            "write each rail as {port: enp1s0f1np1, subnet: 192.168.100.0/24}",
        )
        return ()
    if size > 1 and not entries:
        refusals.add(
            "fabric.missing",
            f"{size} hosts and no rail in firstlight_fabric.rails",
            "hosts of one cluster talk over a fabric",
            "name the fabric ports and their subnets in firstlight_fabric.rails",
        )
    rails: list[Rail] = []
    for number, entry in enumerate(entries):
        where = f"firstlight_fabric.rails[{number}]"
        check_keys(entry, _RAIL_KEYS, where, refusals)
        port, subnet = entry.get("port"), entry.get("subnet")
        if not isinstance(port, str) or not 0 < len(port) <= 15:
            refusals.add(
                "fabric.port",
                f"{where}.port is {port!r}",
                "a port is the kernel's name of a network interface, 1 to 15 characters",
                "take the name from `ip -br link` on the host",
            )
            continue
        try:
            parse_subnet(subnet)
            host_address(str(subnet), max(size - 1, 0))
        except AddressingError as error:
            refusals.add(
                "fabric.subnet",
                f"{where}.subnet: {error}",
                "a rail's subnet holds .10 for the first host and one address more for each further host",
                "write a subnet of its own for the rail, for example 192.168.100.0/24",
            )
            continue
        rails.append(Rail(port, str(subnet)))
    for one, other in overlapping([rail.subnet for rail in rails]):
        refusals.add(
            "fabric.overlap",
            f"subnets {one} and {other} of firstlight_fabric.rails overlap",
            "each rail has its own subnet: of two ports in one subnet the kernel answers on either",
            "give every rail another subnet, for example 192.168.100.0/24 and 192.168.101.0/24",
        )
    ports = [rail.port for rail in rails]
    for port in sorted({port for port in ports if ports.count(port) > 1}):
        refusals.add(
            "fabric.port",
            f"port {port} is in {ports.count(port)} rails",
            "a port belongs to one rail",
            "give every rail its own port",
        )
    return tuple(rails)


def _mtu(fabric: Mapping[str, Any], refusals: Refusals) -> int:
    mtu = fabric.get("mtu", 9000)
    if isinstance(mtu, bool) or not isinstance(mtu, int) or not MTU_LEAST <= mtu <= MTU_MOST:
        refusals.add(
            "fabric.mtu",
            f"firstlight_fabric.mtu is {mtu!r}",
            f"the MTU is a whole number from {MTU_LEAST} to {MTU_MOST}",
            "write 9000 (jumbo frames), or 1500 where the switch does not pass them, without quotes",
        )
        return 9000
    return mtu
