# SPDX-License-Identifier: Apache-2.0
"""Read the fabric part of an intent: its rails, their MTU, whether RDMA is used, and the required speed."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import NUMBER, HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.addressing import (
    AddressingError,
    host_address,
    is_ipv4_address,
    network_of,
    overlapping,
    parse_subnet,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.fabric_network import MTU_LEAST, MTU_MOST
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.limits import (
    LIMITS_ERRORS,
    read_minimum_bandwidth,
    read_qos,
    read_speed,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.rails import (
    RAILS_ERRORS,
    Rail,
    rail_notes,
    read_rails,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import read_mapping

ROCE_MTU = 4200
"""Smallest MTU at which a RoCE packet carries 4096 bytes."""
MOST_HOSTS = 60_000

ERRORS = {
    **RAILS_ERRORS,
    **LIMITS_ERRORS,
    "fabric.rdma": "Whether RDMA is used decides devices, environment and mounts, so it must be true or false.",
    "fabric.network": "A fabric subnet that overlaps another network of the hosts diverts that network's traffic.",
    "fabric.mtu": f"A port takes an MTU from {MTU_LEAST} (the least for IPv6) to {MTU_MOST} (what switches pass).",
    "fabric.number": "Two hosts with the same number would have the same address.",
}

FABRIC_KEYS = ("mtu", "rails", "rdma", "minimum_bandwidth", "speed_gbit", "qos")
_UNUSABLE = (
    ("127.0.0.0/8", "is the hosts' loopback"),
    ("169.254.0.0/16", "is for link-local addresses"),
    ("224.0.0.0/3", "is for multicast and reserved"),
    ("0.0.0.0/8", "is reserved"),
)
DOCKER_BRIDGE = "172.17.0.0/16"
"""Docker's default bridge, unless the daemon is configured otherwise."""


@dataclass(frozen=True)
class Fabric:
    """The fabric of the whole cluster; empty without rails."""

    rails: tuple[Rail, ...]
    mtu: int
    rdma: bool
    numbers: tuple[int, ...]
    """Each host's number, in the order of the inventory."""
    minimum_bandwidth: Mapping[str, float] = field(default_factory=dict)
    """tcp_gbit and rdma_gbit that a pair of hosts must reach on a rail; empty if unknown."""
    speed_mbit: int | None = None
    """The speed a port must have negotiated; None if the hardware profile has no figure."""
    slower: tuple[Mapping[str, Any], ...] = ()
    """Lower speeds that the profile accepts, each with its cost and minimum bandwidth; empty if a speed is set."""
    qos: Mapping[str, int] = field(default_factory=dict)
    """Priority and dscp of RDMA traffic; empty leaves the ports as they are."""
    notes: tuple[str, ...] = ()

    @functools.cached_property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of all hosts on all rails; the same for every host, and growing with the cluster."""
        return tuple(host_address(rail.subnet, one).partition("/")[0] for one in self.numbers for rail in self.rails)


def read_fabric(
    intent: Mapping[str, Any],
    hardware: Mapping[str, Any] | None,
    stack: Mapping[str, Any] | None,
    hosts: Sequence[HostIntent],
    errors: PlanErrors,
) -> Fabric:
    """Read the fabric between these hosts."""
    fabric = read_mapping(intent, "firstlight_fabric", FABRIC_KEYS, errors)
    numbers = _numbers(hosts, errors)
    profile = dict(hardware["fabric"]) if hardware else {}
    rails = read_rails(fabric, numbers, profile.get("ports") or [], errors)
    _check_networks(rails, _other_networks(intent, stack, errors), hosts, errors)
    mtu = _mtu(fabric, errors)
    rdma = fabric.get("rdma", profile.get("rdma", False))
    if not isinstance(rdma, bool):
        errors.add(
            "fabric.rdma",
            f"firstlight_fabric.rdma is {rdma!r}",
            "rdma is true or false",
            "write it without quotes, or leave it out to follow the hardware profile",
        )
    return Fabric(
        rails,
        mtu,
        bool(rdma) and bool(rails),
        numbers,
        read_minimum_bandwidth(fabric, profile, errors),
        read_speed(fabric, profile, errors),
        _slower(fabric, profile),
        read_qos(fabric, errors),
        (*rail_notes(rails, profile), *_mtu_notes(mtu, bool(rdma) and bool(rails), profile)),
    )


def _mtu_notes(mtu: int, rdma: bool, profile: Mapping[str, Any]) -> list[str]:
    """Return a note on what a small MTU costs RDMA over Ethernet: packets are 256, 512, 1024, 2048 or 4096 bytes."""
    if not rdma or mtu >= ROCE_MTU or profile.get("link_layer") == "InfiniBand":
        return []
    size = max(size for size in (256, 512, 1024, 2048) if size + 100 < mtu)
    note = f"With an MTU of {mtu} RoCE sends packets of {size} bytes instead of 4096: set firstlight_fabric.mtu to 9000"
    return [f"{note} where the switch passes jumbo frames."]


def _slower(fabric: Mapping[str, Any], profile: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the lower speeds the profile accepts, with the minimum bandwidth that naming that speed would give."""
    if fabric.get("speed_gbit") is not None:
        return ()
    return tuple(
        {
            **one,
            "minimum_bandwidth": read_minimum_bandwidth(
                {**fabric, "speed_gbit": one["speed_mbit"] / 1000}, profile, PlanErrors()
            ),
        }
        for one in profile.get("slower") or ()
    )


