# SPDX-License-Identifier: Apache-2.0
"""Which points are measured, which are left after an interruption, and how long the rest takes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.points import (
    LEAST_WARMUPS,
    is_over,
    left_words,
    new_seed,
    points_of,
    remaining,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.results import add_run, new_document
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import Workload
from hypothesis import given
from hypothesis import strategies as st

CHAT = Workload("chat", input=1024, output=256, streams=(1, 16), rates=(4.0,), repeats=2)
WORKLOADS = st.builds(
    Workload,
    name=st.sampled_from(["a", "b", "c"]),
    input=st.integers(1, 4096),
    output=st.integers(1, 1024),
    streams=st.lists(st.integers(1, 512), max_size=4, unique=True).map(tuple),
    rates=st.lists(st.floats(0.1, 300), max_size=3, unique=True).map(tuple),
    requests_per_stream=st.integers(10, 20),
    repeats=st.integers(1, 4),
)


def document(*workloads: Workload) -> dict[str, Any]:
    return new_document("lab", "run", "2026-11-18T08:30:00+00:00", {}, {}, workloads)


def measured(seed: int = 1, problem: str | None = None, seconds: float = 10.0) -> dict[str, Any]:
    return {"seed": seed, "problem": problem, "seconds": seconds}


def test_all_points_come_once_before_any_comes_again() -> None:
    assert [(point.streams, point.rate, point.repeat) for point in points_of([CHAT])] == [
        (1, None, 1),
        (16, None, 1),
        (None, 4.0, 1),
        (1, None, 2),
        (16, None, 2),
        (None, 4.0, 2),
    ]
    assert points_of([CHAT])[1].words == "chat at 16 streams, run 1 of 2"
    assert points_of([CHAT])[2].words == "chat at 4 requests/s, run 1 of 2"


@given(st.lists(WORKLOADS, max_size=3, unique_by=lambda one: one.name))
def test_every_point_has_enough_requests_and_warm_ups(workloads: list[Workload]) -> None:
    points = points_of(workloads)
    by_name = {workload.name: workload for workload in workloads}
    counts = Counter(point.key for point in points)
    assert all(count == by_name[name].repeats for (name, _, _), count in counts.items())
    assert len({(point.key, point.repeat) for point in points}) == len(points)
    for point in points:
        assert (point.streams is None) != (point.rate is None)
        assert point.requests >= 10 * (point.streams or 1)
        assert point.warmups >= max(LEAST_WARMUPS, 2 * (point.streams or 0))
        assert point.cost > 0


@given(WORKLOADS, st.data())
def test_what_is_measured_is_not_measured_again(workload: Workload, data: st.DataObject) -> None:
    points, kept = points_of([workload]), document(workload)
    cut = data.draw(st.integers(0, len(points)))
    for number, point in enumerate(points[:cut]):
        kept = add_run(kept, point, measured(seed=number))
    assert remaining(points, kept) == points[cut:]
    assert is_over(points, kept) == (cut == len(points))


def test_a_run_with_a_problem_is_over_but_comes_again() -> None:
    workload = Workload("latency", input=8, output=8, streams=(1,), repeats=1)
    points = points_of([workload])
    kept = add_run(document(workload), points[0], measured(problem="stalled"))
    assert is_over(points, kept)
    assert remaining(points, kept) == points


def test_a_seed_is_never_used_twice() -> None:
    drawn = iter([7, 7, 3, 9])
    assert new_seed(lambda most: min(next(drawn), most), {7, 3}) == 9


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "1 of 6"), (10.0, "2 of 6, about 50.0 s left"), (60.0, "2 of 6, about 5 min 00 s left")],
)
def test_the_time_that_is_left(seconds: float | None, words: str) -> None:
    workload = Workload("w", input=8, output=8, streams=(1, 2), repeats=3)
    points, kept = points_of([workload]), document(workload)
    if seconds is None:
        assert left_words(kept, points, 0) == words
    else:
        assert left_words(add_run(kept, points[0], measured(seconds=seconds)), points, 1) == words
