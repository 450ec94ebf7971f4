# SPDX-License-Identifier: Apache-2.0
"""The nodes that were found as a rack file: every address is the one that was found, and each fault is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.expand import expand
from hypothesis import given
from hypothesis import strategies as st

from firstlight.errors import FirstlightError
from firstlight.found_rack import FoundRack, Placed, found_rack, login_text, rack_text
from firstlight.ssh.targets import Target

CATALOG = ("gb10", "h100-sxm-8")


def node(position: int, **changed: Any) -> Target:
    given = Target(f"spark{position}", f"10.0.0.{9 + position}", f"S{position}", None, "gb10", position)
    return replace(given, **changed)


FOUR = [node(position) for position in range(1, 5)]


def found(targets: list[Target], count: int = 4) -> FoundRack:
    return found_rack(targets, kind="spark4", hardware="gb10", count=count, catalog=CATALOG)


def hosts(text: str) -> dict[str, Any]:
    return dict(expand(yaml.safe_load(text)).hosts)


def test_addresses_that_follow_each_other_are_a_range() -> None:
    text = rack_text(found(FOUR))
    assert "management: 10.0.0.10-10.0.0.13" in text
    assert hosts(text)["spark3"] == {
        "ansible_host": "10.0.0.12",
        "firstlight_fabric_number": 2,
        "firstlight_hardware": "gb10",
        "firstlight_rack": {"name": "a", "position": 3, "serial": "S3"},
    }


def test_a_node_that_was_taken_out_of_the_list_leaves_a_hole() -> None:
    text = rack_text(found([FOUR[1], FOUR[3]], count=2))
    assert "management: 10.0.0.10-10.0.0.13" in text
    assert {name: one["ansible_host"] for name, one in hosts(text).items()} == {
        "spark2": "10.0.0.11",
        "spark4": "10.0.0.13",
    }
    unread = rack_text(found([FOUR[1], replace(FOUR[3], serial=None)], count=2))
    assert "absent: [1, 3]" in unread
    assert hosts(unread)["spark2"]["firstlight_rack"]["serial"] == "S2"
    assert hosts(unread).keys() == hosts(text).keys()


def test_one_node_has_no_fabric() -> None:
    text = rack_text(FoundRack("h100-", "h100-sxm-8", (Placed(1, "10.0.0.10", "007"),)))
    assert hosts(text)["h100-1"] == {
        "ansible_host": "10.0.0.10",
        "firstlight_hardware": "h100-sxm-8",
        "firstlight_rack": {"name": "a", "position": 1, "serial": "007"},
    }


@given(st.lists(st.integers(1, 2**32 - 2), min_size=1, max_size=40, unique=True), st.data())
def test_every_node_is_where_it_was_found(numbers: list[int], data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(1, 60), min_size=len(numbers), max_size=len(numbers), unique=True))
    known = data.draw(st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers)))
    targets = [
        node(position, address=f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}")
        for position, number in zip(positions, numbers, strict=True)
    ]
    targets = [one if serial else replace(one, serial=None) for one, serial in zip(targets, known, strict=True)]
    written = hosts(rack_text(found(targets, count=len(targets))))
    assert {name: one["ansible_host"] for name, one in written.items()} == {one.name: one.address for one in targets}
    assert {name: one["firstlight_rack"].get("serial") for name, one in written.items()} == {
        one.name: one.serial for one in targets
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"serial": "S1"}, "both have the serial S1"),
        ({"address": "10.0.0.10"}, "are both reached at 10.0.0.10"),
        (
            {"hardware": "gb11"},
            "spark4 has the hardware gb11, which catalog/hardware does not have",
        ),
        ({"hardware": "h100-sxm-8"}, r"different hardware \(gb10: spark1, spark2, spark3; h100-sxm-8: spark4\)"),
        ({"position": 1}, "spark4 has no position at the end of its name"),
        ({"position": None}, "spark4 has no position"),
        ({"name": "10.0.0.13"}, "10.0.0.13 has no position"),
        ({"name": "node4"}, "the names begin with spark and node; expected one prefix"),
        ({"name": "spark1", "position": 1}, "position 1 is listed for two nodes"),
        ({"serial": "To be filled"}, "a serial is text of letters"),
    ],
)
def test_what_is_wrong_with_a_list_is_told(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FirstlightError, match=message):
        rack_text(found([*FOUR[:3], replace(FOUR[3], **change)]))


def test_a_kind_is_for_its_hardware_and_number() -> None:
    others = [replace(one, hardware="h100-sxm-8") for one in FOUR]
    with pytest.raises(FirstlightError, match=r"are h100-sxm-8, and spark4 is for gb10(?s:.*)has 4 nodes and .* for 2"):
        found(others, count=2)
    assert found([replace(one, hardware=None) for one in FOUR]).hardware == "gb10"


def test_the_login_names_a_key_only_where_there_is_one() -> None:
    plain, named = (yaml.safe_load(login_text("operator", key)) for key in (None, "/home/me/.ssh/cluster"))
    assert plain == {
        "ansible_user": "operator",
        "ansible_become": True,
        "ansible_ssh_common_args": '-o UserKnownHostsFile="{{ inventory_dir }}/known_hosts" '
        "-o StrictHostKeyChecking=yes",
    }
    assert named == plain | {"ansible_ssh_private_key_file": "/home/me/.ssh/cluster"}
