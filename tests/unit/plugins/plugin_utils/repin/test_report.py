# SPDX-License-Identifier: Apache-2.0
"""What a re-pin reports."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.report import lines, report
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples
from tests.unit.hostile import documents

TIMELINE = [
    {"state": "planned", "direction": "forward", "at": "2026-11-15T10:00:00+00:00", "seconds_since_start": 0},
    {"state": "drained", "direction": "forward", "at": "2026-11-15T10:00:05+00:00", "seconds_since_start": 5.2},
    {"state": "verified", "direction": "forward", "at": "2026-11-15T10:01:00+00:00", "seconds_since_start": 60},
]
BACK = [
    *TIMELINE[:2],
    {"state": "failed", "direction": "forward", "at": "x", "seconds_since_start": 9, "detail": {"reason": "smoke"}},
    {"state": "rolled-back", "direction": "back", "at": "x", "seconds_since_start": 99},
]


def moved(**facts: Any) -> dict[str, Any]:
    result = {"outcome": "verified", "problem": "", "timeline": TIMELINE, "journal": {"id": "one"}}
    return {"decision": {"action": "move", "resumes": None}, "result": result, **facts}


def test_a_move_that_went_well() -> None:
    served = {"answered_at": "2026-11-15T10:02:05+00:00"}
    document = report("new", "old", {"a": moved(served=served), "b": moved()}, "a")
    assert document["done"]
    assert document["id"] == "one"
    assert document["endpoint"]["down_seconds"] == 120
    text = "\n".join(lines(document))
    assert "old -> new: done" in text
    assert "a: moved: planned +0 s, drained +5 s, verified +60 s" in text
    assert "down for at most 120 s" in text
    assert "Set firstlight_stack to new" in text


def test_a_move_that_was_undone_names_host_and_reason() -> None:
    undone = {"outcome": "rolled-back", "problem": "library is 2, expected 1", "timeline": BACK, "journal": {}}
    hosts: dict[str, Any] = {
        "a": moved(back={"outcome": "rolled-back", "problem": "", "timeline": BACK}),
        "b": {"decision": {"action": "move", "resumes": "booted"}, "result": undone},
    }
    document = report("new", "old", hosts, "a")
    assert not document["done"]
    assert {name: one["outcome"] for name, one in document["hosts"].items()} == {"a": "put back", "b": "put back"}
    assert "a: rolled back with the rest: smoke" in document["problems"]
    assert "b: library is 2, expected 1" in document["problems"]
    text = "\n".join(lines(document))
    assert "NOT DONE" in text
    assert "resumed at booted" in text
    assert "rolled-back (back) +99 s" in text
    assert "Set firstlight_stack" not in text


def test_a_host_that_was_left_alone_is_a_problem_and_one_that_was_right_is_none() -> None:
    hosts: dict[str, Any] = {
        "a": {"decision": {"action": "done", "reasons": ["already on new"]}},
        "b": {"decision": {"action": "leave", "reasons": ["no answer"]}},
    }
    document = report("new", "old", hosts, "a")
    assert document["hosts"]["a"]["problem"] is None
    assert document["problems"] == ["b: unhealthy before the re-pin, so neither moved nor rolled back: no answer"]
    assert not document["done"]


def test_an_endpoint_that_stays_silent_is_said_for_both_ways() -> None:
    facts = moved(served={"problem": "no answer"}, served_back={"problem": "still none"})
    document = report("new", "old", {"a": facts}, "a")
    assert document["problems"] == [
        "endpoint does not serve with the new stack: no answer",
        "endpoint does not serve again: still none",
    ]


def test_a_move_that_was_given_up_as_asked_is_done() -> None:
    back = {"outcome": "rolled-back", "problem": "failed at booted: given up", "timeline": BACK}
    hosts: dict[str, Any] = {
        "a": {"decision": {"action": "back", "given_up": True}, "back": back},
        "b": {"decision": {"action": "done"}},
    }
    document = report("old", "old", hosts, "a")
    assert document["done"], document["problems"]


def test_a_reason_of_many_lines_is_told_once() -> None:
    timeline = [{**BACK[2], "detail": {"reason": "silence\nline 1\nline 2"}}]
    back = {"outcome": "rolled-back", "timeline": timeline}
    document = report("new", "old", {"a": moved(back=back)}, "a")
    assert document["problems"] == ["a: rolled back with the rest: silence"]


@pytest.mark.hostile
@pytest.mark.parametrize(
    "lie",
    [
        {"timeline": ["verified"]},
        {"timeline": [{"state": "verified", "seconds_since_start": "soon"}]},
        {"timeline": [{"state": "verified", "detail": [1]}]},
        {"timeline": 7},
        {"journal": "x"},
    ],
)
def test_a_host_that_says_nonsense_has_failed_and_the_others_are_told_of(lie: dict[str, Any]) -> None:
    hostile = moved()
    hostile["result"] = {**hostile["result"], **lie}
    document = report("new", "old", {"a": moved(), "b": hostile}, "a")
    assert {name: one["outcome"] for name, one in document["hosts"].items()} == {"a": "moved", "b": "failed"}
    assert not document["done"]
    assert "find out who changed this host" in "\n".join(lines(document))


NAMES = (
    "outcome",
    "problem",
    "timeline",
    "journal",
    "state",
    "detail",
    "verified",
    "reason",
    "at",
    "action",
    "reasons",
)


@pytest.mark.hostile
@examples(60)
@given(st.dictionaries(st.sampled_from(["decision", "result", "back", "served", "served_back"]), documents(NAMES)))
def test_whatever_a_host_says_the_others_are_told_of(lie: dict[str, Any]) -> None:
    for head in "ab":
        document = report("new", "old", {"a": moved(), "b": {**moved(), **lie}}, head)
        assert document["hosts"]["a"]["outcome"] == "moved"
        assert lines(document)
