# SPDX-License-Identifier: Apache-2.0
"""What holds for all racks: nobody's address moves when something is added, and no two hosts share one."""

from __future__ import annotations

import contextlib
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.expand import Expansion, RackError, expand
from hypothesis import given
from hypothesis import strategies as st

ROOM = 40
"""Positions that a rack's ranges have."""


@st.composite
def files(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Racks of one file that are right; what each has is its own."""
    racks = []
    for number in range(draw(st.integers(1, 5))):
        count = draw(st.integers(1, ROOM - 1))
        absent = draw(st.sets(st.integers(2, count), max_size=5)) if count > 1 else set()  # 1 is the head
        rack: dict[str, Any] = {
            "name": f"r{number}",
            "prefix": f"n{number}-",
            "digits": draw(st.integers(1, 3)),
            "count": count,
            "absent": sorted(absent),
            "fabric": f"{10 + ROOM * number}-{9 + ROOM * (number + 1)}",
        }
        if draw(st.booleans()):
            rack["management"] = draw(st.sampled_from([f"10.0.{number}.0/24", f"10.0.{number}.1-10.0.{number}.{ROOM}"]))
        elif draw(st.booleans()):
            places = draw(st.permutations(range(1, ROOM + 1)))
            rack["addresses"] = {position: f"10.1.{number}.{place}" for position, place in enumerate(places, 1)}
        if number == 0:
            rack["head"] = 1
        racks.append(rack)
    return racks


def expanded(racks: list[dict[str, Any]]) -> Expansion:
    return expand({"plugin": "firstlight.cluster.rack", "racks": racks})


@given(files())
def test_no_two_hosts_share_anything(racks: list[dict[str, Any]]) -> None:
    found = expanded(racks)
    expected = sum(len(set(range(1, rack["count"] + 1)) - set(rack["absent"])) for rack in racks)
    assert len(found.hosts) == expected
    assert len({one["firstlight_fabric_number"] for one in found.hosts.values()}) == expected
    reached = [one.get("ansible_host", name) for name, one in found.hosts.items()]
    assert len(set(reached)) == expected
    listed = [*found.groups["head"], *found.groups["workers"]]
    assert sorted(listed) == sorted(found.hosts)
    assert sorted(
        host for group, hosts in found.groups.items() if group.startswith("rack_") for host in hosts
    ) == sorted(found.hosts)


@given(files(), st.data())
def test_what_is_added_moves_nobody(racks: list[dict[str, Any]], data: st.DataObject) -> None:
    before = expanded(racks)
    grown = [dict(rack) for rack in racks]
    one = data.draw(st.sampled_from(grown))
    one["count"] = data.draw(st.integers(one["count"], ROOM))
    new = {"name": "new", "prefix": "new-", "count": 3, "fabric": "1000-1100", "management": "10.9.0.0/24"}
    grown.insert(data.draw(st.integers(0, len(grown))), new)
    after = expanded(grown)
    assert {name: after.hosts[name] for name in before.hosts} == before.hosts
    assert after.groups["head"] == before.groups["head"]


@given(files(), st.data())
def test_what_is_taken_out_moves_nobody(racks: list[dict[str, Any]], data: st.DataObject) -> None:
    before = expanded(racks)
    fewer = [dict(rack) for rack in racks]
    one = data.draw(st.sampled_from(fewer))
    one["absent"] = [*one["absent"], *data.draw(st.sets(st.integers(2, max(2, one["count"])), max_size=1))]
    if one["count"] == 1:
        one["absent"] = []
    after = expanded(fewer)
    assert {name: before.hosts[name] for name in after.hosts} == dict(after.hosts)
    assert len(before.hosts) - len(after.hosts) in (0, 1)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@given(files(), st.data())
def test_junk_is_refused_and_never_crashes(racks: list[dict[str, Any]], data: st.DataObject) -> None:
    broken = [dict(rack) for rack in racks]
    keys = ["name", "cluster", "prefix", "digits", "count", "serials", "absent", "head", "hardware", "management"]
    keys += ["addresses", "reach", "fabric", "power_w", "units"]
    data.draw(st.sampled_from(broken))[data.draw(st.sampled_from(keys))] = data.draw(JUNK)
    with contextlib.suppress(RackError):
        assert expanded(broken).hosts
