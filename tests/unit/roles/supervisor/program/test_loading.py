# SPDX-License-Identifier: Apache-2.0
"""A start that loads is told from one that hangs, by what moves and not by the clock alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import GroupConfig
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    GroupPlan,
    Loading,
    NodeReport,
    Order,
    Timing,
    UnitPlan,
    UnitReport,
)
from ansible_collections.firstlight.cluster.roles.supervisor.program.codec import (
    order_from_data,
    order_to_data,
    report_from_data,
    report_to_data,
)
from ansible_collections.firstlight.cluster.roles.supervisor.program.loading import (
    CHILD_STEP,
    MEMORY_STEP,
    READ_STEP,
)
from ansible_collections.firstlight.cluster.roles.supervisor.program.shown import Clocks, HeadView, head_part
from ansible_collections.firstlight.cluster.roles.supervisor.program.wire import WireError
from hypothesis import given
from hypothesis import strategies as st

from .group import PLAN, RAY, Group

LIMIT, QUIET = 3400, 600
LARGE = replace(
    PLAN,
    timing=Timing(start_timeout=LIMIT, progress_timeout=QUIET, start_attempts=3),
    weights_bytes=100 * 10**9,
    has_cache=True,
)
FREE = 100 << 30


class Start(Group):
    """A group that starts, whose nodes tell how far their engine is."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(plan=replace(LARGE, **fields))
        self.until("warming")
        self.obey()
        for node in self.plan.nodes:
            self.set(node, memory_free=FREE, loading=Loading(known=True))
        self.tick()

    def moves(self, node: str = "spark1", *, memory: int = 0, **more: Any) -> None:
        """So much more than before."""
        before = self.reports[node]
        seen = {
            name: getattr(before.loading, name) + value if isinstance(value, int) else value
            for name, value in more.items()
        }
        self.set(node, memory_free=before.memory_free - memory, loading=replace(before.loading, **seen))


MOVES: list[dict[str, Any]] = [
    {"bytes_read": READ_STEP},
    {"memory": MEMORY_STEP},
    {"child_seconds": CHILD_STEP},
    {"cached_files": 1},
    {"lines": 1},
]


@pytest.mark.parametrize("move", MOVES, ids=str)
@pytest.mark.parametrize("node", ["spark0", "spark1"])
def test_as_long_as_anything_moves_on_any_node_it_goes_on_until_the_hard_limit(move: dict[str, Any], node: str) -> None:
    start = Start()
    began = start.now
    while start.decision.phase == "warming":
        start.moves(node, **move)
        start.tick(QUIET - 1)
        assert start.now - began <= LIMIT + QUIET
    assert start.now - began > LIMIT
    assert f"there was no completion within {LIMIT} s of the start; the last progress was" in start.decision.why
    assert start.decision.attempts == 1


def test_without_any_progress_it_hangs_and_says_what_was_last_seen() -> None:
    start = Start()
    start.moves("spark1", bytes_read=41 * 10**9, last_line="Loading safetensors checkpoint shards: 41%")
    start.tick(10)
    start.answer("connection refused", alive=False)
    assert start.tick(QUIET - 2).phase == "warming"
    decision = start.tick(2)
    assert (decision.phase, decision.attempts) == ("stopping", 1)
    assert decision.remember["reason"] == (
        "it hangs: nothing was read, compiled or logged on any node for 600 s; the last progress was 601 s ago, 12 s "
        "after the start (bytes were read on spark1); 41.0 GB of 200.0 GB were read; the last line on spark1: "
        '"Loading safetensors checkpoint shards: 41%"; the last request got: connection refused'
    )


