# SPDX-License-Identifier: Apache-2.0
"""A cluster's service level over the last minutes, compared with the inventory's targets. Pure functions.

The names are the same as in the results of a benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.histogram import quantile
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.recent import goodput, met, times_of

QUANTILES = {"50": 0.5, "95": 0.95, "99": 0.99}
TIMES = ("ttft", "tpot", "itl", "e2e")
WORDS = {"ttft": "first token", "tpot": "per token", "itl": "between tokens", "e2e": "whole request"}
_HELD_AGAINST = {"ttft_p95_ms": ("ttft",), "tpot_p95_ms": ("tpot", "itl"), "e2e_p95_ms": ("e2e",)}
"""The latency of each target, with the nearest substitute for an engine that does not report it."""


def service(loads: Sequence[Mapping[str, Any]], targets: Mapping[str, float]) -> dict[str, Any]:
    """Combine the figures of several servers from the load their supervisors recorded; unreported ones are None."""
    recents = [one for load in loads if isinstance(one := load.get("recent"), Mapping)]
    times = times_of(recents)
    found: dict[str, Any] = {
        "window_s": max((_number(one.get("window_s")) for one in recents), default=None),
        "requests": sum(int(_number(one.get("requests"))) for one in recents) if recents else None,
    }
    observed = {name: histogram for name, histogram in times.items() if max(histogram.values())}
    for name in TIMES:
        found[f"{name}_ms"] = (
            {key: round((quantile(observed[name], share) or 0.0) * 1000, 1) for key, share in QUANTILES.items()}
            if name in observed
            else None
        )
    waiting = [load["waiting"] for load in loads if isinstance(load.get("waiting"), (int, float))]
    found["prefix_hit_rate"] = _hit_rate(recents) if found["requests"] or observed else None
    found["queue"] = int(sum(waiting)) if waiting else None
    share = goodput(observed, targets)
    found["goodput"] = None if share is None else round(share, 4)
    found["within"] = {name: round(one, 4) for name, one in met(observed, targets).items()}
    found["targets"] = dict(targets)
    found["missed"] = _missed(found, targets)
    return found


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e15 else 0.0


def _hit_rate(recents: Sequence[Mapping[str, Any]]) -> float | None:
    told = [one for recent in recents if isinstance(one := recent.get("prefix"), Mapping)]
    queries = sum(_number(one.get("queries")) for one in told)
    return round(min(1.0, sum(_number(one.get("hits")) for one in told) / queries), 4) if queries else None


def _missed(found: Mapping[str, Any], targets: Mapping[str, float]) -> list[str]:
    """Return a sentence for each missed target; an unreported figure does not count as missed."""
    told = []
    for target, times in _HELD_AGAINST.items():
        time = next((name for name in times if found[f"{name}_ms"]), None)
        if target in targets and time and (value := found[f"{time}_ms"]["95"]) > targets[target]:
            told.append(f"P95 {WORDS[time]} is {value:.1f} ms, target {targets[target]:g} ms ({target})")
    queue, rate = found["queue"], found["prefix_hit_rate"]
    if "queue" in targets and queue is not None and queue > targets["queue"]:
        told.append(f"{queue} requests wait, target {targets['queue']:g} at most (queue)")
    if "prefix_hit_rate" in targets and rate is not None and rate < targets["prefix_hit_rate"]:
        told.append(f"prefix-cache hit rate is {rate:.0%}, target {targets['prefix_hit_rate']:.0%} (prefix_hit_rate)")
    return told


def service_words(found: Mapping[str, Any]) -> str:
    """Render the figures as one sentence; empty if no server reports any."""
    window = found.get("window_s")
    if not window:
        return ""
    lately = f"in the last {window / 60:.0f} min" if window >= 60 else f"in the last {window:.0f} s"
    # One of the two token latencies is enough: TPOT if it is reported, else ITL.
    names = [name for name in TIMES if name != "itl" or not found["tpot_ms"]]
    words = [f"P95 {WORDS[name]} {_time(one['95'])}" for name in names if (one := found[f"{name}_ms"])]
    if not words and not found["requests"]:
        return f"no requests {lately}"
    if found["prefix_hit_rate"] is not None:
        words.append(f"prefix hits {found['prefix_hit_rate']:.0%}")
    if found["goodput"] is not None:
        words.append(f"goodput {found['goodput']:.0%}")
    count = found["requests"]
    return ", ".join([f"{count} request{'s' if count != 1 else ''} {lately}", *words])


def _time(milliseconds: float) -> str:
    if milliseconds >= 10_000:
        return f"{milliseconds / 1000:.0f} s"
    return f"{milliseconds:.0f} ms" if milliseconds >= 100 else f"{milliseconds:.1f} ms"
