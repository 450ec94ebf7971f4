# SPDX-License-Identifier: Apache-2.0
"""A serving group is moved as a whole, or put back as a whole."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.group import group_state


def host(action: str = "move", resumes: str | None = None, /, **facts: Any) -> dict[str, Any]:
    return {
        "prepared": action == "move",
        "decision": {"action": action, "reasons": ["why"], "resumes": resumes},
        **facts,
    }


def ended(outcome: str, problem: str = "") -> dict[str, Any]:
    return {"outcome": outcome, "problem": problem}


def test_before_anything_happened_the_group_goes_forward() -> None:
    state = group_state({"a": host(), "b": host(), "c": host("done")})
    assert state["forward"]
    assert not state["whole"]
    assert not state["put_back"]


def test_the_group_is_whole_when_all_that_move_have_moved() -> None:
    state = group_state({"a": host(result=ended("verified")), "b": host("done"), "c": host("leave")})
    assert state["whole"]
    assert state["waits_for"] == ["c"]


def test_a_task_that_was_skipped_is_no_result() -> None:
    state = group_state({"a": host(result={"skipped": True})})
    assert not state["failed"]
    assert not state["whole"]


@pytest.mark.parametrize("outcome", ["rolled-back", "lost", "failed"])
def test_one_that_failed_takes_the_others_back(outcome: str) -> None:
    state = group_state({"a": host(), "b": host(result=ended("verified")), "c": host(result=ended(outcome, "smoke"))})
    assert state["failed"] == {"c": "smoke"}
    assert state["put_back"] == ["a", "b"]
    assert state["waits_for"] == ([] if outcome == "rolled-back" else ["c"])


def test_an_endpoint_that_does_not_answer_takes_all_back() -> None:
    moved = ended("verified")
    state = group_state({"a": host(result=moved, served={"problem": "silence"}), "b": host(result=moved)})
    assert state["failed"] == {"a": "silence"}
    assert not state["whole"]
    assert state["put_back"] == ["a", "b"]


def test_where_one_cannot_be_prepared_nothing_has_to_be_put_back() -> None:
    state = group_state({"a": host(result=ended("unprepared", "disk full")), "b": host("move", "planned"), "c": host()})
    assert state["failed"] == {"a": "disk full"}
    assert state["put_back"] == []


def test_what_an_earlier_run_had_drained_is_put_back_also_then() -> None:
    state = group_state({"a": host(result=ended("unprepared", "disk full")), "b": host("move", "verified")})
    assert state["put_back"] == ["b"]


def test_hosts_on_their_way_back_take_the_others_along() -> None:
    state = group_state({"a": host("back", "booted"), "b": host("move", "verified")})
    assert not state["forward"]
    assert state["put_back"] == ["b", "a"]


def test_refusals_name_their_host() -> None:
    assert group_state({"a": host("refuse")})["refused"] == ["a: why"]


def test_no_host_is_both_lost_and_put_back() -> None:
    outcomes = [None, "verified", "rolled-back", "lost", "failed", "unprepared"]
    for one, other in itertools.product(outcomes, outcomes):
        hosts = {
            name: host(**({"result": ended(outcome)} if outcome else {}))
            for name, outcome in (("a", one), ("b", other))
        }
        state = group_state(hosts)
        assert not set(state["put_back"]) & set(state["waits_for"])
        assert not (state["whole"] and state["failed"])


def test_a_host_without_a_journal_is_not_put_back() -> None:
    """A host of an earlier run is lost before this one has prepared the others."""
    state = group_state({"a": host(result=ended("lost")), "b": host(prepared=False), "c": host("move", "drained")})
    assert state["put_back"] == ["c"]


def test_a_host_that_cannot_be_drained_takes_all_back() -> None:
    state = group_state({"a": host(result=ended("not-drained", "it hangs")), "b": host()})
    assert state["put_back"] == ["a", "b"]
