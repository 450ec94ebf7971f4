# SPDX-License-Identifier: Apache-2.0
"""Render the nodes found by `firstlight discover` as a rack file with positions and addresses. Pure functions."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.expand import RackError, expand

from firstlight.errors import UsageError
from firstlight.ssh.targets import Target

FIRST_PLACE = 10
"""Offset of the first node's address in a rail; lower ones are for switches and gateways."""
LEAST_ROOM = 32
"""Minimum number of addresses reserved in each rail, so that the rack can grow."""


@dataclass(frozen=True)
class Placed:
    """A node with its position, which determines its name and addresses."""

    position: int
    address: str
    serial: str | None


@dataclass(frozen=True)
class FoundRack:
    """Nodes of one kind, ordered by position."""

    prefix: str
    hardware: str
    nodes: tuple[Placed, ...]

    @property
    def last(self) -> int:
        return self.nodes[-1].position


def found_rack(
    targets: Sequence[Target], *, kind: str, hardware: str, count: int, catalog: Collection[str]
) -> FoundRack:
    """Build the rack from these nodes, if they match the kind. Raises UsageError listing all problems."""
    faults = [*_hardware_faults(targets, kind, hardware, catalog)]
    if len(targets) != count:
        faults.append(
            f"the list has {len(targets)} nodes and {kind} is for {count}; expected the same number. Choose another "
            "kind, or remove nodes from the list."
        )
    prefixes, unplaced = _prefixes(targets)
    if unplaced:
        faults.append(
            f"{', '.join(unplaced)} has no position at the end of its name; expected names such as spark1 for position "
            "1, as a rack names its hosts by position. Write the list with `firstlight discover --prefix spark`."
        )
    elif len(prefixes) > 1:
        faults.append(
            f"the names begin with {' and '.join(prefixes)}; expected one prefix for the nodes of a rack. Write the "
            "list with `firstlight discover --prefix spark`."
        )
    positions = [target.position for target in targets if target.position is not None]
    twice = sorted({str(one) for one in positions if positions.count(one) > 1})
    if twice and not unplaced:
        faults.append(f"position {', '.join(twice)} is listed for two nodes; expected each once. Correct the list.")
    if faults:
        raise UsageError("\n  ".join(faults))
    placed = (Placed(target.position or 0, target.address, target.serial) for target in targets)
    return FoundRack(prefixes[0], hardware, tuple(sorted(placed, key=lambda one: one.position)))


def _hardware_faults(targets: Sequence[Target], kind: str, hardware: str, catalog: Collection[str]) -> Sequence[str]:
    """Check that all known hardware matches the kind; a machine without a driver is assumed to match."""
    by_hardware: dict[str, list[str]] = {}
    for target in targets:
        if target.hardware is not None:
            by_hardware.setdefault(target.hardware, []).append(target.name)
    unknown = [name for name in by_hardware if name not in catalog]
    if unknown:
        return [
            f"{', '.join(by_hardware[name])} has the hardware {name}, which catalog/hardware does not have; expected "
            f"one of {', '.join(sorted(catalog))}. Correct the list."
            for name in unknown
        ]
    if len(by_hardware) > 1:
        told = "; ".join(f"{name}: {', '.join(names)}" for name, names in by_hardware.items())
        return [
            f"the nodes have different hardware ({told}); expected one kind. Make a list and an inventory for each."
        ]
    other = next(iter(by_hardware), hardware)
    if other != hardware:
        return [f"the nodes are {other}, and {kind} is for {hardware}; expected the same. Choose a kind for {other}."]
    return []


def _prefixes(targets: Sequence[Target]) -> tuple[list[str], list[str]]:
    """Return the name prefixes, and the names that do not end with their position."""
    prefixes: dict[str, None] = {}
    unplaced = []
    for target in targets:
        ending = str(target.position)
        if target.position is None or not target.name.endswith(ending) or target.name == target.address:
            unplaced.append(target.name)
        else:
            prefixes[target.name.removesuffix(ending)] = None
    return list(prefixes), unplaced


