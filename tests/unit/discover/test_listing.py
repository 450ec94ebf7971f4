# SPDX-License-Identifier: Apache-2.0
"""The list of nodes: named once, and the same ever after."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.discover.find import Candidate, as_document
from firstlight.discover.listing import nodes_document
from firstlight.discover.probe import Machine
from firstlight.ssh.faults import duplicate_address
from firstlight.ssh.host_keys import HostKey
from firstlight.ssh.targets import listed
from tests.unit.hostile import ESCAPES, TEMPLATE

KEY = HostKey("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIAwmaaOl67Yg/OYERrXT123KZvVJM4RdhTNZ5+qMDrgA")


def machine(number: int, address: int, *, read: bool = True) -> dict[str, Any]:
    """A machine by its number, at an address, and whether anybody could log in to it."""
    mac = f"02:42:ac:1d:02:{number:02x}"
    seen = Machine(hostname=f"box-{number}", serial=f"S{number}", mac=mac, gpu_count=1) if read else None
    one = Candidate(f"10.0.0.{address}", [mac], None, ["ARP"], KEY, "pinned" if read else "unknown", seen)
    return as_document(one, "gb10" if read else None, {})


def names(document: dict[str, Any]) -> dict[str, str]:
    """Machines by MAC, and their names."""
    return {one["mac"][-2:]: one["name"] for one in document["nodes"]}


def test_the_list_is_one_that_bootstrap_reads() -> None:
    (target,) = listed(nodes_document([machine(1, 5)], None))
    assert (target.name, target.serial, target.mac) == ("box-1", "S1", "02:42:ac:1d:02:01")
    assert (target.hardware, target.position) == ("gb10", None)


def test_with_a_prefix_nodes_are_named_in_order_and_faulty_or_silent_ones_left_out() -> None:
    twice = machine(3, 7)
    twice["faults"] = [duplicate_address("10.0.0.7", "two")]
    silent = {**machine(4, 8), "host_key": None}
    nodes = nodes_document([machine(1, 5), machine(2, 6), twice, silent], "spark")["nodes"]
    assert [(one["name"], one["position"], one["address"]) for one in nodes] == [
        ("spark1", 1, "10.0.0.5"),
        ("spark2", 2, "10.0.0.6"),
    ]


def test_a_machine_with_a_lower_address_moves_nobody() -> None:
    first = listed(nodes_document([machine(1, 5), machine(2, 6)], "spark"))
    assert names(nodes_document([machine(3, 4), machine(1, 5), machine(2, 6)], "spark", first)) == {
        "01": "spark1",
        "02": "spark2",
        "03": "spark3",
    }


def test_a_machine_is_known_by_its_serial_and_before_that_by_its_mac() -> None:
    """At the first look nobody could log in; then one has moved to another address."""
    first = listed(nodes_document([machine(1, 5, read=False), machine(2, 6, read=False)], "spark"))
    second = nodes_document([machine(2, 5), machine(1, 9)], "spark", first)
    assert [(one["name"], one["serial"], one["address"]) for one in second["nodes"]] == [
        ("spark1", "S1", "10.0.0.9"),
        ("spark2", "S2", "10.0.0.5"),
    ]


def test_another_machine_at_an_address_is_another_machine_and_one_that_is_off_stays() -> None:
    first = listed(nodes_document([machine(1, 5), machine(2, 6)], "spark"))
    second = nodes_document([machine(7, 5)], "spark", first)
    assert names(second) == {"01": "spark1", "02": "spark2", "07": "spark3"}


def test_names_that_somebody_has_written_stay() -> None:
    first = listed({"nodes": [{"name": "head", "address": "10.0.0.5", "serial": "S1", "position": 4}]})
    second = nodes_document([machine(1, 5), machine(2, 6), machine(3, 7)], "spark", first)
    assert [(one["name"], one["position"]) for one in second["nodes"]] == [("head", 4), ("spark1", 1), ("spark2", 2)]


@given(st.lists(st.sets(st.integers(1, 12), max_size=12), min_size=1, max_size=6))
def test_whoever_comes_and_goes_nobody_is_renamed_and_no_place_is_given_twice(looks: list[set[int]]) -> None:
    document: dict[str, Any] = {"nodes": []}
    for look in looks:
        before = names(document)
        found = [machine(number, 100 - number) for number in sorted(look, reverse=True)]
        document = nodes_document(found, "spark", listed(document))
        after = names(document)
        assert {mac: after[mac] for mac in before} == before
        assert len(set(after.values())) == len(document["nodes"]) == len({one["position"] for one in document["nodes"]})
    assert len(document["nodes"]) == len(set().union(*looks))


@pytest.mark.hostile
@pytest.mark.parametrize(
    "name", [ESCAPES, TEMPLATE, "../x", "-oProxyCommand=id", "a,b", "a b", "10.0.0.99", "x\n", "A" * 300, ""]
)
def test_a_name_that_is_none_is_not_taken_and_the_list_can_be_read(name: str) -> None:
    (target,) = listed(nodes_document([{**machine(1, 5), "name": name}], None))
    assert target.name == "10.0.0.5"


@pytest.mark.hostile
def test_no_machine_takes_the_name_of_another() -> None:
    """One that was not asked calls itself as a known one does, and another as a new one."""
    known = listed(nodes_document([machine(1, 5)], None))
    liars = [{**machine(8, 2), "name": "box-1"}, {**machine(9, 3), "name": "box-2"}]
    targets = listed(nodes_document([*liars, machine(1, 5), machine(2, 6)], None, known))
    assert {target.address: target.name for target in targets} == {
        "10.0.0.5": "box-1",
        "10.0.0.2": "10.0.0.2",
        "10.0.0.3": "10.0.0.3",
        "10.0.0.6": "10.0.0.6",
    }
