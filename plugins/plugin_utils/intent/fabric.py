# SPDX-License-Identifier: Apache-2.0
"""What an intent says of the fabric: its rails, their MTU, and whether RDMA is used over them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.addressing import (
    AddressingError,
    host_address,
    is_address,
    network_of,
    overlapping,
    parse_subnet,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.hosts import NUMBER, HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.keys import check_keys, read_mapping
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusals

MTU_LEAST, MTU_MOST = 1280, 9216
MOST_HOSTS = 60_000

REFUSALS = {
    "fabric.rdma": "Whether RDMA is used decides devices, environment and mounts, so it must be plainly yes or no.",
    "fabric.missing": "Ranks on several hosts exchange activations for every token; over the management network that "
    "is unusably slow.",
    "fabric.port": "The kernel's name of the port is what netplan, NCCL and Gloo are given; it is never guessed.",
    "fabric.subnet": "Every host needs an address in every rail's subnet.",
    "fabric.overlap": "Of two ports in one subnet the kernel answers on either, and traffic takes the wrong rail.",
    "fabric.network": "A fabric subnet that overlaps another network of the hosts takes that network's traffic away.",
    "fabric.mtu": "A port takes an MTU from 1280 (the least for IPv6) to 9216 (what switches pass).",
    "fabric.number": "Two hosts with one number would have one address.",
}

FABRIC_KEYS = ("mtu", "rails", "rdma")
_RAIL_KEYS = ("port", "subnet")
_UNUSABLE = (
    ("127.0.0.0/8", "is the hosts' loopback"),
    ("169.254.0.0/16", "is for addresses that hosts give themselves"),
    ("224.0.0.0/3", "is for multicast and reserved"),
    ("0.0.0.0/8", "is reserved"),
)
DOCKER_BRIDGE = "172.17.0.0/16"
"""Docker's own bridge, unless the daemon is told another."""


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
    numbers: tuple[int, ...]
    """Each host's number, in the order of the inventory."""


def read_fabric(
    intent: Mapping[str, Any],
    hardware: Mapping[str, Any] | None,
    stack: Mapping[str, Any] | None,
    hosts: Sequence[HostIntent],
    refusals: Refusals,
) -> Fabric:
    """The fabric between these hosts."""
    fabric = read_mapping(intent, "firstlight_fabric", FABRIC_KEYS, refusals)
    numbers = _numbers(hosts, refusals)
    rails = _rails(fabric, numbers, refusals)
    _check_networks(rails, _other_networks(intent, stack, hosts, refusals), refusals)
    mtu = _mtu(fabric, refusals)
    rdma = fabric.get("rdma", hardware["fabric"]["rdma"] if hardware else False)
    if not isinstance(rdma, bool):
        refusals.add(
            "fabric.rdma",
            f"firstlight_fabric.rdma is {rdma!r}",
            "rdma is true or false",
            "write it without quotes, or leave it out to follow the hardware profile",
        )
    return Fabric(rails, mtu, bool(rdma) and bool(rails), numbers)


def _numbers(hosts: Sequence[HostIntent], refusals: Refusals) -> tuple[int, ...]:
    """Each host's number: what the inventory gives it, else its place among those it gives none."""
    numbers: list[int] = []
    places = itertools.count()
    for host in hosts:
        number = next(places) if host.number is None else host.number
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < MOST_HOSTS:
            refusals.add(
                "fabric.number",
                f"{NUMBER} of {host.name} is {number!r}",
                f"a number is whole, from 0 to {MOST_HOSTS - 1}: number 0 has the address .10",
                f"correct {NUMBER} of {host.name}, or leave it out to follow the order of the inventory",
            )
            continue
        if number in numbers:
            other = hosts[numbers.index(number)].name
            refusals.add(
                "fabric.number",
                f"{other} and {host.name} both have the fabric number {number}",
                "a number is a host's address in every rail, so no two hosts share one",
                f"give {host.name} another {NUMBER}; a host without one has its place in the inventory, from 0",
            )
        numbers.append(number)
    return tuple(numbers) if len(numbers) == len(hosts) else tuple(range(len(hosts)))


def _other_networks(
    intent: Mapping[str, Any], stack: Mapping[str, Any] | None, hosts: Sequence[HostIntent], refusals: Refusals
) -> list[tuple[str, str]]:
    """Networks a rail may not overlap, each with what it is."""
    others = list(_UNUSABLE)
    daemon = (stack or {}).get("daemon") or {}
    if daemon.get("bridge") != "none":
        bridge = str(daemon.get("bip") or DOCKER_BRIDGE)
        others.append((network_of(bridge) or DOCKER_BRIDGE, "is the bridge of every host's Docker"))
    others += [(f"{host.address}/32", f"is where {host.name} is managed") for host in hosts if is_address(host.address)]
    given = intent.get("firstlight_networks")
    for number, text in enumerate(given if isinstance(given, (list, tuple)) else []):
        try:
            parse_subnet(text)
        except AddressingError as error:
            refusals.add(
                "fabric.network",
                f"firstlight_networks[{number}]: {error}",
                "firstlight_networks lists the subnets that the hosts already use",
                "write each as 10.0.0.0/24",
            )
            continue
        others.append((str(text), "is in firstlight_networks"))
    if given is not None and not isinstance(given, (list, tuple)):
        refusals.add(
            "intent.type",
            f"firstlight_networks is {given!r}",
            "firstlight_networks is a list of subnets",
            "write it as [10.0.0.0/24]",
        )
    return others


def _check_networks(rails: Sequence[Rail], others: Sequence[tuple[str, str]], refusals: Refusals) -> None:
    for rail in rails:
        for network, what in others:
            if overlapping([rail.subnet, network]):
                refusals.add(
                    "fabric.network",
                    f"subnet {rail.subnet} of port {rail.port} overlaps {network.removesuffix('/32')}, which {what}",
                    "a fabric subnet is used by the fabric alone",
                    f"give the rail of port {rail.port} a subnet that nothing else uses",
                )


def _rails(fabric: Mapping[str, Any], numbers: Sequence[int], refusals: Refusals) -> tuple[Rail, ...]:
    size = len(numbers)
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
            port = None
        try:
            parse_subnet(subnet)
            host_address(str(subnet), max(numbers, default=0))
        except AddressingError as error:
            refusals.add(
                "fabric.subnet",
                f"{where}.subnet: {error}",
                "a rail's subnet holds .10 for the first host and one address more for each further host",
                "write a subnet of its own for the rail, as 192.168.100.0/24, or a larger one as 192.168.96.0/20",
            )
            continue
        if port is not None:
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
