# SPDX-License-Identifier: Apache-2.0
"""What a host's servers report around a benchmark: whether others use them, and how much of the prompts was cached."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..host import Host
from ..parsers.sglang_metrics import parse_sglang_metrics
from ..parsers.vllm_metrics import parse_vllm_metrics, read_samples
from ..serving.files import CONFIG_PATH, STATE_PATH, groups_of, read_document, told
from ..serving.phase import OLD_SECONDS, age
from ..supervisor.probe import METRICS_SECONDS, Reply, exchange

WINDOW = 5.0
"""Seconds between the two samples that show whether requests arrive."""
PROBES = 1
"""Number of the supervisor's own requests that may fall into the window, per server."""
SUPERVISOR_WINDOW = 30.0
"""Seconds over which the supervisor counts requests other than its own."""

_QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total", "sglang:prompt_tokens_total")
_HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "sglang:cached_tokens_total")

Get = Callable[[str], Reply]


def page(url: str) -> Reply:
    """Fetch a server's metrics page."""
    return exchange(url, "/metrics", METRICS_SECONDS)


def servers(host: Host, url: str) -> list[str]:
    """Return the URLs of this host's servers: those that its supervisor queries, else the one from the plan."""
    config, _ = read_document(host.read_text(CONFIG_PATH), CONFIG_PATH)
    shown = told(config)
    own = [group["url"] for group in (shown.get("groups") or {}).values() if group["head"] == shown.get("node")]
    return sorted({one for one in own if one}) or [url]


def read_servers(urls: Sequence[str], get: Get = page) -> list[dict[str, Any]]:
    """Read each server's counters; `problem` is set if it reports none, and `down` if it refuses connections."""
    return [{"url": url, **read_page(get(url))} for url in urls]


def read_page(reply: Reply) -> dict[str, Any]:
    """Extract from a metrics page what a benchmark needs."""
    if reply.problem or reply.status != 200:
        # A server that accepts the connection but is too busy to answer may well be answering others.
        return {"problem": reply.problem or f"HTTP {reply.status}", "down": not (reply.status or reply.timed_out)}
    data = parse_vllm_metrics(reply.body)[0] or parse_sglang_metrics(reply.body)[0]
    if "generation_tokens" not in data:
        return {"problem": "it reports no counters"}
    samples, _ = read_samples(reply.body, [])
    sums = [
        [value for name, _, value in samples if name in names and math.isfinite(value)] for names in (_QUERIES, _HITS)
    ]
    return {
        "problem": "",
        "running": int(data.get("running") or 0),
        "waiting": int(data.get("waiting") or 0),
        "finished": int(sum((data.get("finished") or {}).values())),
        "cache_queries": math.fsum(sums[0]) if sums[0] else None,
        "cache_hits": math.fsum(sums[1]) if sums[1] else None,
    }


def supervisor_requests(host: Host, now: datetime.datetime) -> int:
    """Return the number of requests of others in the last 30 seconds, from the supervisor's state file."""
    state, _ = read_document(host.read_text(STATE_PATH), STATE_PATH)
    written = age(state, now)
    if written is None or written > OLD_SECONDS:
        # A stopped supervisor leaves its last state behind, which is out of date.
        return 0
    rates = [(group.get("load") or {}).get("requests_per_second") for group in groups_of(state).values()]
    known = [rate for rate in rates if isinstance(rate, (int, float))]
    # One request per group may be a probe of the supervisor's own at the edge of its window.
    return max(round(SUPERVISOR_WINDOW * math.fsum(known)) - len(known), 0)


def used_words(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]], recent: int, *, down: bool = False
) -> str:
    """Describe the requests of others on these servers, from two samples and the supervisor's count; empty if none.

    `down`: treat a server that refuses connections in both samples as unused.
    """
    found = []
    for before, after in zip(first, second, strict=True):
        if before["problem"] or after["problem"]:
            if not (down and before.get("down") and after.get("down")):
                why = after["problem"] or before["problem"]
                found.append(f"{after['url']} does not report whether it is in use ({why})")
            continue
        counts = {
            "running": min(before["running"], after["running"]),
            "waiting": after["waiting"],
            f"answered in {WINDOW:g} s": max(after["finished"] - before["finished"] - PROBES, 0),
        }
        words = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        if words:
            found.append(f"{after['url']} has requests of others: {words}")
    if not found and recent:
        found.append(f"{recent} requests of others were answered in the last {SUPERVISOR_WINDOW:g} s")
    return "; ".join(found)


def hit_rate(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], requests: int, warmups: int
) -> float | None:
    """Return the share of the measured prompts' tokens that came from the cache between two samples.

    Both clients send the first prompt as every warm-up request. That makes as many cache hits as there are warm-ups,
    one of them in a measured request; they say nothing about the other prompts and are subtracted. Return None if a
    server does not report the counters, or reset them in between.
    """
    earlier = {one["url"]: one for one in before}
    queries = hits = 0.0
    for one in after:
        former = earlier.get(one["url"]) or {}
        if former.get("cache_queries") is not None and former.get("cache_hits") is None:
            # SGLang exports this counter only after the first hit.
            former = {**former, "cache_hits": 0.0}
        marks = [side.get(key) for side in (former, one) for key in ("cache_queries", "cache_hits")]
        if any(mark is None for mark in marks):
            return None
        queries += marks[2] - marks[0]  # type: ignore[operator]
        hits += marks[3] - marks[1]  # type: ignore[operator]
    # Counters that decreased belong to a server that was restarted.
    if requests < 1 or queries <= 0 or not 0 <= hits <= queries:
        return None
    return round(max(0.0, hits / queries * (requests + warmups) - warmups) / requests, 4)


def silent(after: Sequence[Mapping[str, Any]]) -> str:
    """Describe the servers that no longer answer."""
    return "; ".join(f"{one['url']} gives no answer: {one['problem']}" for one in after if one["problem"])
