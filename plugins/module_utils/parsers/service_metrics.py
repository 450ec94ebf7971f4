# SPDX-License-Identifier: Apache-2.0
"""Parses a server's page of metrics for its service: times as histograms, and the use of its prefix cache.

Names by vllm/v1/metrics/loggers.py of vLLM 0.7.3 to 0.32 and srt/observability/metrics_collector.py of SGLang 0.5.16 to
0.5.23.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .histogram import Histogram, added, read_histogram
from .vllm_metrics import Sample, read_samples

_OWN = re.compile(r"^(?:ray_)?(?P<engine>vllm|sglang)[:_](?P<name>.+)$")
"""Under Ray's own exporter the names begin with ray_ and have no colon."""
_TIMES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "vllm": {
        "ttft": ("time_to_first_token_seconds",),
        "tpot": ("request_time_per_output_token_seconds",),
        # Until 0.12 the time between two tokens had the other name.
        "itl": ("inter_token_latency_seconds", "time_per_output_token_seconds"),
        "e2e": ("e2e_request_latency_seconds",),
    },
    "sglang": {
        "ttft": ("time_to_first_token_seconds",),
        "itl": ("inter_token_latency_seconds",),
        "e2e": ("e2e_request_latency_seconds",),
    },
}
_PREFIX: Mapping[str, Sequence[tuple[str, str]]] = {
    "vllm": (("prefix_cache_queries", "prefix_cache_hits"), ("gpu_prefix_cache_queries", "gpu_prefix_cache_hits")),
    # Its gauge cache_hit_rate covers the last batch only, and is 0 during decoding.
    "sglang": (("prompt_tokens", "cached_tokens"),),
}
"""Counters of tokens looked up and tokens found; the first pair that a page has is used."""


@dataclass(frozen=True)
class ServiceTotals:
    """Totals since the server started; only what its page shows."""

    times: Mapping[str, Histogram] = field(default_factory=dict)
    """Histograms in seconds: ttft, tpot (per request), itl (per token), e2e; empty if the page's data is invalid."""
    queries: float | None = None
    hits: float | None = None
    only_streamed: bool = False
    """Whether ttft covers streamed requests only."""


def parse_service_metrics(text: str) -> ServiceTotals | None:
    """Parse the totals of vLLM or SGLang; None for the page of another program."""
    engines: dict[str, list[Sample]] = {}
    for name, labels, value in read_samples(text, [])[0]:
        match = _OWN.match(name)
        if match:
            engines.setdefault(match["engine"], []).append((match["name"], labels, value))
    if not engines:
        return None
    engine, own = max(engines.items(), key=lambda one: len(one[1]))
    first = {"time_to_first_token_seconds_bucket", "time_to_first_token_seconds_count"}
    known = [one for one in own if one[0] not in first or one[1].get("is_streaming") != "false"]
    times: dict[str, Histogram] = {}
    for key, names in _TIMES[engine].items():
        told = [one for name in names if (one := _histogram(known, name)) is not None]
        times |= {key: told[0]} if told else {}
    queries, hits = _prefix(own, _PREFIX[engine])
    return ServiceTotals(
        times, queries, hits, only_streamed=any(one[0] in first and "is_streaming" in one[1] for one in own)
    )


def _histogram(own: Sequence[Sample], name: str) -> Histogram | None:
    """The sum of all series of a histogram; empty if one is invalid, None if there is none."""
    series: dict[frozenset[tuple[str, str]], dict[str, float]] = {}
    for one, labels, value in own:
        if one == f"{name}_bucket":
            others = frozenset((key, text) for key, text in labels.items() if key != "le")
            series.setdefault(others, {})[labels.get("le", "")] = value
    for one, labels, value in own:
        if one == f"{name}_count" and (found := series.get(frozenset(labels.items()))) is not None:
            found.setdefault("+Inf", value)
    read = [read_histogram(one.items()) for one in series.values()]
    return (added([one for one in read if one]) if all(read) else None) or {} if series else None


def _prefix(own: Sequence[Sample], pairs: Sequence[tuple[str, str]]) -> tuple[float | None, float | None]:
    for queries, hits in pairs:
        asked, found = _counted(own, queries), _counted(own, hits)
        if asked is not None:
            # A counter with labels of its own is missing from the page before its first hit.
            return asked, found or 0.0
    return None, None


def _counted(own: Sequence[Sample], name: str) -> float | None:
    """A counter summed over all its series."""
    told = {frozenset(labels.items()): value for one, labels, value in own if one in (name, f"{name}_total")}
    total = sum(told.values())
    return total if told and min(told.values()) >= 0 and total < math.inf else None
