# SPDX-License-Identifier: Apache-2.0
"""Read a rack file: the settings of each rack, each validated by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.addressing import (
    FIRST_HOST,
    AddressingError,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import check_keys
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.addresses import read_addresses
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.blocks import (
    FABRIC_MOST,
    Block,
    parse_fabric,
    parse_management,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.nodes import Nodes, is_whole, read_nodes

ERRORS = {
    "rack.type": "A rack file of another form would be read only in part, and hosts would be missing.",
    "rack.name": "A rack is a group of the inventory, rack_NAME, and two racks with the same name would be one.",
    "rack.prefix": "The names of the hosts begin with it, and a host's name must be valid in DNS.",
    "rack.management": "Addresses follow from the range and the position, so the range must be one.",
    "rack.fabric": "Addresses in the rails follow from the rack's places, so several hosts need them.",
    "rack.reach": "A pattern without a placeholder would be one machine for all.",
    "rack.limit": "A limit that is not a plain number would be met by any rack, or by none.",
}

FILE_KEYS = ("plugin", "racks")
RACK_KEYS = (
    "name",
    "cluster",
    "prefix",
    "digits",
    "count",
    "serials",
    "absent",
    "head",
    "hardware",
    "management",
    "addresses",
    "reach",
    "fabric",
    "power_w",
    "units",
)
PARTS = ("{name}", "{serial}", "{position}")
"""Placeholders allowed in `reach`."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,39}")
_PREFIX = re.compile(r"[a-z][a-z0-9-]{0,39}")
_REACH = re.compile(r"(?:[A-Za-z0-9.-]|{name}|{serial}|{position})+")
_LIMITS = {"power_w": 10_000_000, "units": 100}
_MOST_DIGITS = 4


@dataclass(frozen=True)
class Rack:
    """A rack as described in its file."""

    name: str
    prefix: str
    nodes: Nodes
    digits: int = 1
    cluster: str | None = None
    hardware: str | None = None
    management: Block | None = None
    addresses: Mapping[int, str] = field(default_factory=dict)
    reach: str | None = None
    fabric: Block | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    """power_w and units, if given."""

    def host(self, position: int) -> str:
        """Return the name of the node at this position."""
        return f"{self.prefix}{position:0{self.digits}d}"


def read_racks(document: object, errors: PlanErrors) -> list[Rack]:
    """Read the racks of a file; one without a valid name or prefix is reported and left out."""
    if not isinstance(document, Mapping) or not _is_list_of_mappings(document.get("racks")):
        errors.add(
            "rack.type",
            f"racks is {document.get('racks')!r}" if isinstance(document, Mapping) else "the file is not a mapping",
            "a rack file has the line plugin: firstlight.cluster.rack and a list of racks",
            "write it as in docs/racks.md, or begin with `firstlight init spark-racks DIRECTORY`",
        )
        return []
    check_keys(document, FILE_KEYS, "the rack file", errors)
    racks = [_rack(number, dict(one), errors) for number, one in enumerate(document["racks"], 1)]
    return [rack for rack in racks if rack is not None]


def _is_list_of_mappings(value: object) -> bool:
    return isinstance(value, Sequence) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _rack(number: int, given: Mapping[str, Any], errors: PlanErrors) -> Rack | None:
    name = given.get("name")
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)  # racks are often just numbered
    where = f"rack {name}" if isinstance(name, str) and name else f"rack number {number} of the file"
    check_keys(given, RACK_KEYS, where, errors)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        errors.add(
            "rack.name",
            f"the name of {where} is {name!r}",
            "a name has lowercase letters, digits and _, as it is part of the group's name",
            "write it as name: a, or row2_7",
        )
        name = None
    prefix = given.get("prefix")
    if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
        errors.add(
            "rack.prefix",
            f"the prefix of {where} is {prefix!r}",
            "a prefix begins with a lowercase letter, then letters, digits and -, 40 at most; the position follows it",
            "write it as prefix: spark-a for hosts spark-a1, spark-a2, ...",
        )
        prefix = None
    nodes = read_nodes(where, given, errors)
    rack = Rack(
        name=name or "",
        prefix=prefix or "",
        nodes=nodes,
        digits=_digits(where, given.get("digits"), errors),
        cluster=_cluster(where, given.get("cluster"), errors),
        hardware=_hardware(where, given.get("hardware"), errors),
        management=_block("management", where, given.get("management"), parse_management, errors),
        addresses=read_addresses(where, given, nodes, errors),
        reach=_reach(where, given, nodes, errors),
        fabric=_block("fabric", where, given.get("fabric"), parse_fabric, errors),
        limits=_limits(where, given, errors),
    )
    return rack if name and prefix else None


