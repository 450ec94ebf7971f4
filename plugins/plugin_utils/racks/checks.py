# SPDX-License-Identifier: Apache-2.0
"""Check the racks of one file against each other: they must not share anything."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.addressing import FIRST_HOST
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.blocks import Block, address, number
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.document import Rack
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.reaching import reached_at

ERRORS = {
    "rack.range-small": "A node beyond its rack's range would have an address of another rack, or of none.",
    "rack.overlap": "Two racks that share a range would give one address to two machines as they grow.",
    "rack.duplicate-host": "Two nodes with the same name would be one host.",
    "rack.duplicate-address": "Two names for one machine would be configured twice, each time differently.",
    "rack.cluster": "All racks of a file are one cluster, or each says which it belongs to.",
}


def check_racks(racks: Sequence[Rack], errors: PlanErrors) -> None:
    """Add errors for conflicts between racks, and for nodes that do not fit into a rack's ranges."""
    readable = not errors
    _check_names(racks, errors)
    for rack in racks:
        _check_sizes(rack, errors)
    _check_overlaps(racks, errors)
    _check_serials(racks, errors)
    _check_addresses(racks, errors)
    if readable:
        # A rejected rack might be the one with the head.
        _check_clusters(racks, errors)


def _check_names(racks: Sequence[Rack], errors: PlanErrors) -> None:
    names = [rack.name for rack in racks]
    for name in sorted({one for one in names if names.count(one) > 1}):
        errors.add(
            "rack.name",
            f"{names.count(name)} racks of the file have the name {name}",
            "every rack has a name of its own",
            "give the later one another name",
        )
    for host, (first, second) in _twice(racks, lambda rack, position: rack.host(position)):
        errors.add(
            "rack.duplicate-host",
            f"{first} and {second} both name a host {host}",
            "a host's name, prefix and position, is unique",
            "give one of the racks another prefix",
        )


def _check_sizes(rack: Rack, errors: PlanErrors) -> None:
    last = max(rack.nodes.positions, default=0)
    for kind, block in (("management", rack.management), ("fabric", rack.fabric)):
        if block is not None and last > block.size:
            errors.add(
                "rack.range-small",
                f"{kind} of rack {rack.name} has {block.size} places, {_shown(kind, block)}, for {last} positions",
                "every position of a rack has a place of its own in its ranges, even one that is absent",
                f"extend the range to {_end(kind, block.at(last))} at least; existing addresses stay where they are",
            )


def _check_overlaps(racks: Sequence[Rack], errors: PlanErrors) -> None:
    for one, other in itertools.combinations(racks, 2):
        for kind, mine, theirs in (
            ("management", one.management, other.management),
            ("fabric", one.fabric, other.fabric),
        ):
            if mine is not None and theirs is not None and mine.overlaps(theirs):
                errors.add(
                    "rack.overlap",
                    f"{kind} of rack {one.name} ({_shown(kind, mine)}) and of rack {other.name} "
                    f"({_shown(kind, theirs)}) overlap",
                    "a rack's ranges are its own, with room to grow",
                    f"let {kind} of rack {other.name} begin after {_end(kind, mine.last)}",
                )
    for one, other in itertools.permutations(racks, 2):
        for own in one.addresses.values():
            if other.management is not None and other.management.has(number(own)):
                errors.add(
                    "rack.overlap",
                    f"the address {own} of rack {one.name} lies in management of rack {other.name} "
                    f"({_shown('management', other.management)})",
                    "a rack's ranges are its own, with room to grow",
                    f"exclude it from management of rack {other.name}, or correct the address",
                )


def _check_serials(racks: Sequence[Rack], errors: PlanErrors) -> None:
    for serial, (first, second) in _twice(racks, lambda rack, position: rack.nodes.serials.get(position)):
        errors.add(
            "rack.serial",
            f"{first} and {second} both have the serial {serial}",
            "a serial identifies one machine",
            "correct one of them from the machine's label",
        )


def _check_addresses(racks: Sequence[Rack], errors: PlanErrors) -> None:
    for place, (first, second) in _twice(racks, reached_at):
        errors.add(
            "rack.duplicate-address",
            f"{first} and {second} are both reached at {place}",
            "every node is a separate machine",
            "correct addresses, management or reach of one of the two",
        )


def _twice(racks: Sequence[Rack], value: Callable[[Rack, int], str | None]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each duplicate value once, with descriptions of the first two nodes that have it."""
    seen: dict[str, str] = {}
    told: set[str] = set()
    for rack in racks:
        for position in rack.nodes.positions:
            own = value(rack, position)
            if own is None:
                continue
            words, key = f"position {position} of rack {rack.name}", own.lower()
            if key in seen and key not in told:
                told.add(key)
                yield own, (seen[key], words)
            seen.setdefault(key, words)


def _check_clusters(racks: Sequence[Rack], errors: PlanErrors) -> None:
    named = [rack.name for rack in racks if rack.cluster is not None]
    unnamed = [rack.name for rack in racks if rack.cluster is None]
    if named and unnamed:
        errors.add(
            "rack.cluster",
            f"rack {named[0]} names its cluster, rack {unnamed[0]} does not",
            "either all racks of a file are one cluster, or each says which it belongs to",
            f"add cluster: to rack {unnamed[0]}, or remove it from the others",
        )
        return
    for cluster, members in by_cluster(racks).items():
        words = f"cluster {cluster}" if cluster else "the file"
        heads = [rack.name for rack in members if rack.nodes.head is not None]
        if len(heads) != 1:
            errors.add(
                "rack.head",
                f"racks {' and '.join(heads)} of {words} have a head" if heads else f"no rack of {words} has a head",
                "one node of a cluster is its head: it runs the Ray head and the server",
                "leave head in one of them, or give each a cluster: of its own"
                if heads
                else "write head: 1 in one of its racks",
            )
        if sum(len(rack.nodes.positions) for rack in members) > 1:
            for rack in members:
                _check_fabric(rack, errors)


def _check_fabric(rack: Rack, errors: PlanErrors) -> None:
    if rack.fabric is None:
        errors.add(
            "rack.fabric",
            f"rack {rack.name} does not set fabric, and its cluster has several hosts",
            "without it the order of the hosts would decide their addresses, and a new node would move another",
            f"write fabric: {FIRST_HOST}-{FIRST_HOST + 31}, with room to grow, and not used by another rack",
        )


def by_cluster(racks: Sequence[Rack]) -> dict[str | None, list[Rack]]:
    """Group the racks by cluster, in the order of the file."""
    found: dict[str | None, list[Rack]] = {}
    for rack in racks:
        found.setdefault(rack.cluster, []).append(rack)
    return found


def _shown(kind: str, block: Block) -> str:
    return f"{_end(kind, block.first)}-{_end(kind, block.last)}"


def _end(kind: str, number: int) -> str:
    # A requested range may end beyond the last IPv4 address.
    return address(min(number, 0xFFFFFFFF)) if kind == "management" else str(number)
