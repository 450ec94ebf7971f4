# SPDX-License-Identifier: Apache-2.0
"""Memory that an engine needs besides weights and cache: one formula for every model, engine version and GPU.

Before it sizes the cache, vLLM runs one batch of `max_num_batched_tokens` and samples for `max_num_seqs` requests, and
keeps the larger of both peaks free. Added to that are what the driver keeps, collective-communication buffers, and CUDA
graphs. The constants are rounded from the published start-up logs of docs/fit.md and vLLM's sources; none is specific
to a single model.
"""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape

GIB = 1 << 30
DRIVER = GIB // 2
"""GPU memory that `nvidia-smi` counts and CUDA does not hand out (81559 MiB against 79.2 GiB on an H100)."""
WORKSPACES = GIB // 4
"""Libraries' workspaces and kernels, and what the allocator cannot give back."""
GRAPHS = GIB // 2
"""CUDA graphs of all batch sizes."""
COMMUNICATION = 8 * GIB // 10
"""Collective-communication buffers, as soon as there are two GPUs ..."""
COMMUNICATION_PER_RANK = 15 * GIB // 100
"""... and for each of them."""
SAMPLER_BYTES = 10
"""For each request and token of the vocabulary: the logits as computed, gathered, and in float32.

This holds for engines of 2026. Those of 2025 sorted the vocabulary unless FlashInfer was installed, and took about 36
bytes: several GiB more with 1024 requests (docs/fit.md).
"""
EXPERTS_SAMPLER_BYTES = 18
"""The same for a mixture of experts: the logits as computed, and four times in float32.

vLLM keeps mixtures on its older model runner, which makes copies where the newer one samples in place
(DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES of config/vllm.py in 0.26): 2.68 GiB for Qwen3 30B-A3B in bf16 and in FP8 alike,
of which routed experts need 0.7 (tests/fixtures/performance). Later versions use the newer one for all models
(github.com/vllm-project/vllm/pull/53183): there this overestimates, which costs cache and nothing else.
"""
LARGE_GPU = 70 * GIB
"""From this size on vLLM takes larger batches by default."""


def gib(size: float) -> str:
    """Format a size for an operator."""
    return f"{size / GIB:.1f} GiB"


def batch_defaults(memory_bytes: int | None) -> tuple[int, int]:
    """Return vLLM's default max_num_batched_tokens and max_num_seqs of a server, by the memory that NVML reports.

    NVML reports none for a GB10, and vLLM then takes the smallest, whatever CUDA sees: get_batch_defaults of
    engine/arg_utils.py, up to 0.32 at least (github.com/vllm-project/vllm/pull/57378).
    """
    if memory_bytes is not None and memory_bytes >= 160 * GIB:
        return 16384, 1024
    return (8192, 1024) if memory_bytes is not None and memory_bytes >= LARGE_GPU else (2048, 256)


def runtime_bytes(ranks: int, *, graphs: bool = True) -> int:
    """Return the bytes that do not depend on the model."""
    return early_bytes(ranks) + WORKSPACES + (GRAPHS if graphs else 0)


def early_bytes(ranks: int) -> int:
    """Return the part of them already taken when a rank measures free memory, which vLLM does after NCCL starts."""
    return DRIVER + (COMMUNICATION + ranks * COMMUNICATION_PER_RANK if ranks > 1 else 0)


def activation_bytes(shape: ModelShape, tensor_parallel: int, batched_tokens: int, sequences: int) -> int:
    """Return the larger of the peaks of a forward pass and of sampling."""
    size = min(shape.dtype_bytes, 4)
    stream = 4 * shape.hidden
    attention = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    if shape.linear is not None:
        attention = max(attention, 2 * shape.linear.channels)
    dense = 3 * (shape.intermediate or 0)
    forward = stream + max(attention, dense) // tensor_parallel
    experts = shape.experts
    if experts is not None:
        routed = experts.per_token * (shape.hidden + 3 * experts.intermediate // tensor_parallel)
        forward = max(forward, stream + routed + 3 * experts.shared_intermediate // tensor_parallel)
    logit = SAMPLER_BYTES if experts is None else EXPERTS_SAMPLER_BYTES
    sampling = min(sequences, batched_tokens) * shape.vocab * logit
    return max(batched_tokens * forward * size, sampling + batched_tokens * shape.hidden * size)