def _numbers(hosts: Sequence[HostIntent], errors: PlanErrors) -> tuple[int, ...]:
    """Return each host's number: from the inventory, else its place among the hosts without one."""
    numbers: list[int] = []
    places = itertools.count()
    for host in hosts:
        number = next(places) if host.number is None else host.number
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < MOST_HOSTS:
            errors.add(
                "fabric.number",
                f"{NUMBER} of {host.name} is {number!r}",
                f"it is a whole number from 0 to {MOST_HOSTS - 1}; number 0 has the address .10",
                f"correct {NUMBER} of {host.name}, or leave it out to follow the order of the inventory",
            )
            continue
        if number in numbers:
            other = hosts[numbers.index(number)].name
            errors.add(
                "fabric.number",
                f"{other} and {host.name} both have the fabric number {number}",
                "a number is a host's address in every rail, so no two hosts share one",
                f"give {host.name} another {NUMBER}; a host without one gets its position in the inventory, from 0",
            )
        numbers.append(number)
    return tuple(numbers) if len(numbers) == len(hosts) else tuple(range(len(hosts)))


def _other_networks(
    intent: Mapping[str, Any], stack: Mapping[str, Any] | None, errors: PlanErrors
) -> list[tuple[str, str]]:
    """Return the networks that a rail may not overlap, each with a description."""
    others = list(_UNUSABLE)
    daemon = (stack or {}).get("daemon") or {}
    if daemon.get("bridge") != "none":
        bridge = str(daemon.get("bip") or DOCKER_BRIDGE)
        others.append((network_of(bridge) or DOCKER_BRIDGE, "is the Docker bridge of every host"))
    given = intent.get("firstlight_networks")
    for number, text in enumerate(given if isinstance(given, (list, tuple)) else []):
        try:
            parse_subnet(text)
        except AddressingError as error:
            errors.add(
                "fabric.network",
                f"firstlight_networks[{number}]: {error}",
                "firstlight_networks lists the subnets that the hosts already use",
                "write each as 10.0.0.0/24",
            )
            continue
        others.append((str(text), "is in firstlight_networks"))
    if given is not None and not isinstance(given, (list, tuple)):
        errors.add(
            "intent.type",
            f"firstlight_networks is {given!r}",
            "firstlight_networks is a list of subnets",
            "write it as [10.0.0.0/24]",
        )
    return others


def _check_networks(
    rails: Sequence[Rail], others: Sequence[tuple[str, str]], hosts: Sequence[HostIntent], errors: PlanErrors
) -> None:
    """Refuse a rail that overlaps another network; one error per rail, since an overlap spans many addresses."""
    for rail in rails:
        subnet = parse_subnet(rail.subnet)
        meets = [f"{network}, which {what}" for network, what in others if overlapping([rail.subnet, network])]
        managed = [host for host in hosts if is_ipv4_address(host.address) and IPv4Address(str(host.address)) in subnet]
        if managed:
            more = f" and {len(managed) - 1} more" if len(managed) > 1 else ""
            meets.append(f"{managed[0].address}, the management address of {managed[0].name}{more}")
        if meets:
            errors.add(
                "fabric.network",
                f"subnet {rail.subnet} of {rail.words} overlaps {'; and '.join(meets)}",
                "a fabric subnet is used by the fabric alone",
                f"give the rail of {rail.words} a subnet that nothing else uses",
            )


def _mtu(fabric: Mapping[str, Any], errors: PlanErrors) -> int:
    mtu = fabric.get("mtu", 9000)
    if isinstance(mtu, bool) or not isinstance(mtu, int) or not MTU_LEAST <= mtu <= MTU_MOST:
        errors.add(
            "fabric.mtu",
            f"firstlight_fabric.mtu is {mtu!r}",
            f"the MTU is a whole number from {MTU_LEAST} to {MTU_MOST}",
            "write 9000 (jumbo frames), or 1500 where the switch does not pass them, without quotes",
        )
        return 9000
    return mtu
