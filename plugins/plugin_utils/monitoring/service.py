# SPDX-License-Identifier: Apache-2.0
"""The service of a cluster as questions to Prometheus, for the dashboard and the alerts; of vLLM and of SGLang.

A cluster has one engine, so that one side of each `or` is empty. Engines also count the supervisors' own questions.
"""

from __future__ import annotations

TTFT, TPOT, E2E = "ttft_p95_ms", "tpot_p95_ms", "e2e_p95_ms"
ITL = "itl"
_TIMES = {
    # The first token of an answer that is not streamed is counted when it is sent, with many others.
    TTFT: (
        "vllm:time_to_first_token_seconds_bucket",
        "sglang:time_to_first_token_seconds_bucket",
        'is_streaming!="false"',
    ),
    # SGLang tells the time between two tokens only.
    TPOT: ("vllm:request_time_per_output_token_seconds_bucket", "sglang:inter_token_latency_seconds_bucket", ""),
    ITL: ("vllm:inter_token_latency_seconds_bucket", "sglang:inter_token_latency_seconds_bucket", ""),
    E2E: ("vllm:e2e_request_latency_seconds_bucket", "sglang:e2e_request_latency_seconds_bucket", ""),
}
_QUERIES = ("vllm:prefix_cache_queries_total", "sglang:prompt_tokens_total")
_HITS = ("vllm:prefix_cache_hits_total", "sglang:cached_tokens_total")


def either(vllm: str, sglang: str, chosen: str, more: str = "") -> str:
    """A series of the one engine or the other, of what is chosen."""
    return f"{vllm}{{{chosen}}} or {sglang}{{{_both(chosen, more)}}}"


def rate(vllm: str, sglang: str, chosen: str, over: str, more: str = "") -> str:
    """The same of a counter, a second."""
    return f"rate({vllm}{{{chosen}}}[{over}]) or rate({sglang}{{{_both(chosen, more)}}}[{over}])"


def percentile(target: str, chosen: str, share: str = "0.95", over: str = "5m") -> str:
    """A percentile, in seconds, of the time that a target is about, over all servers of a cluster."""
    vllm, sglang, more = _TIMES[target]
    return f"histogram_quantile({share}, sum by (cluster, le) ({rate(vllm, sglang, chosen, over, more)}))"


def hit_rate(chosen: str, over: str = "5m") -> str:
    """The share of prompt tokens that the prefix cache had; SGLang counts no hits before the first."""
    queries, hits = (f"sum by (cluster) ({rate(*names, chosen, over)})" for names in (_QUERIES, _HITS))
    return f"({hits} or 0 * {queries}) / {queries}"


def prompt_tokens(chosen: str, over: str = "5m") -> str:
    """Prompt tokens a second that a server is asked for."""
    return f"avg by (cluster) ({rate(*_QUERIES, chosen, over)})"


def waiting(chosen: str) -> str:
    """Requests that wait; every rank of an SGLang server tells the same ones."""
    ranks = f"max by (cluster, host, server) (sglang:num_queue_reqs{{{chosen}}})"
    return f"sum by (cluster) (vllm:num_requests_waiting{{{chosen}}}) or sum by (cluster) ({ranks})"


def _both(chosen: str, more: str) -> str:
    return ", ".join(one for one in (chosen, more) if one)
