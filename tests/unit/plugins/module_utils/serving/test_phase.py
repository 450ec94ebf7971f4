# SPDX-License-Identifier: Apache-2.0
"""Whether it serves, will, or will not: from what a supervisor wrote."""

from __future__ import annotations

import datetime
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.serving.phase import (
    DONE,
    HOPELESS,
    OUT,
    WAITING,
    describe,
    parse_time,
    standing,
)
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime.datetime(2026, 11, 15, 9, 0, 0, tzinfo=datetime.UTC)


def state(phase: str = "serving", epoch: str = "b", seconds: float = 1.0, **more: Any) -> dict[str, Any]:
    written = NOW - datetime.timedelta(seconds=seconds)
    return {"written_at": written.isoformat(), "groups": {"server": {"phase": phase, "epoch": epoch, **more}}}


def test_a_group_that_serves_is_what_is_waited_for() -> None:
    found = standing(state(), NOW)
    assert (found.verdict, dict(found.epochs)) == (DONE, {"server": "b"})


def test_the_former_epoch_does_not_count() -> None:
    assert standing(state(epoch="a"), NOW, former={"server": "a"}).verdict == WAITING
    assert standing(state(epoch="b"), NOW, former={"server": "a"}).verdict == DONE


def test_what_was_written_before_does_not_count() -> None:
    assert standing(state(seconds=5), NOW, since=NOW).verdict == WAITING
    assert standing(state("failed", seconds=5), NOW, since=NOW).verdict == WAITING


def test_a_supervisor_that_has_given_up_says_why_also_when_it_has_ended_long_ago() -> None:
    found = standing(state("failed", seconds=9999, why="gave up: weights differ"), NOW, supervisor="failed (failed)")
    assert found.verdict == HOPELESS
    assert found.words == "server gave up: weights differ"


def test_without_a_supervisor_nothing_comes() -> None:
    assert standing(state(), NOW, supervisor="inactive (dead)").verdict == HOPELESS
    assert standing(None, NOW, supervisor="not there").verdict == HOPELESS


def test_an_old_state_of_a_supervisor_that_runs_is_waited_for() -> None:
    found = standing(state(seconds=90), NOW)
    assert found.verdict == WAITING
    assert "90 s" in found.words


def test_a_drained_node_is_no_failure_and_named() -> None:
    found = standing(state("drained", missing={"spark2": "drained: a new cable"}), NOW)
    assert found.verdict == OUT
    assert "spark2 (drained: a new cable)" in found.words


def test_of_several_groups_all_must_serve() -> None:
    both = state()
    both["groups"]["server-1"] = {"phase": "starting", "why": "stage 0", "epoch": "c", "attempts": 2}
    found = standing(both, NOW)
    assert found.verdict == WAITING
    assert found.words == "server-1 is starting: stage 0; 2 failed starts in a row"


def test_a_reason_is_not_said_twice() -> None:
    group = {"phase": "gathering", "why": "spark2 is not ready: memory", "missing": {"spark2": "memory"}}
    assert describe("server", group) == "server is gathering: spark2 is not ready: memory"


@given(st.text(max_size=30))
def test_what_is_no_time_is_none(text: str) -> None:
    found = parse_time(text)
    assert found is None or found.tzinfo is not None


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.dictionaries(st.sampled_from(["groups", "server", "phase", "written_at", "x"]), inner),
        max_leaves=8,
    )
)
def test_whatever_is_in_the_file_there_is_a_verdict(document: Any) -> None:
    found = standing(document if isinstance(document, dict) else None, NOW)
    assert found.verdict in (DONE, WAITING, HOPELESS, OUT)
    assert found.words
