# SPDX-License-Identifier: Apache-2.0
"""The measurements of a benchmark, their order, and how long the remaining ones will take."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import Workload
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.text import duration

LEAST_WARMUPS = 4
LEAST_REQUESTS = 10
"""Minimum requests of an open loop; with fewer, P99 is just the slowest one."""
LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True)
class Point:
    """One measurement: a workload at a number of streams or at a request rate, in one of its repeats."""

    workload: str
    streams: int | None
    rate: float | None
    repeat: int
    repeats: int
    requests: int
    warmups: int
    cost: float
    """Relative duration: tokens that each stream waits for, or seconds of an open loop."""

    @property
    def key(self) -> tuple[str, int | None, float | None]:
        """Identifies the figures that this run contributes to."""
        return self.workload, self.streams, self.rate

    @property
    def words(self) -> str:
        """Text for the progress display."""
        return f"{self.workload} at {at_words(self.streams, self.rate)}, run {self.repeat} of {self.repeats}"

    @property
    def place(self) -> tuple[str, int | None, float | None, int]:
        """Identifies the run among all repeats."""
        return (*self.key, self.repeat)


def at_words(streams: int | None, rate: float | None) -> str:
    """Describe the load of a point."""
    if rate is not None:
        return f"{rate:g} requests/s"
    return f"{streams} stream{'' if streams == 1 else 's'}"


def points_of(workloads: Iterable[Workload]) -> list[Point]:
    """Return every measurement, all points once before any repeat, so that an interrupted benchmark covers each."""
    found: list[Point] = []
    for workload in workloads:
        loads: list[tuple[int | None, float | None]] = [(streams, None) for streams in workload.streams]
        loads += [(None, rate) for rate in workload.rates]
        for repeat in range(1, workload.repeats + 1):
            found += [_point(workload, streams, rate, repeat) for streams, rate in loads]
    return found


def _point(workload: Workload, streams: int | None, rate: float | None, repeat: int) -> Point:
    if rate is not None:
        requests = max(LEAST_REQUESTS, math.ceil(rate * workload.seconds))
        usual, cost = LEAST_WARMUPS, requests / rate
    else:
        usual, cost = 2 * (streams or 1), float(workload.requests_per_stream * (workload.output or 256))
        requests = (streams or 1) * workload.requests_per_stream
    warmups = max(LEAST_WARMUPS, usual) if workload.warmups is None else workload.warmups
    return Point(workload.name, streams, rate, repeat, workload.repeats, requests, warmups, cost)


def remaining(points: Sequence[Point], document: Mapping[str, Any]) -> list[Point]:
    """Return the points without figures in the document. Runs with a problem are repeated."""
    done = _counts(document, counting=True)
    return [point for point in points if point.repeat > done.get(point.key, 0)]


def is_over(points: Sequence[Point], document: Mapping[str, Any]) -> bool:
    """Return whether all points were measured, even if their figures do not count."""
    done = _counts(document, counting=False)
    return all(point.repeat <= done.get(point.key, 0) for point in points)


def _counts(document: Mapping[str, Any], *, counting: bool) -> dict[tuple[str, int | None, float | None], int]:
    return {
        (workload["name"], point["streams"], point["rate"]): sum(
            run["problem"] is None or not counting for run in point["runs"]
        )
        for workload in document["workloads"]
        for point in workload["points"]
    }


def new_seed(draw: Callable[[int], int], used: Iterable[int]) -> int:
    """Draw a seed unused in this benchmark: with a repeated one, the server would have the prompts cached."""
    taken = set(used)
    while (seed := draw(LARGEST_SEED)) in taken:
        pass
    return seed


def left_words(document: Mapping[str, Any], points: Sequence[Point], position: int) -> str:
    """Describe the progress before the point at this position, with the time left estimated from recorded runs."""
    told = f"{position + 1} of {len(points)}"
    measured = {
        (workload["name"], point["streams"], point["rate"], number): run["seconds"]
        for workload in document["workloads"]
        for point in workload["points"]
        for number, run in enumerate((one for one in point["runs"] if one["problem"] is None), 1)
    }
    known = [point for point in points[:position] if point.place in measured]
    cost = sum(point.cost for point in known)
    if not cost:
        return told
    pace = sum(measured[point.place] for point in known) / cost
    return f"{told}, about {duration(pace * sum(point.cost for point in points[position:]))} left"
