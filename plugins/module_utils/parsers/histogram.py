# SPDX-License-Identifier: Apache-2.0
"""Histograms as in Prometheus: cumulative counts by upper bound, with an infinite last bound. Pure functions."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence

Histogram = dict[float, float]
"""Bounds ascend and counts never fall: only `read_histogram` makes one."""

MOST_BUCKETS = 128


def read_histogram(pairs: Iterable[tuple[object, object]]) -> Histogram | None:
    """Build a histogram from bounds and counts as a page or a file has them; None if they are invalid.

    A count that falls from one bound to the next is raised, as Prometheus does: pages are written while counts grow.
    """
    found: Histogram = {}
    for bound, count in pairs:
        try:
            upper, value = float(str(bound)), float(str(count))
        except ValueError:
            return None
        if math.isnan(upper) or not 0 <= value < math.inf or len(found) >= MOST_BUCKETS:
            return None
        found[upper] = value
    if len(found) < 2 or math.inf not in found:
        return None
    highest = 0.0
    raised: Histogram = {}
    for upper in sorted(found):
        highest = raised[upper] = max(highest, found[upper])
    return raised


def increase(before: Histogram, now: Histogram) -> Histogram | None:
    """The increase between two readings; None if the counters were reset or the histograms differ."""
    if list(before) != list(now) or any(now[bound] < before[bound] for bound in now):
        return None
    return read_histogram((bound, now[bound] - before[bound]) for bound in now)


def added(several: Sequence[Histogram]) -> Histogram | None:
    """The sum of several histograms; None if there are none, or their bounds differ."""
    if not several or any(list(one) != list(several[0]) for one in several):
        return None
    return read_histogram((bound, sum(one[bound] for one in several)) for bound in several[0])


def without(found: Histogram, values: Iterable[float]) -> Histogram:
    """Remove these observations: each from its bucket, else from the nearest one below or above."""
    bounds = list(found)
    counts = [count - below for count, below in zip(found.values(), [0.0, *found.values()], strict=False)]
    for value in values:
        place = min(bisect.bisect_left(bounds, value), len(bounds) - 1)
        nearest = next((at for at in (*range(place, -1, -1), *range(place + 1, len(bounds))) if counts[at] >= 1), None)
        if nearest is not None:
            counts[nearest] -= 1
    total = 0.0
    left: Histogram = {}
    for bound, count in zip(bounds, counts, strict=True):
        total += count
        left[bound] = total
    return left


def quantile(found: Histogram, share: float) -> float | None:
    """The quantile at `share`, interpolated within its bucket as histogram_quantile does.

    None without observations. Nothing is known beyond the last finite bound: the result is then that bound.
    """
    bounds, counts = list(found), list(found.values())
    if not counts[-1]:
        return None
    rank = share * counts[-1]
    place = min(bisect.bisect_left(counts, rank), len(bounds) - 1)
    if place == len(bounds) - 1:
        return bounds[-2]
    if place == 0 and bounds[0] <= 0:
        return bounds[0]
    start, below = (bounds[place - 1], counts[place - 1]) if place else (0.0, 0.0)
    inside = counts[place] - below
    return start + (bounds[place] - start) * ((rank - below) / inside if inside else 0.0)


def share_within(found: Histogram, limit: float) -> float | None:
    """The share of observations not above `limit` (0 or more), interpolated within its bucket; None without any.

    Observations above the last finite bound count as above every limit.
    """
    total = found[math.inf]
    if not total:
        return None
    start, below = 0.0, 0.0
    for bound, count in found.items():
        if bound > limit:
            part = 0.0 if math.isinf(bound) else (limit - start) / (bound - start)
            return (below + (count - below) * part) / total
        start, below = max(0.0, bound), count
    return 1.0
