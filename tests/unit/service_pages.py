# SPDX-License-Identifier: Apache-2.0
"""Pages of metrics as vLLM 0.32 and SGLang 0.5.18 write them, with the times of requests that a test makes up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
E2E = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0)


def histogram(name: str, labels: Mapping[str, str], bounds: Sequence[float], values: Sequence[float]) -> list[str]:
    """The lines of one histogram with these observations, its bounds among the labels as prometheus_client has them."""

    def told(more: Mapping[str, str]) -> str:
        return ",".join(f'{key}="{value}"' for key, value in sorted({**labels, **more}.items()))

    counts = {str(bound): sum(1 for value in values if value <= bound) for bound in bounds} | {"+Inf": len(values)}
    return [
        f"# HELP {name} Histogram of {name.partition(':')[2].replace('_', ' ')}.",
        f"# TYPE {name} histogram",
        *(f"{name}_bucket{{{told({'le': bound})}}} {float(count)}" for bound, count in counts.items()),
        f"{name}_count{{{told({})}}} {float(len(values))}",
        f"{name}_sum{{{told({})}}} {float(sum(values))}",
    ]


def vllm_page(
    ttft: Sequence[float] = (),
    tpot: Sequence[float] = (),
    e2e: Sequence[float] = (),
    *,
    queries: float = 0,
    hits: float = 0,
    waiting: int = 0,
    engine: str = "0",
) -> str:
    """The parts of vLLM's page that are read; every request finished with its stop token."""
    labels = {"engine": engine, "model_name": "tiny"}
    own = f'engine="{engine}",model_name="tiny"'
    lines = [
        f"vllm:num_requests_running{{{own}}} 2.0",
        f"vllm:num_requests_waiting{{{own}}} {float(waiting)}",
        f"vllm:kv_cache_usage_perc{{{own}}} 0.25",
        f"vllm:prefix_cache_queries_total{{{own}}} {float(queries)}",
        f"vllm:prefix_cache_hits_total{{{own}}} {float(hits)}",
        f"vllm:prompt_tokens_total{{{own}}} {float(queries)}",
        f"vllm:generation_tokens_total{{{own}}} {float(10 * len(e2e))}",
        f'vllm:request_success_total{{{own},finished_reason="stop"}} {float(len(e2e))}',
        *histogram("vllm:time_to_first_token_seconds", labels, TTFT, ttft),
        *histogram("vllm:inter_token_latency_seconds", labels, TOKEN, tpot),
        *histogram("vllm:request_time_per_output_token_seconds", labels, TOKEN, tpot),
        *histogram("vllm:e2e_request_latency_seconds", labels, E2E, e2e),
    ]
    return "\n".join(lines) + "\n"


def sglang_page(
    ttft: Sequence[float] = (),
    itl: Sequence[float] = (),
    e2e: Sequence[float] = (),
    *,
    prompts: float = 0,
    cached: float = 0,
    waiting: int = 0,
    unstreamed: Sequence[float] = (),
) -> str:
    """The same of SGLang: `unstreamed` are times to the first token, and to the last, of requests that were not."""
    common = {"engine_type": "unified", "model_name": "tiny"}
    own = 'engine_type="unified",model_name="tiny"'
    every = [*e2e, *unstreamed]
    lines = [
        *(f'sglang:num_running_reqs{{{own},tp_rank="{rank}"}} 2.0' for rank in (0, 1)),
        *(f'sglang:num_queue_reqs{{{own},tp_rank="{rank}"}} {float(waiting)}' for rank in (0, 1)),
        f'sglang:token_usage{{{own},tp_rank="0"}} 0.25',
        f'sglang:cache_hit_rate{{{own},tp_rank="0"}} 0.0',
        f'sglang:prompt_tokens_total{{is_streaming="true",{own}}} {float(prompts)}',
        f'sglang:generation_tokens_total{{is_streaming="true",{own}}} {float(10 * len(every))}',
        f'sglang:num_requests_total{{is_streaming="true",{own}}} {float(len(every))}',
        *([f'sglang:cached_tokens_total{{cache_source="device",{own}}} {float(cached)}'] if cached else []),
        *histogram("sglang:time_to_first_token_seconds", {**common, "is_streaming": "true"}, TTFT, ttft),
        *histogram("sglang:time_to_first_token_seconds", {**common, "is_streaming": "false"}, TTFT, unstreamed),
        *histogram("sglang:inter_token_latency_seconds", common, TOKEN, itl),
        *histogram("sglang:e2e_request_latency_seconds", {**common, "is_streaming": "true"}, E2E, every),
    ]
    return "\n".join(lines) + "\n"
