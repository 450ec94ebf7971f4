# SPDX-License-Identifier: Apache-2.0
"""What is made of the file in which a supervisor says how its groups are."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.kinds import (
    group_of_unit,
    read_groups,
    supervisor_words,
    unrecoverable_reason,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.phase import OLD_SECONDS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences, explain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import records

WANTED = {"groups": {"server": {"phase": "serving"}}}
UNIT = "firstlight-server.service"


def state(phase: str, **changes: Any) -> str:
    group = {"phase": phase, "why": "", "missing": {}, "attempts": 0, "nodes": {"spark0": {"units": {UNIT: "active"}}}}
    return json.dumps({"node": "spark0", "problem": "", "groups": {"server": {**group, **changes}}})


def seen(text: str | None, age: float | None = 1.0) -> dict[str, Any]:
    return {"groups": read_groups(text, age, ["server"])}


def test_a_group_that_serves_is_right() -> None:
    assert differences(WANTED, seen(state("serving"))) == []


def test_a_group_that_waits_says_for_whom_and_why() -> None:
    found = differences(WANTED, seen(state("gathering", missing={"spark2": "it has another token"})))
    assert explain(found) == ["group server is gathering (spark2: it has another token), expected serving"]


def test_a_reason_is_not_said_twice() -> None:
    found = differences(WANTED, seen(state("gathering", why="waits for spark2: gone", missing={"spark2": "gone"})))
    assert explain(found) == ["group server is gathering (waits for spark2: gone), expected serving"]


@pytest.mark.parametrize(
    ("text", "age", "words"),
    [
        (None, None, "no supervisor has run since the host booted"),
        ("{", 1.0, "is not the state file of a supervisor"),
        ('{"groups": []}', 1.0, "is not the state file of a supervisor"),
        ('{"groups": {}}', 1.0, "has no such group"),
        (state("serving"), OLD_SECONDS + 1, "it last wrote 31 s ago, when the group was serving"),
    ],
)
def test_a_supervisor_that_says_nothing_is_no_serving_group(text: str | None, age: float | None, words: str) -> None:
    (sentence,) = explain(differences(WANTED, seen(text, age)))
    assert "no supervisor" in sentence
    assert words in sentence


@pytest.mark.parametrize(
    ("text", "age", "remedy"),
    [
        (state("failed", why="five starts failed"), 1.0, "then run playbooks/serve.yml"),
        (state("backing-off"), 1.0, "the supervisor continues by itself"),
        (None, None, "run site.yml"),
    ],
)
def test_a_record_says_what_to_do(text: str | None, age: float | None, remedy: str) -> None:
    (record,) = records("spark0", {"supervisor": WANTED}, seen(text, age))
    assert (record["id"], record["verdict"]) == ("group.server", "fail")
    assert remedy in record["remedy"]


def test_a_drained_host_is_the_reason() -> None:
    found = records("spark0", {"supervisor": WANTED}, seen(state("drained")) | {"facts": {"drained": True}})
    assert found[-1]["by"] == "the host is out of service (see host.drained)"


def test_nobody_looked() -> None:
    (record,) = records("spark0", {"supervisor": WANTED}, {"errors": {"groups": "no answer within 30 s"}})
    assert record["verdict"] == "could_not_check"


@pytest.mark.parametrize(
    ("text", "age"),
    [(None, None), ("{", 1.0), (state("serving"), OLD_SECONDS + 1), (state("serving", nodes={}), 1.0)],
)
def test_a_unit_that_nobody_keeps_has_no_group(text: str | None, age: float | None) -> None:
    assert group_of_unit(text, age, UNIT) is None


def test_a_supervisor_that_has_given_up_has_ended_and_is_believed() -> None:
    text, age = state("failed", why="gave up after 5 failed starts"), OLD_SECONDS * 100
    (sentence,) = explain(differences(WANTED, seen(text, age)))
    assert sentence == "group server is failed (gave up after 5 failed starts), expected serving"
    group = group_of_unit(text, age, UNIT)
    assert group is not None
    assert unrecoverable_reason(None, group) == "group server gave up after 5 failed starts"


def test_what_the_supervisor_says_is_told_of_every_group() -> None:
    assert supervisor_words(state("warming", why="loads"), 1.0) == "group server is warming (loads)"
    assert (
        supervisor_words(state("warming"), OLD_SECONDS + 1)
        == supervisor_words("{", 1.0)
        == supervisor_words(None, None)
        == ""
    )


@pytest.mark.parametrize("phase", ["gathering", "starting", "warming", "serving", "stopping", "backing-off"])
def test_a_supervisor_at_work_is_waited_for(phase: str) -> None:
    group = group_of_unit(state(phase), 1.0, UNIT)
    assert group is not None
    assert unrecoverable_reason(None, group) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (state("failed", why="gave up after 5 failed starts"), "group server gave up after 5 failed starts"),
        (state("failed"), "group server was given up by its supervisor"),
        (state("drained"), "uncordon.yml"),
        (
            state("backing-off", attempts=4, why="exit status 1"),
            r"failed to start 3 times .* backing-off \(exit status 1\)",
        ),
    ],
)
def test_what_does_not_come_is_not_waited_for(text: str, words: str) -> None:
    before, now = (group_of_unit(one, 1.0, UNIT) for one in (state("starting", attempts=1), text))
    assert now is not None
    told = unrecoverable_reason(before, now)
    assert told is not None
    assert re.search(words, told)
