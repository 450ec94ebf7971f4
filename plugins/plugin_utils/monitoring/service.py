# SPDX-License-Identifier: Apache-2.0
"""Prometheus queries about a cluster's service level, for the dashboard and the alerts, for vLLM and SGLang.

A cluster has one engine, so one side of each `or` is empty. Engines also count the supervisors' own probes.
"""

from __future__ import annotations

TTFT, TPOT, E2E = "ttft_p95_ms", "tpot_p95_ms", "e2e_p95_ms"
ITL = "itl"
_TIMES = {
    # The first token of an unstreamed answer is counted when the whole answer is sent.
    TTFT: (
        "vllm:time_to_first_token_seconds_bucket",
        "sglang:time_to_first_token_seconds_bucket",
        'is_streaming!="false"',
    ),
    # SGLang only provides the inter-token latency.
    TPOT: ("vllm:request_time_per_output_token_seconds_bucket", "sglang:inter_token_latency_seconds_bucket", ""),
    ITL: ("vllm:inter_token_latency_seconds_bucket", "sglang:inter_token_latency_seconds_bucket", ""),
    E2E: ("vllm:e2e_request_latency_seconds_bucket", "sglang:e2e_request_latency_seconds_bucket", ""),
}
_QUERIES = ("vllm:prefix_cache_queries_total", "sglang:prompt_tokens_total")
_HITS = ("vllm:prefix_cache_hits_total", "sglang:cached_tokens_total")


def either(vllm: str, sglang: str, chosen: str, more: str = "") -> str:
    """Return a query for a series of either engine, with the selector `chosen`."""
    return f"{vllm}{{{chosen}}} or {sglang}{{{_both(chosen, more)}}}"


def rate(vllm: str, sglang: str, chosen: str, over: str, more: str = "") -> str:
    """Return a query for the per-second rate of a counter of either engine."""
    return f"rate({vllm}{{{chosen}}}[{over}]) or rate({sglang}{{{_both(chosen, more)}}}[{over}])"


def percentile(target: str, chosen: str, share: str = "0.95", over: str = "5m") -> str:
    """Return a query for a percentile of a target's latency in seconds, over all servers of a cluster."""
    vllm, sglang, more = _TIMES[target]
    return f"histogram_quantile({share}, sum by (cluster, le) ({rate(vllm, sglang, chosen, over, more)}))"


def hit_rate(chosen: str, over: str = "5m") -> str:
    """Return a query for the prefix-cache hit rate; SGLang's counter of hits does not exist before the first one."""
    queries, hits = (f"sum by (cluster) ({rate(*names, chosen, over)})" for names in (_QUERIES, _HITS))
    return f"({hits} or 0 * {queries}) / {queries}"


def prompt_tokens(chosen: str, over: str = "5m") -> str:
    """Return a query for the prompt tokens per second and server."""
    return f"avg by (cluster) ({rate(*_QUERIES, chosen, over)})"


def waiting(chosen: str) -> str:
    """Return a query for the waiting requests; every rank of an SGLang server reports the same ones."""
    ranks = f"max by (cluster, host, server) (sglang:num_queue_reqs{{{chosen}}})"
    return f"sum by (cluster) (vllm:num_requests_waiting{{{chosen}}}) or sum by (cluster) ({ranks})"


def _both(chosen: str, more: str) -> str:
    return ", ".join(one for one in (chosen, more) if one)
