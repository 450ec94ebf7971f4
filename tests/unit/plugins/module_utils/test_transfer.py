# SPDX-License-Identifier: Apache-2.0
"""Rate and time left of a transfer."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.transfer import (
    Rate,
    progress,
    progress_words,
    time_left,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples


def test_a_rate_is_that_of_the_last_moments() -> None:
    rate = Rate()
    assert rate.at(0.0, 0) == 0.0
    assert rate.at(1.0, 100) == 100.0
    for second in range(2, 60):
        rate.at(float(second), 100)
    assert rate.at(60.0, 100) == 0.0


@examples(50)
@given(st.lists(st.tuples(st.floats(0.01, 100.0), st.integers(-1000, 10**12)), max_size=30))
def test_a_rate_is_never_negative(steps: list[tuple[float, int]]) -> None:
    rate, now, done = Rate(), 0.0, 0
    for seconds, more in steps:
        now, done = now + seconds, max(0, done + more)
        assert rate.at(now, done) >= 0.0


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            progress("copying", 3_100_000_000, 407_000_000_000, 1.2e9),
            "copying 3.1 of 407.0 GB, 1.2 GB/s, 5 min 37 s left",
        ),
        (progress("copying", 100_000_000, 500_000_000, 50e6), "copying 100.0 of 500.0 MB, 50.0 MB/s, 8 s left"),
        (progress("reading", 5, 500_000_000, 0.0), "reading 0.0 of 500.0 MB, no data received lately"),
        (progress("copying", 10**9, 10**9, 0.0), "copying 1.0 of 1.0 GB"),
        (progress("", 0, 0, 0.0), ""),
        ({}, ""),
    ],
)
def test_progress_is_told_in_a_few_words(state: dict[str, object], words: str) -> None:
    assert progress_words(state) == words


def test_hours_are_told_without_seconds() -> None:
    assert time_left(2 * 3600 + 5 * 60 + 59) == "2 h 05 min"
