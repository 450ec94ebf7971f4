# SPDX-License-Identifier: Apache-2.0
"""Enumerate the layouts of a model on the available GPUs, and compute what each gives for a workload."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.performance import (
    Decode,
    ModelLoad,
    Speculation,
    decode,
    prefill,
    serve,
)


@dataclass(frozen=True)
class FitAt:
    """Whether the model fits at a tensor-parallel size, and how many tokens of KV cache one replica then holds."""

    fits: bool
    kv_tokens: int = 0
    reason: str = ""
    """Why it does not fit, as text."""
    concurrency: Callable[[int], int] | None = None
    """Requests of a length that one replica serves at once; None: as many as kv_tokens hold."""


@dataclass(frozen=True)
class Cluster:
    """The available GPUs and their price."""

    hardware: Mapping[str, Any]
    gpus: int
    hosts: int
    price_per_gpu_hour: float | None = None
    rails: int | None = None
    """Fabric ports in use per host; None: all that add bandwidth."""
    rdma: bool | None = None
    """Whether RDMA is used over the fabric; None: as the hardware can."""
    speculation: Speculation | None = None
    """Tokens that the engine drafts for each step."""

    @property
    def gpus_per_host(self) -> int:
        return max(1, self.gpus // max(1, self.hosts))


@dataclass(frozen=True)
class Workload:
    """A workload: a number of concurrent streams on a replica, each with a prompt and an answer."""

    name: str
    prompt: int
    output: int
    streams: int
    """Upper bound."""
    floor: float = 0.0
    """Tokens/s that every stream should see; fewer streams are taken to keep it."""

    def within(self, context: int) -> Workload:
        """Return the workload, shortened to requests of `context` tokens."""
        if self.prompt + self.output <= context:
            return self
        output = max(1, min(self.output, context // 4))
        return replace(self, prompt=max(1, context - output), output=output)


@dataclass(frozen=True)
class Layout:
    """`replicas` copies of the model, each on `tensor_parallel` GPUs of `hosts` hosts."""

    tensor_parallel: int
    replicas: int
    hosts: int
    kv_tokens: int = 0
    rejected: str | None = None
    concurrency: Callable[[int], int] | None = field(default=None, repr=False, compare=False)

    def requests(self, length: int) -> int:
        """Return how many requests of this length one replica serves at once."""
        return self.kv_tokens // length if self.concurrency is None else self.concurrency(length)

    @property
    def words(self) -> str:
        size = f"TP {self.tensor_parallel}"
        return size if self.replicas == 1 else f"{self.replicas} replicas of {size}"


@dataclass(frozen=True)
class Outcome:
    """What a layout gives for a workload, all replicas together."""

    layout: Layout
    streams: int
    """Concurrent streams on one replica."""
    tokens_per_s: float
    tokens_per_s_per_stream: float
    ttft_seconds: float
    step: Decode


def layouts(cluster: Cluster, legal: Sequence[int], fits: Callable[[int], FitAt]) -> list[Layout]:
    """Return every legal tensor-parallel size with as many replicas as the GPUs hold; unusable ones say why."""
    found = [_layout(cluster, size, fits(size)) for size in sorted(set(legal)) if 1 <= size <= cluster.gpus]
    local = [one.tensor_parallel for one in found if one.rejected is None and one.hosts == 1]
    if cluster.gpus_per_host == 1 or not local:
        return found
    return [
        replace(
            one, rejected=f"would span {one.hosts} hosts over the fabric while TP {max(local)} fits inside one host"
        )
        if one.rejected is None and one.hosts > 1
        else one
        for one in found
    ]


def _layout(cluster: Cluster, size: int, fit: FitAt) -> Layout:
    per_host = cluster.gpus_per_host
    hosts = -(-size // per_host)
    replicas = (per_host // size) * cluster.hosts if hosts == 1 else cluster.hosts // hosts
    layout = Layout(size, replicas, hosts, fit.kv_tokens, concurrency=fit.concurrency)
    if hosts > 1 and size % per_host:
        return replace(layout, rejected=f"does not fill hosts of {per_host} GPUs")
    if not fit.fits:
        return replace(layout, rejected=fit.reason or "does not fit into memory")
    return layout


def outcome(load: ModelLoad, cluster: Cluster, layout: Layout, workload: Workload) -> Outcome | str:
    """Return what the layout gives, or why it cannot serve the workload."""
    length = workload.prompt + workload.output
    streams = min(workload.streams, layout.requests(length))
    if streams < 1:
        return f"holds {layout.kv_tokens} tokens of KV cache, one request takes {length}"
    group: dict[str, Any] = {
        "tensor_parallel": layout.tensor_parallel,
        "hosts": layout.hosts,
        "rails": cluster.rails,
        "rdma": cluster.rdma,
        "speculation": cluster.speculation,
    }
    first = prefill(load, cluster.hardware, prompt=workload.prompt, **group)
    if workload.streams == 1:
        step = decode(load, cluster.hardware, batch=1, context=length, **group)
        rate = step.tokens_per_s_per_stream
        return Outcome(layout, 1, rate * layout.replicas, rate, first.ttft_seconds, step)
    length_of: dict[str, Any] = {"prompt": workload.prompt, "output": workload.output}
    served = serve(load, cluster.hardware, batch=streams, **length_of, **group)
    while streams > 1 and served.tokens_per_s_per_stream < workload.floor:
        streams -= 1
        served = serve(load, cluster.hardware, batch=streams, **length_of, **group)
    return Outcome(
        layout,
        streams,
        served.tokens_per_s * layout.replicas,
        served.tokens_per_s_per_stream,
        first.ttft_seconds,
        served.decode,
    )


def cost_per_million(tokens_per_s: float, gpus: int, price_per_gpu_hour: float | None) -> float | None:
    """Return the price of a million generated tokens; every GPU is paid for, idle or not."""
    if (
        price_per_gpu_hour is None
        or isinstance(price_per_gpu_hour, bool)
        or not isinstance(price_per_gpu_hour, int | float)
        or not math.isfinite(price_per_gpu_hour)
        or price_per_gpu_hour < 0
        or tokens_per_s <= 0
    ):
        return None
    return price_per_gpu_hour * gpus / 3600 / tokens_per_s * 1e6
