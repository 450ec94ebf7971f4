# SPDX-License-Identifier: Apache-2.0
"""Compute SGLang's share of a GPU for weights and cache from the share that the whole engine may take.

vLLM's utilisation is a share for everything. SGLang's --mem-fraction-static covers weights and cache only: activations
and CUDA graphs come on top of it. They are estimated by what SGLang itself reserves for them where the fraction is not
set: sgl-project/sglang, python/sglang/srt/server_args.py since pull request 10975, looked up 2026-11-17.
"""

from __future__ import annotations

GIB = 1024
"""In MiB, the unit in which SGLang counts."""
_CONSTANT = 512
_PER_PREFILL_TOKEN = 1.5
_LEAST_PREFILL = 2048
_PER_GRAPH = 2
_PER_GPU = GIB / 8
_LARGE, _LEAST_ON_LARGE = 60 * GIB, 10 * GIB
_SPECULATIVE = 2 * GIB
_LEAST = 0.05


def prefill_default(memory_mib: int) -> int:
    """Return SGLang's default number of tokens per prefill."""
    for limit, tokens in ((35 * GIB, 2048), (60 * GIB, 4096), (160 * GIB, 8192)):
        if memory_mib < limit:
            return tokens
    return 16384


def graph_default(memory_mib: int, tensor_parallel: int) -> int:
    """Return the default largest batch that graphs are captured for; the larger of the values that releases choose."""
    if memory_mib < 35 * GIB:
        return 24 if tensor_parallel < 4 else 80
    if memory_mib < 160 * GIB:
        return 256 if tensor_parallel < 4 else 512
    return 512


def reserve_mib(
    memory_mib: int, gpus: int, tensor_parallel: int, prefill: int | None, sequences: int | None, speculative: bool
) -> float:
    """Return the MiB that activations and graphs take of one GPU."""
    graphs = min(sequences or 1 << 20, graph_default(memory_mib, tensor_parallel))
    reserve = _CONSTANT + _PER_GRAPH * graphs + _PER_GPU * gpus
    reserve += _PER_PREFILL_TOKEN * max(prefill or prefill_default(memory_mib), _LEAST_PREFILL)
    if memory_mib > _LARGE:
        reserve = max(reserve, _LEAST_ON_LARGE)
    return reserve + (_SPECULATIVE if speculative else 0)


def static_fraction(share: float, memory_mib: int, reserve: float) -> float:
    """Return the --mem-fraction-static with which the whole engine takes this share, rounded down."""
    # The fit refuses what does not hold the model; the engine accepts no less than this.
    return max(_LEAST, int((share - reserve / memory_mib) * 1000) / 1000)
