# SPDX-License-Identifier: Apache-2.0
"""How fast a model decodes and prefills on given hardware, as arithmetic (docs/advice.md explains it and its limits).

A step of decode reads every weight it uses and the whole KV cache of its batch once, or computes, whichever takes
longer; then come two all-reduces a layer and the kernels' own overhead. One set of constants serves every case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.advice.all_reduce import (
    all_reduce_seconds,
    group_all_reduce_seconds,
    positive,
)

__all__ = [
    "Decode",
    "Experts",
    "ModelLoad",
    "Prefill",
    "Serving",
    "all_reduce_seconds",
    "decode",
    "message_bytes",
    "missing_figures",
    "prefill",
    "serve",
    "traffic_bytes",
]

ALL_REDUCES_PER_LAYER = 2
"""One after the attention's output projection, one after the feed-forward's down projection."""

MEMORY_EFFICIENCY = 0.8
"""Share of the nominal memory bandwidth that decode kernels reach.

0.8 with the overhead below gives what one H200 took for the layers of a TP-4 shard of Llama 70B (measured 2026-11-15
with PyTorch 2.11 and CUDA graphs: 12.0 ms for 34.2 GB in bf16, 9.5 ms for 17.1 GB in FP8). GB10: 240 of 273 GB/s.
"""

COMPUTE_EFFICIENCY = 0.55
"""Share of the dense peak rate that a whole layer reaches; the same run gave 0.60 in bf16 and 0.46 in FP8."""

KERNEL_SECONDS_PER_LAYER = 50e-6
"""Start and tail of a layer's kernels inside a CUDA graph; the same run gave 39 us (bf16) and 63 us (FP8, casts)."""

LAUNCH_SECONDS_PER_LAYER = 250e-6
"""What the CPU takes to launch a layer without a graph, as prefill does; the same run gave 180 us and 400 us."""

STEP_SECONDS = 1e-3
"""Scheduling and sampling of a step; an estimate."""

FRONT_SECONDS = 30e-3
"""HTTP, tokeniser and queue before a prompt is worked on; an estimate, it matters for short prompts only."""

PREFILL_CHUNK = 8192
"""Tokens an engine takes at once: vLLM's default --max-num-batched-tokens of a server on a large GPU."""


@dataclass(frozen=True)
class Experts:
    """The routed experts of a mixture: a token uses `per_token` of `count` in each layer; `bytes` is all of them."""

    count: int
    per_token: int
    bytes: float

    def read(self, tokens: int) -> float:
        """Bytes of the distinct experts that `tokens` tokens are expected to use, each choosing on its own."""
        unused = (1 - min(1.0, self.per_token / self.count)) ** tokens
        return self.bytes * (1 - unused)


@dataclass(frozen=True)
class ModelLoad:
    """What a model costs to run, whole model, before it is split over GPUs."""

    layers: int
    hidden: int
    weight_bytes: float
    active_weight_bytes: float
    """Read for one decoded token at batch 1: attention, shared parts, the chosen experts, the output projection."""
    active_parameters: float
    kv_bytes_per_token: float
    activation_bytes: int = 2
    experts: Experts | None = None
    precision: str = "bf16"
    """Of the matrix products, `bf16` or `fp8`; weights of 4 bits are computed in bf16."""
    kv_shards: int | None = None
    """Into how many parts the KV cache can be split (KV heads; 1 for a latent cache); None: over any number of GPUs."""
    state_bytes_per_sequence: float = 0
    """Of linear attention: read and written once a token, whatever the context."""
    attention_layers: int | None = None
    """Layers whose attention grows with the context; None: all."""

    def weights_read(self, tokens: int) -> float:
        """Bytes of weights that a step over `tokens` tokens reads."""
        if self.experts is None:
            return self.active_weight_bytes
        fixed = self.active_weight_bytes - self.experts.read(1)
        return min(fixed + self.experts.read(tokens), max(self.weight_bytes, self.active_weight_bytes))

    def kv_read(self, batch: int, context: int, tensor_parallel: int) -> float:
        """Bytes of KV cache and state that one GPU of a group reads in a step."""
        shards = min(tensor_parallel, self.kv_shards or tensor_parallel)
        return batch * (
            context * self.kv_bytes_per_token / shards + 2 * self.state_bytes_per_sequence / tensor_parallel
        )


@dataclass(frozen=True)
class Decode:
    """One step of decode of one group: a token for each of the batch."""

    step_seconds: float
    memory_seconds: float
    compute_seconds: float
    communication_seconds: float
    overhead_seconds: float
    tokens_per_s_per_stream: float
    tokens_per_s_total: float
    roofline_tokens_per_s: float
    """Of the whole batch, with the nominal bandwidth and rate and nothing else."""

    @property
    def communication_share(self) -> float:
        return self.communication_seconds / self.step_seconds


@dataclass(frozen=True)
class Prefill:
    """A prompt on an idle group."""

    seconds: float
    communication_seconds: float

    @property
    def communication_share(self) -> float:
        return self.communication_seconds / self.seconds

    @property
    def ttft_seconds(self) -> float:
        """Until the first token, with what comes before the GPU."""
        return FRONT_SECONDS + self.seconds


@dataclass(frozen=True)
class Serving:
    """A group that decodes a full batch and prefills the prompts that take the finished ones' places."""

    tokens_per_s: float
    tokens_per_s_per_stream: float
    decode: Decode

    @property
    def tpot_seconds(self) -> float:
        """Time per output token that a client sees."""
        return 1 / self.tokens_per_s_per_stream