def _digits(where: str, value: object, errors: PlanErrors) -> int:
    if value is None:
        return 1
    if not is_whole(value, 1, _MOST_DIGITS):
        errors.add(
            "rack.prefix",
            f"digits of {where} is {value!r}",
            f"digits is the minimum number of digits of a position, from 1 to {_MOST_DIGITS}",
            "write digits: 2 for spark-a01, or leave it out",
        )
        return 1
    return int(str(value))


def _cluster(where: str, value: object, errors: PlanErrors) -> str | None:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if value is None or (isinstance(text, str) and _NAME.fullmatch(text)):
        return text if isinstance(text, str) else None
    errors.add(
        "rack.name",
        f"cluster of {where} is {value!r}",
        "a cluster's name has lowercase letters, digits and _, as it is part of the group's name",
        "write it as cluster: chat, or leave it out where all racks are one cluster",
    )
    return None


def _hardware(where: str, value: object, errors: PlanErrors) -> str | None:
    """Read the hardware's name; the plan checks that it is in the catalog, as it knows the site's own catalogs."""
    if value is None or (isinstance(value, str) and value):
        return value if isinstance(value, str) else None
    errors.add(
        "rack.type",
        f"hardware of {where} is {value!r}",
        "hardware is the name of a profile in catalog/hardware",
        "write it as hardware: gb10, or leave it out and set firstlight_hardware in group_vars",
    )
    return None


def _block(kind: str, where: str, value: object, parse: Callable[[object], Block], errors: PlanErrors) -> Block | None:
    if value is None:
        return None
    try:
        return parse(value)
    except AddressingError as error:
        if kind == "management":
            errors.add(
                "rack.management",
                f"management of {where}: {error}",
                "it is a range of IPv4 addresses, or a subnet whose first node has the address .10",
                "write it as management: 10.20.1.11-10.20.1.42, or as 10.20.1.0/24",
            )
        else:
            errors.add(
                "rack.fabric",
                f"fabric of {where}: {error}",
                f"it is where the rack's addresses lie in the subnet of every rail, from {FIRST_HOST} to {FABRIC_MOST}",
                "write it as fabric: 10-41 for the addresses .10 to .41",
            )
        return None


def _reach(where: str, given: Mapping[str, Any], nodes: Nodes, errors: PlanErrors) -> str | None:
    value = given.get("reach")
    if value is None:
        return None
    why = ""
    if not isinstance(value, str) or not _REACH.fullmatch(value) or not any(part in value for part in PARTS):
        why = f"it is a name with {', '.join(PARTS)} in it"
    elif given.get("management") is not None:
        why = "a node is reached at an address of management or by a name, not by both"
    elif "{serial}" in value and set(nodes.positions) - set(nodes.serials):
        why = "{serial} needs the serial of every node"
    if not why:
        return str(value)
    errors.add(
        "rack.reach",
        f"reach of {where} is {value!r}",
        why,
        "write it as reach: '{name}.local', or spark-{serial}.local with serials, or leave it out",
    )
    return None


def _limits(where: str, given: Mapping[str, Any], errors: PlanErrors) -> dict[str, float]:
    limits: dict[str, float] = {}
    for name, most in _LIMITS.items():
        value = given.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= most:
            errors.add(
                "rack.limit",
                f"{name} of {where} is {value!r}",
                f"{name} is a number from 1 to {most}: {'watts' if name == 'power_w' else 'units of height'}",
                f"write it without quotes, as {name}: {'17000' if name == 'power_w' else '42'}, or leave it out",
            )
        else:
            limits[name] = value
    return limits
