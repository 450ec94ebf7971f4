# SPDX-License-Identifier: Apache-2.0
"""The fabric of a host before observation: its rails, what is expected of them, and the environment of the ranks.

What only the host knows (the port behind a cage, its RDMA device) is taken from the hardware profile, if it has that;
`host_plan` replaces it with what was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.kinds import keys_of_port
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.fabric_environment import (
    PINNED,
    device_words,
    fabric_environment,
    rdma_environment,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.addressing import host_address
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.intent import Fabric
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.rails import known_ports
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.host_plan import rdma_wanted
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent

ERRORS = {
    "fabric.gid": "The index of a GID differs between hosts and moves when a link comes up; NCCL and UCX find the "
    "right one by themselves, and a pinned one breaks later.",
}

ENVIRONMENTS = ("ray_cluster_environment", "inference_server_environment")
"""Role variables that hold the operator's own environment for the ranks."""


def fabric_of(fabric: Fabric, index: int) -> list[dict[str, Any]]:
    """Return place, address and MTU of every rail on the host at `index` of the inventory."""
    return [
        {**rail.entry(), "address": host_address(rail.subnet, fabric.numbers[index]), "mtu": fabric.mtu}
        for rail in fabric.rails
    ]


def paper_ports(fabric: Fabric, index: int) -> list[dict[str, Any]]:
    """Return the same ports as role fabric_network takes them, with the names known before observation."""
    return [
        {"port": rail.expected, "address": entry["address"], "mtu": entry["mtu"]}
        for rail, entry in zip(fabric.rails, fabric_of(fabric, index), strict=True)
    ]


def preflight_rails(fabric: Fabric) -> list[dict[str, Any]]:
    """Return the rails that preflight looks for on every host before anything is changed."""
    return [{"subnet": rail.subnet, **rail.entry(), "mtu": fabric.mtu} for rail in fabric.rails]


def rdma_of(resolved: ResolvedIntent, index: int) -> list[dict[str, Any]]:
    """Return what the RDMA devices behind the rails must show."""
    return rdma_wanted(paper_ports(resolved.fabric, index), fabric_facts(resolved, {}))


def paper_environment(resolved: ResolvedIntent) -> dict[str, str]:
    """Return the fabric environment of the ranks, as far as it is known before observation."""
    ports = [rail.expected for rail in resolved.fabric.rails]
    return fabric_environment(ports, resolved.fabric.rdma, _devices(resolved), resolved.fabric.qos)


def paper_devices(resolved: ResolvedIntent) -> dict[str, str]:
    """Return the part of that environment that no role derives from the first rail's port."""
    return rdma_environment(_devices(resolved), resolved.fabric.qos) if resolved.fabric.rdma else {}


def _devices(resolved: ResolvedIntent) -> list[str]:
    """Return RDMA devices by the hardware profile, for display and for commands that are run by hand."""
    known = {entry["port"]: entry for entry in resolved.hardware["fabric"]["ports"]}
    return device_words(known.get(rail.expected, {}) for rail in resolved.fabric.rails)


def fabric_facts(resolved: ResolvedIntent, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `host_plan` needs besides the rails; `given` holds the operator's own role variables."""
    own = [resolved.serving.environment, *(given.get(name) for name in ENVIRONMENTS)]
    return {
        "rdma": resolved.fabric.rdma,
        "speed_mbit": resolved.fabric.speed_mbit,
        "slower": [dict(one) for one in resolved.fabric.slower],
        "link_layer": resolved.hardware["fabric"].get("link_layer"),
        "qos": dict(resolved.fabric.qos),
        "own_environment": sorted({name for one in own if isinstance(one, Mapping) for name in one}),
        "own_rdma": "fabric_network_rdma" in given,
    }


def port_request(resolved: ResolvedIntent, desired: Mapping[str, Any]) -> dict[str, Any]:
    """Request every port of the host, and by name those that the profile knows, with their places.

    `desired` is the state of role fabric_network before observation: the keys it has for a port without a name are read
    for every port.
    """
    ports = resolved.hardware["fabric"]["ports"]
    places = {str(port["port"]): {"cage": cage, "half": half} for (cage, half), port in known_ports(ports).items()}
    unnamed = next((rail.expected for rail in resolved.fabric.rails if not rail.port), None)
    return {
        "ports": {str(port["port"]): places.get(str(port["port"]), {}) for port in ports},
        **({"each": keys_of_port(desired, unnamed)} if unnamed else {}),
    }


def check_pins(hosts: Sequence[HostIntent], errors: PlanErrors) -> None:
    """Refuse a pinned GID index, wherever the operator wrote it."""
    for name in ENVIRONMENTS:
        given = {
            variable
            for host in hosts
            if isinstance(host.variables.get(name), Mapping)
            for variable in host.variables[name]
        }
        for variable in sorted(given & {*PINNED}):
            errors.add(
                "fabric.gid",
                f"{name} sets {variable}",
                "no GID index is pinned: it differs between hosts, moves when a link comes up, and empty means 0",
                f"take {variable} out of {name}; the right GID is found without it",
            )
