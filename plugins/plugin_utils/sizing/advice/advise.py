# SPDX-License-Identifier: Apache-2.0
"""Recommend a tensor-parallel size and a number of replicas for a workload, with the numbers that decide it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.options import (
    Cluster,
    FitAt,
    Layout,
    Outcome,
    Workload,
    cost_per_million,
    layouts,
    outcome,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.performance import (
    ALL_REDUCES_PER_LAYER,
    Decode,
    ModelLoad,
    Speculation,
    decode,
    message_bytes,
    missing_figures,
)

__all__ = ["FitAt", "advise", "expected"]

CHAT_FLOOR = 15.0
"""Tokens/s a reader should see at least: a chat takes fewer streams rather than slower ones."""

CHAT = Workload("chat", prompt=1024, output=256, streams=32, floor=CHAT_FLOOR)
BATCH = Workload("batch", prompt=2048, output=256, streams=256)
LATENCY = Workload("latency", prompt=1024, output=256, streams=1)
LONG_OUTPUT = 256
LONG_STREAMS = 32
WORKLOADS = ("chat", "batch", "long-context", "latency")

TIE = 1.05
"""Differences below this ratio are smaller than the model's error: the second criterion decides."""

LOW, HIGH = 0.65, 1.2
"""Published single-stream figures lie between these shares of the model's (the table in docs/advice.md)."""

SHORT_CONTEXT = 2048
"""Tokens of context at which the expected speed is stated."""

LONGEST = 2**30
"""No model has a context near this; a larger figure comes from a broken file and must not break the arithmetic."""

_FIGURES = (
    "concurrency",
    "tokens_per_s_per_stream",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "communication_share",
    "ttft_ms",
    "cost_per_million_tokens",
)


def advise(  # noqa: PLR0913 - independent settings, all passed by name
    load: ModelLoad,
    hardware: Mapping[str, Any],
    *,
    gpus: int,
    hosts: int,
    legal: Sequence[int],
    fits: Callable[[int], FitAt],
    context: int,
    price_per_gpu_hour: float | None = None,
    rails: int | None = None,
    rdma: bool | None = None,
    speculation: Speculation | None = None,
) -> list[dict[str, Any]]:
    """Return one recommendation per workload, with every option considered.

    `rails` is the number of fabric ports in use per host (None: all that add bandwidth), `rdma` whether RDMA is used
    (None: as the hardware can).
    """
    missing = missing_figures(hardware)
    if missing:
        return [_none(name, f"hardware {hardware.get('name')} lacks {' and '.join(missing)}", []) for name in WORKLOADS]
    context = max(1, min(context, LONGEST))
    cluster = Cluster(hardware, gpus, max(1, hosts), price_per_gpu_hour, rails, rdma, speculation)
    found = layouts(cluster, legal, fits)
    if all(one.rejected for one in found):
        why = _nothing_fits(load, cluster, legal, fits, found)
        return [_none(name, why, [_option(one, None, cluster) for one in found]) for name in WORKLOADS]
    long = Workload("long-context", prompt=max(context, 2), output=LONG_OUTPUT, streams=LONG_STREAMS)
    return [_recommend(load, cluster, found, one.within(context)) for one in (CHAT, BATCH, long, LATENCY)]