def rack_text(rack: FoundRack) -> str:
    """Render the rack file. Raises UsageError for what its reader rejects, such as a duplicate serial."""
    single = len(rack.nodes) == 1
    lines = [
        "---",
        "# The nodes as `firstlight discover` found them. Ansible reads this file with the inventory",
        "# firstlight.cluster.rack:",
        "#   ansible-inventory -i DIRECTORY --graph",
        "# Name and addresses of a node follow from its position: what is added or taken out moves nobody.",
        "plugin: firstlight.cluster.rack",
        "racks:",
        "  - name: a # the group rack_a, for --limit",
        f"    prefix: {rack.prefix} # hosts are {_names(rack)}",
        *_who(rack),
        f"    head: {rack.nodes[0].position} # the position of the node that runs the Ray head and the server; yours",
        f"    hardware: {rack.hardware} # a file in catalog/hardware: what every node must show",
        "",
        *_where(rack),
        "",
        *([] if single else _places(rack)),
        "    # What the rack can give, in watts. With it the plan refuses more nodes than there is power for.",
        "    # power_w: 2000",
    ]
    text = "\n".join(lines) + "\n"
    try:
        expand(yaml.safe_load(text))
    except RackError as error:
        raise UsageError(f"these nodes cannot form a rack: {error}") from None
    return text


def _names(rack: FoundRack) -> str:
    shown = [f"{rack.prefix}{one.position}" for one in rack.nodes]
    return ", ".join(shown if len(shown) < 4 else [*shown[:2], "..."])


def _who(rack: FoundRack) -> list[str]:
    """Render the occupied positions and the known serials."""
    serials = {one.position: one.serial for one in rack.nodes if one.serial is not None}
    listed = [f"      {position}: {json.dumps(serial)}" for position, serial in serials.items()]
    lines = []
    if len(serials) < len(rack.nodes):
        absent = sorted(set(range(1, rack.last + 1)) - {one.position for one in rack.nodes})
        lines.append(f"    count: {rack.last} # positions 1 to {rack.last}. For a new node raise it.")
        lines += [f"    absent: {absent} # positions without a node"] if absent else []
    if serials:
        lines.append("    # Position and serial. A new node has the next position, a replaced one another serial.")
        lines += ["    serials:", *listed]
    return lines


def _where(rack: FoundRack) -> list[str]:
    """Render the addresses: a range if they follow the positions, otherwise one by one."""
    numbers = {one.position: int(ipaddress.IPv4Address(one.address)) for one in rack.nodes}
    before = {number - position for position, number in numbers.items()}
    if len(before) == 1 and min(before) >= 0:
        first, last = (ipaddress.IPv4Address(min(before) + position) for position in (1, rack.last))
        return [
            "    # Where Ansible finds the nodes: position 1 has the first address. Make it longer for a new node.",
            f"    management: {first}-{last}",
        ]
    return [
        "    # Where Ansible finds the nodes: these addresses follow no range. For a new node add its own.",
        "    addresses:",
        *(f"      {one.position}: {one.address}" for one in rack.nodes),
    ]


def _places(rack: FoundRack) -> list[str]:
    return [
        "    # The nodes' addresses in the subnet of every rail (group_vars/all.yml): position 1 has the first. There",
        "    # is room to grow.",
        f"    fabric: {FIRST_PLACE}-{FIRST_PLACE + max(LEAST_ROOM, 2 * rack.last) - 1}",
        "",
    ]


def login_text(user: str, key: str | None) -> str:
    """Render only the settings that Ansible needs to log in after `firstlight bootstrap`."""
    lines = [
        "# The account that `firstlight bootstrap` prepared, with sudo, and the host keys that it pinned.",
        f"ansible_user: {user}",
        "ansible_become: true",
        *([f"ansible_ssh_private_key_file: {json.dumps(key)}"] if key else []),
        'ansible_ssh_common_args: -o UserKnownHostsFile="{{ inventory_dir }}/known_hosts" -o StrictHostKeyChecking=yes',
    ]
    return "\n".join(lines) + "\n"
