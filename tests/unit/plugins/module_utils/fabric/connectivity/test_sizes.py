# SPDX-License-Identifier: Apache-2.0
"""The largest packet that passes, by few questions."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.sizes import (
    MOST_QUESTIONS,
    SMALL,
    largest_packet,
)
from hypothesis import given
from hypothesis import strategies as st


class Path:
    """Passes packets up to a size, and counts the questions."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.asked: list[int] = []

    def __call__(self, size: int) -> bool:
        self.asked.append(size)
        return size <= self.limit

    @property
    def failed(self) -> int:
        return sum(size > self.limit for size in self.asked)


@given(st.integers(SMALL, 8999), st.sampled_from([9000, 9600]))
def test_it_is_exact(limit: int, mtu: int) -> None:
    path = Path(limit)
    assert largest_packet(path, mtu) == limit
    assert len(path.asked) <= MOST_QUESTIONS


@given(st.integers(0, 9000), st.integers(1, 24))
def test_it_is_never_too_large(limit: int, most: int) -> None:
    path = Path(limit)
    assert largest_packet(path, 9000, most) <= limit
    assert len(path.asked) <= most + 10


def test_a_dead_path_is_one_question() -> None:
    path = Path(0)
    assert largest_packet(path, 9000) == 0
    assert len(path.asked) == 1


def test_a_usual_size_costs_one_question_that_fails() -> None:
    for limit in (1500, 1504):
        path = Path(limit)
        assert largest_packet(path, 9000) == limit
        assert path.failed == 1