def expected(  # noqa: PLR0913 - independent settings, all passed by name
    load: ModelLoad,
    hardware: Mapping[str, Any],
    *,
    gpus: int,
    hosts: int,
    tensor_parallel: int,
    context: int,
    rails: int | None = None,
    rdma: bool | None = None,
    speculation: Speculation | None = None,
) -> dict[str, Any]:
    """Return the expected speed of a single stream of a plan, as a range, and the limit set by memory bandwidth."""
    missing = missing_figures(hardware)
    if missing:
        why = f"hardware {hardware.get('name')} lacks {' and '.join(missing)}"
        return {"decode_tokens_per_s": None, "roofline_tokens_per_s": None, "at_full_context": None, "why": why}
    context = max(1, min(context, LONGEST))
    span = -(-tensor_parallel // max(1, gpus // max(1, hosts)))
    group: dict[str, Any] = {"tensor_parallel": tensor_parallel, "hosts": span, "rails": rails, "rdma": rdma}
    group["speculation"] = speculation
    limit = decode(load, hardware, **group).roofline_tokens_per_s
    step = decode(load, hardware, context=min(context, SHORT_CONTEXT), **group)
    full = decode(load, hardware, context=context, **group)
    speed = step.tokens_per_s_per_stream
    every = "step" if speculation else "token"
    reads = (
        f"{load.active_weight_bytes / 1e9:.3g} GB of weights per {every} over {tensor_parallel} x "
        f"{hardware['memory_bandwidth_gb_s']:g} GB/s allow {limit:.3g} tokens/s"
    )
    rest = f"{step.memory_seconds * 1e3:.1f} ms of reading at the usual efficiency and {_overheads(load, step)}"
    if speculation:
        rest += f" for {step.tokens_per_step:.2f} tokens per step ({speculation.tokens} drafted and checked)"
    return {
        "decode_tokens_per_s": [_round(speed * LOW), _round(min(speed * HIGH, limit))],
        "roofline_tokens_per_s": _round(limit),
        "at_full_context": _round(full.tokens_per_s_per_stream),
        "why": f"{reads}; {rest} leave about {speed:.3g}, {full.tokens_per_s_per_stream:.3g} at {context} tokens.",
    }


def _overheads(load: ModelLoad, step: Decode) -> str:
    kernels = f"{step.overhead_seconds * 1e3:.1f} ms of kernels and scheduling"
    if not step.communication_seconds:
        return kernels
    return (
        f"{step.communication_seconds * 1e3:.1f} ms of {ALL_REDUCES_PER_LAYER * load.layers} all-reduces of "
        f"{message_bytes(load, 1) / 1024:g} KiB and {kernels}"
    )


def _recommend(load: ModelLoad, cluster: Cluster, found: Sequence[Layout], workload: Workload) -> dict[str, Any]:
    options: list[dict[str, Any]] = []
    outcomes: list[Outcome] = []
    for layout in found:
        result = outcome(load, cluster, layout, workload) if layout.rejected is None else layout.rejected
        if isinstance(result, Outcome):
            outcomes.append(result)
            options.append(_option(layout, result, cluster))
        else:
            options.append({**_option(layout, None, cluster), "rejected": result})
    if not outcomes:
        roomiest = max((one for one in found if one.rejected is None), key=lambda one: one.kv_tokens)
        length = workload.prompt + workload.output
        why = (
            f"No option holds one request of {length} tokens; {roomiest.words} holds the most, {roomiest.kv_tokens}. "
            f"Set max_model_len to {roomiest.kv_tokens} or less, use an FP8 KV cache, or add GPUs."
        )
        return _none(workload.name, why, options)
    best = _choose(outcomes, workload)
    chosen = _option(best.layout, best, cluster)
    return {
        "workload": workload.name,
        "tensor_parallel": best.layout.tensor_parallel,
        "replicas": best.layout.replicas,
        **{key: chosen[key] for key in _FIGURES},
        "why": _why(best, outcomes, cluster, workload),
        "options": options,
    }


def _choose(outcomes: Sequence[Outcome], workload: Workload) -> Outcome:
    """Return the best outcome by the workload's first measure; ties within the error are decided by the second."""
    first, second = _measures(workload)
    top = max(first(one) for one in outcomes)
    close = [one for one in outcomes if first(one) * TIE >= top]
    return max(close, key=lambda one: (second(one), first(one), -one.layout.tensor_parallel))


def _measures(workload: Workload) -> tuple[Callable[[Outcome], float], Callable[[Outcome], float]]:
    if workload.name == "latency":
        return (lambda one: one.tokens_per_s_per_stream), (lambda one: one.layout.replicas)
    if workload.name == "long-context":
        return _kv_tokens, (lambda one: one.tokens_per_s_per_stream)
    return (lambda one: one.tokens_per_s), (lambda one: one.tokens_per_s_per_stream)


def _kv_tokens(one: Outcome) -> float:
    return one.layout.kv_tokens * one.layout.replicas


def _why(best: Outcome, outcomes: Sequence[Outcome], cluster: Cluster, workload: Workload) -> str:
    others = [one for one in outcomes if one is not best]
    if not others:
        return f"{best.layout.words} is the only layout that is legal and fits: {_figures(best, cluster, workload)}."
    first, _second = _measures(workload)
    rival = max(others, key=first)
    if workload.name == "latency":
        # The question operators ask: one large group, or replicas of half its size?
        size = best.layout.tensor_parallel
        rival = next((one for one in others if one.layout.tensor_parallel in (size // 2, size * 2)), rival)
        return _latency_why(best, rival)
    close = " (too close to tell apart; the faster stream decides)" if first(rival) >= first(best) else ""
    chosen, other = (f"{one.layout.words}: {_figures(one, cluster, workload)}" for one in (best, rival))
    return f"{chosen}; {other}{close}."


def _figures(one: Outcome, cluster: Cluster, workload: Workload) -> str:
    if workload.name == "long-context":
        held = int(_kv_tokens(one))
        length = workload.prompt + workload.output
        served = _many(one.streams * one.layout.replicas, "request")
        return f"{held} tokens of KV cache, {served} of {length} at a time"
    if workload.name == "latency":
        return (
            f"{one.tokens_per_s_per_stream:.0f} tokens/s for one stream, "
            f"the first after {one.ttft_seconds * 1e3:.0f} ms"
        )
    share = f", all-reduces take {one.step.communication_share:.0%} of a step" if one.layout.tensor_parallel > 1 else ""
    return (
        f"{one.tokens_per_s / cluster.gpus:.0f} tokens/s per GPU with {_many(one.streams, 'stream')} per replica at "
        f"{one.tokens_per_s_per_stream:.3g} each{share}"
    )


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _latency_why(best: Outcome, rival: Outcome) -> str:
    small, large = sorted((best, rival), key=lambda one: one.layout.tensor_parallel)
    saved = (small.step.memory_seconds - large.step.memory_seconds) * 1e3
    added = (large.step.communication_seconds - small.step.communication_seconds) * 1e3
    verdict = (
        "the replicas are as fast per stream and serve more streams"
        if best is small and large.tokens_per_s_per_stream > small.tokens_per_s_per_stream
        else "the all-reduces cost less than the reading they save"
        if best is large
        else "the all-reduces cost more than the reading they save"
    )
    return (
        f"One stream gets {large.tokens_per_s_per_stream:.0f} tokens/s from {large.layout.words} and "
        f"{small.tokens_per_s_per_stream:.0f} from {small.layout.words}. The larger group saves {saved:.2g} ms of "
        f"reading per token and adds {added:.2g} ms of all-reduces: {verdict}."
    )


def _option(layout: Layout, result: Outcome | None, cluster: Cluster) -> dict[str, Any]:
    option: dict[str, Any] = {
        "tp": layout.tensor_parallel,
        "replicas": layout.replicas,
        "hosts_per_replica": layout.hosts,
        "idle_gpus": cluster.gpus - layout.tensor_parallel * layout.replicas,
        **dict.fromkeys(_FIGURES),
        "rejected": layout.rejected,
    }
    if result is not None:
        cost = cost_per_million(result.tokens_per_s, cluster.gpus, cluster.price_per_gpu_hour)
        option |= {
            "concurrency": result.streams * layout.replicas,
            "tokens_per_s_per_stream": _round(result.tokens_per_s_per_stream),
            "tokens_per_s": _round(result.tokens_per_s),
            "tokens_per_s_per_gpu": _round(result.tokens_per_s / cluster.gpus),
            "communication_share": round(result.step.communication_share, 3),
            "ttft_ms": _round(result.ttft_seconds * 1e3),
            "cost_per_million_tokens": None if cost is None else round(cost, 3),
        }
    return option


def _round(value: float) -> float:
    """Round to the precision that the model justifies."""
    return float(f"{value:.3g}")


def _none(name: str, why: str, options: list[dict[str, Any]]) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(_FIGURES)
    return {"workload": name, "tensor_parallel": None, "replicas": 0, **empty, "why": why, "options": options}


def _nothing_fits(
    load: ModelLoad, cluster: Cluster, legal: Sequence[int], fits: Callable[[int], FitAt], found: Sequence[Layout]
) -> str:
    """Explain that nothing fits, with the nearest miss and the smallest change that would help."""
    sizes = ", ".join(str(one.tensor_parallel) for one in found) or "none"
    miss = f" (TP {found[-1].tensor_parallel}: {found[-1].rejected})" if found else ""
    text = f"Nothing fits {cluster.gpus} x {cluster.hardware.get('gpu_name')}; legal sizes up to that: {sizes}{miss}."
    larger = next((size for size in sorted(set(legal)) if size > cluster.gpus and fits(size).fits), None)
    if larger is not None:
        return f"{text} The smallest change: {larger} GPUs, where TP {larger} fits."
    memory = cluster.hardware.get("memory_mib") or cluster.hardware.get("os_visible_mib")
    if not memory:
        return text
    usable = memory * 2**20 * cluster.hardware.get("utilisation_ceiling", 1.0)
    needed = int(load.weight_bytes // usable) + 1
    if needed <= cluster.gpus:
        return f"{text} The weights alone need {needed} GPUs: reduce the context, or use a legal size."
    share = usable * cluster.gpus / load.weight_bytes
    return (
        f"{text} The smallest change: {needed} GPUs (weights of {load.weight_bytes / 1e9:.0f} GB, "
        f"{usable / 1e9:.0f} GB per GPU), or a quantisation to {share:.0%} of this size."
    )