@pytest.mark.parametrize(
    "noise",
    [
        {"bytes_read": READ_STEP // 100},
        {"memory": MEMORY_STEP // 100},
        {"last_line": "No available shared memory broadcast block found in 60 seconds."},
    ],
    ids=str,
)
def test_what_an_idle_engine_does_is_no_progress(noise: dict[str, Any]) -> None:
    start = Start()
    for _ in range(QUIET // 10 + 1):
        start.moves("spark0", **noise)
        start.tick(10)
    assert "it hangs" in start.decision.why


def test_memory_that_comes_and_goes_is_progress_once() -> None:
    start = Start()
    for _ in range(QUIET // 20 + 1):
        start.moves("spark0", memory=MEMORY_STEP)
        start.tick(10)
        start.moves("spark0", memory=-MEMORY_STEP)
        start.tick(10)
    assert "it hangs" in start.decision.why


def test_a_process_that_ends_takes_its_bytes_with_it_and_the_next_one_counts_from_there() -> None:
    start = Start()
    start.moves("spark0", bytes_read=50 * READ_STEP, child_seconds=500)
    start.tick()
    start.moves("spark0", bytes_read=-50 * READ_STEP, child_seconds=-500)
    start.tick(QUIET - 1)
    start.moves("spark0", bytes_read=READ_STEP, child_seconds=CHILD_STEP)
    assert start.tick(1).phase == "warming"
    assert start.tick(QUIET).phase == "warming"


def test_where_a_node_cannot_tell_nobody_concludes_that_it_hangs() -> None:
    start = Start()
    start.set("spark1", loading=Loading())
    assert start.tick(LIMIT - 10).phase == "warming"
    assert "no completion within" in start.tick(11).why


def test_nodes_of_an_older_supervisor_have_only_the_limit() -> None:
    start = Start()
    for node in start.plan.nodes:
        start.set(node, loading=Loading())
    start.restart_supervisor()
    start.tick()
    assert start.decision.phase == "warming"
    assert start.decision.advance is None
    assert start.tick(LIMIT - 10).phase == "warming"
    assert start.tick(20).phase == "stopping"


def test_the_time_counts_from_the_last_stage() -> None:
    group = Group(plan=replace(LARGE, timing=replace(LARGE.timing, stage_timeout=5000, progress_timeout=60)))
    group.until("starting")
    for node in group.plan.nodes:
        group.set(node, loading=Loading(known=True))
    group.tick(1000)
    assert group.decision.phase == "starting"
    group.until("warming")
    assert group.tick(30).phase == "warming"


def test_nodes_measure_only_while_it_starts() -> None:
    group = Group(plan=LARGE)
    seen = {group.decision.phase: group.decision.order.measure}
    for _ in range(9):
        group.obey()
        group.tick()
        seen[group.decision.phase] = group.decision.order.measure
    group.answer()
    seen[group.decision.phase] = group.decision.order.measure
    assert seen == {"gathering": False, "stopping": False, "starting": True, "warming": True, "serving": False}


def test_how_far_it_is_is_shown_and_afterwards_how_long_it_took() -> None:
    start = Start()
    began = start.now - 2
    start.moves("spark0", bytes_read=99 * 10**9, last_line="INFO loading")
    start.tick(569)
    advance = start.decision.advance
    assert advance is not None
    assert (advance.bytes_read, advance.expected_bytes) == (99 * 10**9, 200 * 10**9)
    assert (advance.words, advance.last_line) == ("bytes were read on spark0", "INFO loading")
    assert advance.progress_at == start.now
    shown = head_part(GroupConfig(start.plan), HeadView(start.decision, began), {}, Clocks(start.now, 1.8e9))
    assert shown["loading"]["bytes_read"] == 99 * 10**9
    assert shown["loading"]["progress_at"] == "2027-01-15T08:00:00+00:00"
    assert shown["started"] is None
    start.tick(100)
    start.answer()
    started = start.decision.started
    assert started is not None
    assert (start.decision.phase, start.decision.advance) == ("serving", None)
    assert started.read_seconds == pytest.approx(570, abs=3)
    assert started.seconds == pytest.approx(671, abs=3)
    shown = head_part(GroupConfig(start.plan), HeadView(start.decision, began), {}, Clocks(start.now, 1.8e9))
    assert shown["loading"] is None
    assert shown["started"]["bytes_read"] == 99 * 10**9


# --- properties -------------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.integers(1, 300),
        st.sampled_from(["spark0", "spark1"]),
        st.integers(-2, len(MOVES) - 1),
        st.integers(1, 20),
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_it_is_ended_early_exactly_when_nothing_moved_for_the_whole_time(
    steps: list[tuple[int, str, int, int]],
) -> None:
    """A clock and a list of what moves when; what the head does follows from these alone."""
    start = Start()
    began = moved = start.now
    for seconds, node, which, times in steps:
        if which >= 0:
            start.moves(node, **{name: times * value for name, value in MOVES[which].items()})
        decision = start.tick(seconds)
        moved = start.now if which >= 0 else moved
        if start.now - began + 2 > LIMIT:
            return
        assert (decision.phase == "warming") == (start.now - moved <= QUIET), decision
        if decision.phase != "warming":
            assert "it hangs" in decision.why
            return


@given(
    readings=st.lists(
        st.builds(
            Loading,
            known=st.booleans(),
            bytes_read=st.integers(0, 2**50),
            child_seconds=st.integers(0, 10**6),
            cached_files=st.integers(0, 10**5),
            lines=st.integers(0, 10**4),
            last_line=st.text(max_size=20),
        ),
        max_size=30,
    ),
    free=st.lists(st.integers(0, 2**40), min_size=30, max_size=30),
)
def test_whatever_nodes_say_a_start_has_its_limit_and_what_is_shown_is_plain(
    readings: list[Loading], free: list[int]
) -> None:
    start = Start()
    began = start.now
    for reading, memory in zip(readings, free, strict=False):
        start.set("spark0", loading=reading, memory_free=memory)
        start.tick(QUIET / 2)
        if start.now - began > LIMIT:
            break
        head_part(GroupConfig(start.plan), HeadView(start.decision, began), {}, Clocks(start.now, 1.8e9))
    start.tick(LIMIT)
    assert start.decision.phase in ("stopping", "backing-off", "gathering", "starting")
    assert start.decision.attempts >= 1


# --- over the wire ----------------------------------------------------------------------------------------------------


def test_a_reading_goes_over_the_wire_and_an_older_report_has_none() -> None:
    report = NodeReport("spark0", loading=Loading(True, 5, 6, 7, 8, "line"), units={RAY: UnitReport()})
    assert report_from_data(report_to_data(report)) == report
    older = report_to_data(report)
    del older["loading"]
    assert report_from_data(older).loading == Loading()
    with pytest.raises(WireError, match="bytes_read is 'many'"):
        report_from_data({**older, "loading": {"bytes_read": "many"}})
    order = Order("e", 1, measure=True, discard=True)
    assert order_from_data(order_to_data(order)) == order


def test_a_reading_is_no_news() -> None:
    report = NodeReport("spark0", memory_free=5)
    assert replace(report, memory_free=6, loading=Loading(known=True)).lasting == report.lasting
    assert replace(report, clean=False).lasting != report.lasting


# --- caches that nobody can read --------------------------------------------------------------------------------------


def discards(attempts: int, **fields: Any) -> list[bool]:
    """Of each start until it gives up, whether it begins with empty caches."""
    plan = replace(LARGE, timing=replace(LARGE.timing, start_attempts=attempts), **fields)
    group = Group(plan=plan)
    found = []
    while group.decision.phase != "failed":
        group.until("starting")
        found.append(group.decision.order.discard)
        group.fail_start()
        group.now += 1000
        group.tick()
    return found


def test_one_start_is_made_without_what_was_compiled_and_one_with_what_that_made() -> None:
    assert discards(5) == [False, False, False, True, False]
    assert discards(3) == [False, True, False]
    assert discards(2) == [False, False]
    assert discards(5, has_cache=False) == [False] * 5


def test_a_start_whose_time_was_over_has_compiled_for_the_next_one() -> None:
    start = Start()
    start.tick(LIMIT + 1)
    assert start.decision.attempts == 1
    start.now += 1000
    start.until("starting")
    assert not start.decision.order.discard
    # Remembered, as the next supervisor may be another one.
    assert start.decision.remember["late"]
    start.fail_start()
    assert start.decision.remember["late"] == ""


def test_a_group_of_one_node_without_weights_is_evaluated_as_well() -> None:
    plan = GroupPlan("one", "a", {"a": (UnitPlan("u.service"),)}, Timing(progress_timeout=50))
    assert (plan.weights_bytes, plan.has_cache) == (0, False)
