# SPDX-License-Identifier: Apache-2.0
"""The specification of a lab: nodes, their hardware and ports. Pure functions; nothing is started here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .nvidia import machine_document
from .shell import LabError

NAME = re.compile(r"^[a-z][a-z0-9-]{0,19}$")
RACK = re.compile(r"^[a-z]{1,4}$")
# Two functions (one PCI Express link each) for each of the two cages; a cluster is cabled in the second cage.
SPARK_PORTS = ("enp1s0f0np0", "enP2p1s0f0np0", "enp1s0f1np1", "enP2p1s0f1np1")
CABLED_CAGE = 1
SERVICES_HOST = 2
FIRST_NODE_HOST = 10
MOST_NODES = 96  # an idle one takes 60 MB, and two and a half seconds of CPU time to boot


@dataclass(frozen=True)
class Profile:
    """How the lab simulates a kind of hardware: names, ports, and the factory's packages."""

    node_prefix: str
    ports: tuple[str, ...]
    factory: tuple[str, ...]


_SPARK = Profile("spark", SPARK_PORTS, ("nvidia-driver-580-open", "nvidia-container-toolkit"))
_NVSWITCH = Profile("gpu", (), ("nvidia-driver-580-server", "nvidia-fabricmanager-580", "nvidia-container-toolkit"))
_PLAIN = Profile("gpu", (), ("nvidia-driver-580-server", "nvidia-container-toolkit"))
PROFILES: Mapping[str, Profile] = {
    "gb10": _SPARK,
    "h100-sxm-8": _NVSWITCH,
    "h100-sxm-4-nvswitch": _NVSWITCH,
    "h100-sxm-4-partition": _NVSWITCH,  # images of such machines have a fabric manager, which exits immediately
    "h100-sxm-4": _PLAIN,
    "h200-sxm-8": _NVSWITCH,
    "h200-sxm-1": _PLAIN,
    "h100-pcie": _PLAIN,
}


@dataclass(frozen=True)
class Node:
    """One machine of the lab."""

    name: str
    ports: tuple[str, ...]
    machine: Mapping[str, Any]
    bare: bool = False
    docker_disk: str | None = None  # size of a small disk for Docker, e.g. "300m"; None = as large as the host's
    replaced: int = 0  # how often the machine was replaced by another one


@dataclass(frozen=True)
class LabSpec:
    """A whole lab."""

    name: str
    profile: str
    nodes: tuple[Node, ...]
    fabric_mtu: int = 9000
    as_delivered: bool = False  # nodes as delivered: an account with a password, and nothing installed by us
    system: str = "debian12"

    def container(self, node: str) -> str:
        return container_name(self.name, node)


def container_name(lab: str, node: str) -> str:
    """Return the name of the container for a node of a lab, its switch or its services."""
    return f"firstlight-{lab}-{node}"


def _pairs(values: Sequence[str], what: str) -> list[tuple[str, str]]:
    pairs = [tuple(value.split("=", 1)) for value in values]
    for pair in pairs:
        if len(pair) != 2:
            raise LabError(f"{what} {pair[0]!r} has no '='; expected NODE=VALUE, for example spark1=gpu_missing.")
    return [(pair[0], pair[1]) for pair in pairs]


def rack_nodes(profile: str, racks: Sequence[str]) -> list[str]:
    """Expand racks given as NAME=COUNT into node names, named like those of the inventory plugin `rack`."""
    found: dict[str, list[str]] = {}
    for name, count in _pairs(racks, "The rack"):
        if not RACK.match(name) or not count.isdecimal() or not 1 <= int(count) <= MOST_NODES or name in found:
            raise LabError(
                f"The rack {name}={count} cannot be built; expected one to four lower-case letters that no other rack "
                f"has, and 1 to {MOST_NODES} nodes, for example a=8."
            )
        prefix = f"{PROFILES[profile].node_prefix}-{name}"
        found[name] = [f"{prefix}{position}" for position in range(1, int(count) + 1)]
    return [node for nodes in found.values() for node in nodes]


def _machine(profile: str, faults: Sequence[str]) -> dict[str, Any]:
    """Return a node's hardware description. Raises LabError for one that nvidia-smi could not simulate."""
    try:
        document: dict[str, Any] = json.loads(machine_document(profile, faults))
    except ValueError as error:
        raise LabError(f"The fault cannot be simulated: {error}") from None
    return document


def make_spec(
    name: str,
    *,
    nodes: int | Sequence[str] = 4,
    profile: str = "gb10",
    fabric_mtu: int = 9000,
    bare: int = 0,
    faults: Sequence[str] = (),
    docker_disks: Sequence[str] = (),
    plays: Sequence[str] = (),
) -> LabSpec:
    """Validate the request and build the spec of a lab; `nodes` is their number or their names."""
    if not NAME.match(name):
        raise LabError(
            f"The lab's name is {name!r}; expected a lower-case letter, then at most 19 letters, digits or dashes."
        )
    if profile not in PROFILES:
        raise LabError(f"The hardware profile {profile!r} is not known; expected one of {', '.join(PROFILES)}.")
    kind = PROFILES[profile]
    names = [f"{kind.node_prefix}{index}" for index in range(nodes)] if isinstance(nodes, int) else list(nodes)
    number = nodes if isinstance(nodes, int) else len(names)
    if number < 0 or bare < 0 or not 1 <= number + bare <= MOST_NODES:
        raise LabError(f"{number} nodes and {bare} bare ones were requested; expected 1 to {MOST_NODES} in total.")
    if not 1280 <= fabric_mtu <= 9216:
        raise LabError(f"The fabric MTU is {fabric_mtu}; expected 1280 to 9216.")
    node_faults: dict[str, list[str]] = {}
    for node, fault in _pairs(faults, "The fault"):
        node_faults.setdefault(node, []).append(fault)
    disks = dict(_pairs(docker_disks, "The disk size"))
    bare_names = [f"bare{index}" for index in range(bare)]
    played = dict(_pairs(plays, "The hardware"))
    for wanted, among in ((node_faults, names), (disks, names), (played, names + bare_names)):
        for node in wanted:
            if node not in among:
                raise LabError(f"There is no node {node!r} in this lab; its nodes are {', '.join(among)}.")
    for node, hardware in played.items():
        if hardware not in PROFILES:
            raise LabError(f"{node} cannot simulate {hardware!r}; expected one of {', '.join(PROFILES)}.")
    made = [
        Node(
            name=node,
            ports=kind.ports,
            machine=_machine(played.get(node, profile), node_faults.get(node, [])),
            docker_disk=disks.get(node),
        )
        for node in names
    ]
    made += [
        Node(name=node, ports=kind.ports, machine=_machine(played.get(node, profile), []), bare=True)
        for node in bare_names
    ]
    return LabSpec(name=name, profile=profile, nodes=tuple(made), fabric_mtu=fabric_mtu)
