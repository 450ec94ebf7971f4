# SPDX-License-Identifier: Apache-2.0
"""Who is there, and what is said where somebody is not."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.attendance import (
    attendance_message,
    missing_by_rack,
    rack_groups,
)
from hypothesis import given
from hypothesis import strategies as st

A, B = ["a1", "a2"], ["b1", "b2", "b3"]
GROUPS = {"all": [*A, *B], "cluster": [*A, *B], "head": ["a1"], "rack_a": A, "rack_b": B}
RACKS = {"rack_a": A, "rack_b": B}


def test_racks_are_groups_with_hosts_that_the_run_is_for() -> None:
    assert rack_groups(GROUPS) == RACKS
    assert rack_groups({**GROUPS, "cluster": A}) == {"rack_a": A}
    assert rack_groups({}) == {}


def test_nothing_is_said_when_all_are_there() -> None:
    assert missing_by_rack(A, A, RACKS) == {}
    assert attendance_message(A, {}) == ""


def test_those_who_are_out_are_named_with_their_racks() -> None:
    missing = missing_by_rack([*A, *B, "c"], ["a1", "b1", "b3"], RACKS)
    assert missing == {"rack_a": ["a2"], "rack_b": ["b2"], "": ["c"]}
    said = attendance_message([*A, *B, "c"], missing)
    assert said.startswith("3 of 6 hosts are out (rack_a: a2; rack_b: b2; of no rack: c), expected all of them")
    assert "The other 3 are prepared." in said
    assert said.endswith("For their racks alone: --limit rack_a:rack_b.")


def test_in_one_cluster_hosts_have_no_rack_and_the_phase_is_named() -> None:
    said = attendance_message([*A, "c"], {"": ["c"]}, "Driver")
    assert said == (
        "1 of 3 hosts is out (c), expected all of them: serving needs every host, so Driver was not started on the "
        "other 2. Do: fix what is reported for it, then run this again; completed steps are not repeated."
    )


def test_one_is_told_as_one() -> None:
    said = attendance_message(B, {"rack_b": ["b3"]})
    assert said.startswith("1 of 3 hosts is out (rack_b: b3)")
    assert "fix what is reported for it" in said


@given(st.sets(st.sampled_from([*A, *B, "c", "d"])))
def test_everybody_is_there_or_named_once(present: set[str]) -> None:
    expected = [*A, *B, "c", "d"]
    out = [host for hosts in missing_by_rack(expected, list(present), RACKS).values() for host in hosts]
    assert sorted([*out, *present]) == sorted(expected)
