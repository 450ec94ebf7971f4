# SPDX-License-Identifier: Apache-2.0
"""Quantiles and shares of histograms, as Prometheus has them."""

from __future__ import annotations

import bisect
import math
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.histogram import (
    MOST_BUCKETS,
    Histogram,
    added,
    increase,
    quantile,
    read_histogram,
    share_within,
    without,
)
from hypothesis import given
from hypothesis import strategies as st

BOUNDS = (0.1, 0.25, 0.5, 1.0, 5.0)
VALUES = st.lists(st.floats(0.001, 10), min_size=1, max_size=60)
SHARES = st.floats(0.01, 1)


def of(values: list[float], bounds: tuple[float, ...] = BOUNDS) -> Histogram:
    """The histogram of these observations."""
    pairs = [(bound, sum(1 for value in values if value <= bound)) for bound in (*bounds, math.inf)]
    found = read_histogram(pairs)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("share", "value"),
    # promql/testdata/histograms.test of Prometheus 2.45: testhistogram{start="positive"} after the first step.
    [(0, 0.0), (0.2, 0.048), (0.5, 0.15), (0.8, 0.72), (1, 1.0)],
)
def test_quantiles_are_those_of_prometheus(share: float, value: float) -> None:
    found = read_histogram([("0.1", 5), ("0.2", 7), ("1e0", 11), ("+Inf", 12)])
    assert found is not None
    assert quantile(found, share) == pytest.approx(value)


def test_beyond_the_last_bound_nothing_is_known() -> None:
    found = of([20.0] * 10)
    assert quantile(found, 0.95) == 5.0
    assert share_within(found, 60) == 0


def test_nothing_observed_is_no_figure() -> None:
    assert quantile(of([]), 0.95) is None
    assert share_within(of([]), 1) is None


def test_a_first_bound_that_is_not_positive() -> None:
    found = read_histogram([(-1, 4), (1, 8), (math.inf, 8)])
    assert found is not None
    assert quantile(found, 0.3) == -1
    assert share_within(found, 0.5) == 0.75


@given(VALUES, SHARES)
def test_a_quantile_is_in_the_bucket_of_the_exact_one(values: list[float], share: float) -> None:
    exact = sorted(values)[math.ceil(share * len(values)) - 1]
    found = quantile(of(values), share)
    place = bisect.bisect_left(BOUNDS, exact)
    assert found is not None
    if place == len(BOUNDS):
        assert found == BOUNDS[-1]
    else:
        assert (0, *BOUNDS)[place] <= found <= BOUNDS[place] * (1 + 1e-9)


@given(VALUES, SHARES, SHARES)
def test_a_larger_share_is_not_smaller(values: list[float], one: float, other: float) -> None:
    low, high = (quantile(of(values), share) for share in sorted((one, other)))
    assert low is not None
    assert high is not None
    assert low <= high


@given(VALUES, SHARES)
def test_a_share_is_the_inverse_of_a_quantile(values: list[float], share: float) -> None:
    found = of(values)
    value = quantile(found, share)
    within = share_within(found, value or 0)
    finite = found[BOUNDS[-1]] / len(values)
    assert within is not None
    assert within == pytest.approx(share) if share <= finite else within <= share


@given(VALUES, st.floats(0, 20))
def test_a_share_is_between_those_of_the_bounds_around(values: list[float], limit: float) -> None:
    within = share_within(of(values), limit)
    assert within is not None
    edges = (0, *BOUNDS)
    below = max(edge for edge in edges if edge <= limit)
    above = min((edge for edge in edges if edge >= limit), default=BOUNDS[-1])
    least, most = (sum(1 for value in values if value <= edge) / len(values) for edge in (below, above))
    assert least - 1e-9 <= within <= most + 1e-9


@given(VALUES, VALUES)
def test_together_and_apart(one: list[float], other: list[float]) -> None:
    together = added([of(one), of(other)])
    assert together == of([*one, *other])
    assert increase(of(one), of([*one, *other])) == of(other)
    assert without(of([*one, *other]), other) == of(one)


@given(VALUES, VALUES)
def test_without_what_is_not_there_nothing_is_below_nothing(values: list[float], others: list[float]) -> None:
    left = without(of(values), others)
    assert list(left.values()) == sorted(left.values())
    assert left[math.inf] == max(0, len(values) - len(others))


def test_an_observation_is_taken_from_the_nearest_bucket() -> None:
    assert without(of([0.2, 0.3]), [0.6]) == of([0.2])
    assert without(of([2.0]), [0.05]) == of([])


def test_counts_that_began_anew_and_other_bounds_are_no_increase() -> None:
    assert increase(of([0.2, 0.3]), of([0.2])) is None
    assert increase(of([0.2]), of([0.2, 0.3], (0.1, 1.0))) is None
    assert added([of([0.2]), of([0.2], (0.1, 1.0))]) is None
    assert added([]) is None


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [("+Inf", 3)],
        [("0.1", 3), ("0.5", 4)],
        [("0.1", float("nan")), ("+Inf", 4)],
        [("0.1", -1), ("+Inf", 4)],
        [("0.1", 1), ("+Inf", math.inf)],
        [("0.1", 1), ("+Inf", "1e400")],
        [("NaN", 1), ("+Inf", 1)],
        [("", 1), ("+Inf", 1)],
        [("soon", 1), ("+Inf", 1)],
        [(None, 1), ("+Inf", 1)],
        [("0.1", None), ("+Inf", 1)],
        [("0.1", {}), ("+Inf", 1)],
        [("0.1", True), ("+Inf", 1)],
        [*((bound, 1) for bound in range(MOST_BUCKETS)), ("+Inf", 1)],
    ],
)
def test_what_is_no_histogram(pairs: Any) -> None:
    assert read_histogram(pairs) is None


def test_a_count_that_falls_is_raised() -> None:
    assert read_histogram([("+Inf", 4), ("0.5", 3), ("0.1", 5)]) == {0.1: 5, 0.5: 5, math.inf: 5}


def test_too_many_together_are_no_histogram() -> None:
    huge = read_histogram([("1", 1e308), ("+Inf", 1e308)])
    assert huge is not None
    assert added([huge, huge]) is None