def message_bytes(load: ModelLoad, tokens: int) -> float:
    """One all-reduce of a step over `tokens` tokens (decode: the batch; prefill: the prompt)."""
    return tokens * load.hidden * load.activation_bytes


def traffic_bytes(load: ModelLoad, tokens: int) -> float:
    """All all-reduces of a step over `tokens` tokens."""
    return ALL_REDUCES_PER_LAYER * load.layers * message_bytes(load, tokens)


def missing_figures(hardware: Mapping[str, Any]) -> list[str]:
    """What a hardware entry lacks for any of this."""
    tflops = hardware.get("tflops")
    figures = {
        "memory_bandwidth_gb_s": hardware.get("memory_bandwidth_gb_s"),
        "tflops": tflops.get("bf16") if isinstance(tflops, Mapping) else None,
    }
    return [name for name, value in figures.items() if positive(value) is None]


def decode(
    load: ModelLoad,
    hardware: Mapping[str, Any],
    *,
    tensor_parallel: int,
    hosts: int = 1,
    batch: int = 1,
    context: int = 0,
    rails: int | None = None,
    rdma: bool | None = None,
) -> Decode:
    """A step of one group of `tensor_parallel` GPUs over `hosts` hosts, `batch` requests of `context` tokens each."""
    read = load.weights_read(batch) / tensor_parallel + load.kv_read(batch, context, tensor_parallel)
    memory = read / (hardware["memory_bandwidth_gb_s"] * 1e9)
    compute = 2 * load.active_parameters * batch / tensor_parallel / _rate(load, hardware)
    communication = _communication(load, hardware, batch, tensor_parallel, hosts, rails, rdma)
    overhead = load.layers * KERNEL_SECONDS_PER_LAYER + STEP_SECONDS
    step = max(memory / MEMORY_EFFICIENCY, compute / COMPUTE_EFFICIENCY) + communication + overhead
    return Decode(
        step_seconds=step,
        memory_seconds=memory / MEMORY_EFFICIENCY,
        compute_seconds=compute / COMPUTE_EFFICIENCY,
        communication_seconds=communication,
        overhead_seconds=overhead,
        tokens_per_s_per_stream=1 / step,
        tokens_per_s_total=batch / step,
        roofline_tokens_per_s=batch / max(memory, compute),
    )


def prefill(
    load: ModelLoad,
    hardware: Mapping[str, Any],
    *,
    tensor_parallel: int,
    hosts: int = 1,
    prompt: int,
    rails: int | None = None,
    rdma: bool | None = None,
) -> Prefill:
    """A prompt on an idle group, in chunks of PREFILL_CHUNK."""
    chunk = min(prompt, PREFILL_CHUNK)
    chunks = prompt / chunk
    rate = _rate(load, hardware) * COMPUTE_EFFICIENCY * tensor_parallel
    attention = 2 * prompt**2 * load.hidden * (load.attention_layers or load.layers) / rate
    compute = 2 * load.active_parameters * chunk / rate
    bandwidth = hardware["memory_bandwidth_gb_s"] * 1e9 * MEMORY_EFFICIENCY
    memory = load.weights_read(chunk) / tensor_parallel / bandwidth
    gpu = max(memory, compute) + load.layers * KERNEL_SECONDS_PER_LAYER
    communication = chunks * _communication(load, hardware, chunk, tensor_parallel, hosts, rails, rdma)
    busy = chunks * (max(gpu, load.layers * LAUNCH_SECONDS_PER_LAYER) + STEP_SECONDS) + attention
    return Prefill(busy + communication, communication)


def serve(  # noqa: PLR0913 - each is a setting of its own, all by name
    load: ModelLoad,
    hardware: Mapping[str, Any],
    *,
    tensor_parallel: int,
    hosts: int = 1,
    batch: int,
    prompt: int,
    output: int,
    rails: int | None = None,
    rdma: bool | None = None,
) -> Serving:
    """A group kept at `batch` requests of `prompt` and `output` tokens.

    Prompts wait together, so they are prefilled in full chunks; their time is taken from all that decode.
    """
    step = decode(
        load,
        hardware,
        tensor_parallel=tensor_parallel,
        hosts=hosts,
        batch=batch,
        context=prompt + output // 2,
        rails=rails,
        rdma=rdma,
    )
    packed = max(prompt, min(prompt * batch, PREFILL_CHUNK))
    whole = prefill(load, hardware, tensor_parallel=tensor_parallel, hosts=hosts, prompt=packed, rails=rails, rdma=rdma)
    round_seconds = output * step.step_seconds + batch * whole.seconds * prompt / packed
    return Serving(batch * output / round_seconds, output / round_seconds, step)


def _communication(
    load: ModelLoad,
    hardware: Mapping[str, Any],
    tokens: int,
    tensor_parallel: int,
    hosts: int,
    rails: int | None,
    rdma: bool | None,
) -> float:
    one = group_all_reduce_seconds(
        message_bytes(load, tokens), hardware, ranks=tensor_parallel, hosts=hosts, rails=rails, rdma=rdma
    )
    return ALL_REDUCES_PER_LAYER * load.layers * one


def _rate(load: ModelLoad, hardware: Mapping[str, Any]) -> float:
    """Operations a second; without a rate for FP8 it is computed in bf16."""
    tflops = hardware["tflops"]
    fp8 = positive(tflops.get("fp8")) if load.precision == "fp8" and hardware.get("fp8", True) else None
    return (fp8 or float(tflops["bf16"])) * 1e12
