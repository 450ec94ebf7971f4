# SPDX-License-Identifier: Apache-2.0
"""The last minutes of a server: the supervisor's record of them, and the share of requests that met their targets.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..parsers.histogram import Histogram, added, increase, read_histogram, share_within, without
from ..parsers.service_metrics import ServiceTotals

TARGET_TIMES = {"ttft_p95_ms": "ttft", "tpot_p95_ms": "tpot", "e2e_p95_ms": "e2e"}
"""Targets for single requests, and the request time that each limits."""


def recent(before: ServiceTotals, now: ServiceTotals, own: Sequence[float]) -> dict[str, Any]:
    """Compute the increase between two readings as plain data.

    `own` are the durations in seconds of the supervisor's own probes. Each of those was a request for one token: it has
    no second one, and counts with a time per token of 0.
    """
    mine = {"ttft": [] if now.only_streamed else own, "tpot": [0.0] * len(own), "e2e": own}
    times = {}
    for name, counts in now.times.items():
        # A labelled series appears on the page only with its first observation.
        found = increase(before.times[name], counts) if name in before.times else counts
        if found:
            times[name] = {str(bound): count for bound, count in without(found, mine.get(name, ())).items()}
    told: dict[str, Any] = {"times": times, "prefix": None}
    if None not in (before.queries, before.hits, now.queries, now.hits):
        queries, hits = (now.queries or 0) - (before.queries or 0), (now.hits or 0) - (before.hits or 0)
        if 0 <= hits <= queries:
            told["prefix"] = {"queries": queries, "hits": hits}
    return told


def times_of(recents: Sequence[Mapping[str, Any]]) -> dict[str, Histogram]:
    """Add up the times of several servers; a time that one server reports in a different form is left out."""
    told = [one["times"] for one in recents if isinstance(one.get("times"), Mapping)]
    found = {}
    for name in dict.fromkeys(name for one in told for name in one):
        read = [read_histogram(one[name].items()) for one in told if isinstance(one.get(name), Mapping)]
        together = added([one for one in read if one]) if all(read) else None
        if together:
            found[str(name)] = together
    return found


def met(times: Mapping[str, Histogram], targets: Mapping[str, float]) -> dict[str, float]:
    """Return for each target the share of requests within it."""
    known = {target: time for target, time in TARGET_TIMES.items() if target in targets and time in times}
    shares = {target: share_within(times[time], targets[target] / 1000) for target, time in known.items()}
    return {target: share for target, share in shares.items() if share is not None}


def goodput(times: Mapping[str, Histogram], targets: Mapping[str, float]) -> float | None:
    """Return an upper bound of the share of requests that met all targets; None without targets or requests.

    It is the smallest of the shares per target: histograms do not say which requests they count, and no more than that
    can have met all of them.
    """
    return min(met(times, targets).values(), default=None)
