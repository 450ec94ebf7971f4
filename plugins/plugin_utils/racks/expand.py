# SPDX-License-Identifier: Apache-2.0
"""Expand a rack file to an inventory: hosts with their variables, and groups. Pure functions.

A host's name and addresses depend on its own rack and position alone. So adding a node or a rack never moves another,
and removing one leaves a gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanError, PlanErrors, explain_errors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import NUMBER, RACK
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.addressing import FIRST_HOST
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.checks import by_cluster, check_racks
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.document import Rack, read_racks
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.reaching import reached_at

ERRORS = {"rack.choice": "A cluster that is not in the file has no hosts."}


class RackError(ValueError):
    """A rack file was rejected; the message lists all errors, in the form of a plan's errors."""

    def __init__(self, errors: Sequence[PlanError]) -> None:
        super().__init__(explain_errors(errors))
        self.errors = list(errors)


@dataclass(frozen=True)
class Expansion:
    """Hosts with their variables, hosts by group, and child groups by group."""

    hosts: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, Sequence[str]]
    children: Mapping[str, Sequence[str]]
    notes: Sequence[str] = field(default_factory=tuple)


def expand(document: object, chosen: str | None = None) -> Expansion:
    """Expand a rack file; `chosen` selects the cluster if it has several. Raises RackError."""
    errors = PlanErrors()
    racks = read_racks(document, errors)
    check_racks(racks, errors)
    clusters = by_cluster(racks)
    names = [name for name in clusters if name is not None]
    if chosen and chosen not in names and not errors:
        errors.add(
            "rack.choice",
            f"cluster {chosen} is chosen",
            f"the file has the clusters {', '.join(names)}" if names else "the racks of the file are one cluster",
            suggest(chosen, names) if names else "choose none: unset FIRSTLIGHT_CLUSTER",
        )
    if errors:
        raise RackError(errors.found)
    groups: dict[str, list[str]] = {f"rack_{rack.name}": _hosts([rack]) for rack in racks}
    children = {f"cluster_{name}": [f"rack_{rack.name}" for rack in clusters[name]] for name in names}
    running = clusters.get(chosen or (names[0] if len(names) == 1 else None))
    if running is not None:
        head = [rack.host(rack.nodes.head) for rack in running if rack.nodes.head is not None]
        groups |= {"head": head, "workers": [host for host in _hosts(running) if host not in head]}
        children = {"cluster": ["head", "workers"], **children}
    return Expansion(
        hosts={rack.host(position): _variables(rack, position) for rack in racks for position in rack.nodes.positions},
        groups=groups,
        children=children,
        notes=[] if running is not None else [_choose(names)],
    )


def _hosts(racks: Sequence[Rack]) -> list[str]:
    return [rack.host(position) for rack in racks for position in rack.nodes.positions]


def _choose(names: Sequence[str]) -> str:
    return (
        f"the rack file has the clusters {', '.join(names)}, and a run is for one of them: no host is in group cluster."
        f" Choose with FIRSTLIGHT_CLUSTER={names[0]} in the environment"
    )


def _variables(rack: Rack, position: int) -> dict[str, Any]:
    serial = rack.nodes.serials.get(position)
    place: dict[str, Any] = {"name": rack.name, "position": position, **rack.limits}
    variables: dict[str, Any] = {RACK: place if serial is None else place | {"serial": serial}}
    reached = reached_at(rack, position)
    if reached is not None:
        variables["ansible_host"] = reached
    if rack.fabric is not None:
        variables[NUMBER] = rack.fabric.at(position) - FIRST_HOST
    if rack.hardware is not None:
        variables["firstlight_hardware"] = rack.hardware
    return variables
