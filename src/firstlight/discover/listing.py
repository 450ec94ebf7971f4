# SPDX-License-Identifier: Apache-2.0
"""Turn the discovered machines into the node list that bootstrap and the rack inventory take.

An existing list is extended: a known machine keeps its name and position, even if another has a lower address.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from firstlight.ssh.targets import Target, is_name

Found = Mapping[str, Any]


def nodes_document(found: Sequence[Found], prefix: str | None, known: Sequence[Target] = ()) -> dict[str, Any]:
    """Return the list of nodes; with a prefix, new nodes take the free positions in the order of their addresses.

    Nodes of `known` that were not found this time stay unchanged: a machine that is off is not gone.
    """
    good = [_as_target(one) for one in found if one["host_key"] and not one["faults"]]
    seen = {number: match for number, one in enumerate(known) if (match := _same(one, good))}
    nodes = [_entry(seen.get(number, one), one.name, one.position) for number, one in enumerate(known)]
    places = _free(known, prefix or "")
    # A host name is self-reported, so it must not collide with a name that is in use or claimed by another machine.
    taken = Counter([*(one.name for one in known), *(one.name for one in good if one not in seen.values())])
    for one in good:
        if one not in seen.values():
            place = next(places) if prefix else None
            own = one.name if taken[one.name] == 1 else one.address
            nodes.append(_entry(one, f"{prefix}{place}" if prefix else own, place))
    return {"nodes": nodes}


def _as_target(one: Found) -> Target:
    machine = one["machine"] or {}
    return Target(
        name=one["name"] if is_name(one["name"] or "") else one["address"],
        address=one["address"],
        serial=machine.get("serial"),
        mac=machine.get("mac") or next(iter(one["macs"]), None),
        hardware=one["hardware"],
    )


def _same(known: Target, found: Sequence[Target]) -> Target | None:
    """Return the same machine among those found, matched by the first identifier that both have."""
    for one in found:
        for mine, other in ((known.serial, one.serial), (known.mac, one.mac), (known.address, one.address)):
            if mine and other:
                if mine == other:
                    return one
                break
    return None


def _free(known: Sequence[Target], prefix: str) -> Iterator[int]:
    """Yield positions that are not taken, by number or by name."""
    places, names = {one.position for one in known}, {one.name for one in known}
    return (number for number in itertools.count(1) if number not in places and f"{prefix}{number}" not in names)


def _entry(one: Target, name: str, position: int | None) -> dict[str, Any]:
    return {
        "name": name,
        "serial": one.serial,
        "address": one.address,
        "mac": one.mac,
        "hardware": one.hardware,
        "position": position,
    }
