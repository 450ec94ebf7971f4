# SPDX-License-Identifier: Apache-2.0
"""Whether a model fits: weights, activations, runtime and cache against the memory of a GPU. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.fit.activation import (
    DRIVER,
    activation_bytes,
    batch_defaults,
    runtime_bytes,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.fit.checks import (
    REFUSALS,
    FixedCache,
    ceiling_of,
    check_context,
    check_dtype,
    check_memory,
    check_share,
    check_whole,
    check_word,
    refuse_memory,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.fit.kv_cache import (
    BLOCK_TOKENS,
    CacheLayout,
    Pool,
    cache_layout,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.fit.legality import legal_tensor_parallel
from ansible_collections.firstlight.cluster.plugins.plugin_utils.models.memory import (
    kv_bytes_per_token,
    local_kv_heads,
    weight_bytes,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.models.shape import ModelShape
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusal, Refusals

__all__ = ["REFUSALS", "Fit", "fit", "refused_document"]

MOST_GPUS = 65_536
KV_TYPES = ("auto", "bfloat16", "float16", "float32", "fp8", "int8")
MOST_SUGGESTED = 64
"""The largest number of GPUs a remedy names."""


@dataclass(frozen=True)
class Fit:
    """The memory of one GPU, and what it leaves for requests. Concurrency is that of one replica."""

    fits: bool
    tensor_parallel: int
    pipeline_parallel: int
    context: int
    replicas: int
    total_bytes: int
    usable_bytes: int
    os_bytes: int
    weights_bytes: int
    activation_bytes: int
    runtime_bytes: int
    kv_bytes: int
    short_bytes: int
    """What is missing for one request of the full context; 0 where it fits."""
    kv_bytes_per_token: int
    kv_tokens: int
    max_concurrency: float
    longest_context: int
    """The longest request that the cache holds."""
    utilisation: float
    legal_tp: tuple[int, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def free_bytes(self) -> int:
        used = self.os_bytes + self.weights_bytes + self.activation_bytes + self.runtime_bytes + self.kv_bytes
        return max(0, self.total_bytes - used)

    def document(self) -> dict[str, Any]:
        """The result for programs; all keys are always there."""
        return {
            "fits": self.fits,
            "weights_bytes_per_gpu": self.weights_bytes,
            "kv_bytes_per_token_per_gpu": self.kv_bytes_per_token,
            "kv_tokens": self.kv_tokens,
            "max_concurrency": self.max_concurrency,
            "legal_tp": list(self.legal_tp),
            "refusals": [dict(one) for one in self.refusals],
            "memory": {
                "total_bytes": self.total_bytes,
                "usable_bytes": self.usable_bytes,
                "weights_bytes": self.weights_bytes,
                "activation_bytes": self.activation_bytes,
                "runtime_bytes": self.runtime_bytes,
                "kv_bytes": self.kv_bytes,
                "os_bytes": self.os_bytes,
                "free_bytes": self.free_bytes,
                "short_bytes": self.short_bytes,
            },
            "tensor_parallel": self.tensor_parallel,
            "pipeline_parallel": self.pipeline_parallel,
            "replicas": self.replicas,
            "context": self.context,
            "longest_context": self.longest_context,
            "utilisation": self.utilisation,
            "notes": list(self.notes),
        }


def refused_document(refusals: Refusals, notes: list[str] | None = None) -> dict[str, Any]:
    """The result where there is no shape or no hardware to compute with: every key, nothing in it."""
    empty = Fit(False, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0.0)
    return {**empty.document(), "refusals": list(refusals.found), "notes": list(notes or [])}


def fit(  # noqa: PLR0913 - each is a setting of its own, all by name
    shape: ModelShape,
    hardware: Mapping[str, Any],
    *,
    gpus: int,
    tensor_parallel: int,
    pipeline_parallel: int = 1,
    context: int | None = None,
    kv_dtype: str = "auto",
    utilisation: float | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    kv_cache_bytes: int | None = None,
    block_tokens: int | None = None,
    expert_parallel: bool = False,
    dtype: str | None = None,
    speculative_tokens: int = 0,
    vision: bool = True,
    graphs: bool = True,
    refusals: Refusals | None = None,
) -> Fit:
    """What `gpus` GPUs of this hardware hold of the model.

    `kv_cache_bytes` is a cache of a fixed size on each GPU (vLLM's --kv-cache-memory-bytes); then the utilisation does
    not count: the cache may take what is left of the memory, of unified memory what is left below the ceiling. `dtype`
    is the engine's --dtype, the type of weights that are not quantised and of an `auto` cache; None or `auto` is the
    model's own. `speculative_tokens`: how many the layers for further tokens guess, 0 without them. `refusals` are
    taken over into the result, which fits only if there are none.
    """
    own = Refusals()
    numbers = {
        "gpus": (gpus, MOST_GPUS),
        "tensor_parallel": (tensor_parallel, MOST_GPUS),
        "pipeline_parallel": (pipeline_parallel, MOST_GPUS),
        "context": (context if context is not None else shape.context or 4096, 1 << 40),
        "max_num_batched_tokens": (max_num_batched_tokens, 1 << 24),
        "max_num_seqs": (max_num_seqs, 1 << 20),
        "kv_cache_bytes": (kv_cache_bytes, 1 << 50),
        "block_tokens": (block_tokens, 1 << 16),
    }
    good = {key: check_whole(key, value, most, own) for key, (value, most) in numbers.items()}
    shape = shape.with_dtype(check_dtype(dtype, own))
    kv_dtype = check_word("kv_dtype", kv_dtype, own)
    share = check_share(hardware, utilisation, own)
    total = check_memory(hardware, own)
    guessed = check_whole("speculative_tokens", speculative_tokens or None, 64, own) or 0
    ranks, stages = good["tensor_parallel"] or 1, good["pipeline_parallel"] or 1
    tokens = good["context"] or 1
    check_context(shape, tokens, own)
    default_tokens, default_sequences = batch_defaults(total - DRIVER)
    batched = good["max_num_batched_tokens"] or default_tokens
    sequences = good["max_num_seqs"] or default_sequences
    unified, asked = bool(hardware.get("unified")), good["kv_cache_bytes"]
    if asked is not None:
        share = ceiling_of(hardware) if unified else 1.0
    usable = int(total * share)

    def parts_at(size: int, parts: int) -> _Parts:
        """What each GPU holds at a way of cutting the model."""
        return _Parts(
            weight_bytes(shape, size, parts, expert_parallel, mtp=guessed > 0, vision=vision),
            activation_bytes(shape, size, batched, sequences),
            runtime_bytes(size * parts, graphs=graphs),
            cache_layout(
                shape,
                size,
                parts,
                kv_dtype,
                block_tokens=good["block_tokens"] or BLOCK_TOKENS,
                speculative_tokens=guessed,
            ),
        )

    def missing(size: int, parts: int) -> int:
        """Bytes that one request of the full context lacks."""
        return parts_at(size, parts).missing(usable, tokens, batched, asked)

    at = parts_at(ranks, stages)
    layout, left = at.layout, usable - at.fixed
    crowded = asked is not None and asked > left
    pool = Pool(layout, (max(0, left) if asked is None else asked) // layout.bytes_per_block, batched)
    short = max(0, at.missing(usable, tokens, batched, asked)) if total else 0
    result = Fit(
        fits=False,
        tensor_parallel=ranks,
        pipeline_parallel=stages,
        context=tokens,
        replicas=max(1, (good["gpus"] or 1) // (ranks * stages)),
        total_bytes=total,
        usable_bytes=usable,
        os_bytes=total - usable if unified else 0,
        weights_bytes=at.weights,
        activation_bytes=at.activation,
        runtime_bytes=at.runtime,
        kv_bytes=pool.blocks * layout.bytes_per_block,
        short_bytes=short,
        kv_bytes_per_token=kv_bytes_per_token(shape, ranks, kv_dtype),
        kv_tokens=pool.tokens(tokens),
        max_concurrency=pool.concurrency(tokens),
        longest_context=0 if crowded else pool.longest(shape.context or tokens),
        utilisation=round(share, 4),
        legal_tp=tuple(legal_tensor_parallel(shape, good["gpus"] or 1)),
        notes=(*shape.notes, *_notes(shape, ranks, layout, kv_dtype)),
    )
    if short and not any(one["id"] != "fit.beyond-model" for one in own.found):
        fixed = None if asked is None else FixedCache(asked, at.needed(tokens, batched), left)
        refuse_memory(shape, result, _larger(shape, ranks, stages, missing), fixed, own)
    found = (*(refusals.found if refusals else ()), *own.found)
    return replace(result, fits=not found, refusals=found)


@dataclass(frozen=True)
class _Parts:
    """What a GPU holds at one way of cutting the model."""

    weights: int
    activation: int
    runtime: int
    layout: CacheLayout

    @property
    def fixed(self) -> int:
        """Bytes of everything but the cache."""
        return self.weights + self.activation + self.runtime

    def needed(self, context: int, batched: int) -> int:
        """Bytes of the cache of one request."""
        return self.layout.blocks_per_request(context, batched) * self.layout.bytes_per_block

    def missing(self, usable: int, context: int, batched: int, asked: int | None) -> int:
        """Bytes that one request lacks, negative where some are left; `asked` is the cache where its size is set."""
        needed = self.needed(context, batched)
        if asked is None:
            return self.fixed + needed - usable
        return max(needed - asked, self.fixed + asked - usable)


def _larger(shape: ModelShape, ranks: int, stages: int, missing: Callable[[int, int], int]) -> tuple[int, int] | None:
    """The way of cutting the model over the fewest GPUs, more than now, at which it would fit."""
    ways = (
        (size * parts, parts, size)
        for size in legal_tensor_parallel(shape, MOST_SUGGESTED)
        for parts in (1, 2, 4, 8)
        if ranks * stages < size * parts <= MOST_SUGGESTED and parts <= shape.layers
    )
    return next(((size, parts) for _, parts, size in sorted(ways) if missing(size, parts) <= 0), None)


def _notes(shape: ModelShape, ranks: int, layout: CacheLayout, kv_dtype: str) -> list[str]:
    notes = []
    if not kv_dtype.lower().startswith(KV_TYPES):
        notes.append(f"the cache's type {kv_dtype[:40]} is not known here: counted as the model's own")
    if shape.mla is None and shape.compressed is None and ranks > shape.kv_heads:
        copies = ranks * local_kv_heads(shape, ranks) // shape.kv_heads
        notes.append(f"{shape.kv_heads} KV heads over {ranks} GPUs: each is kept {copies} times, so the cache is too")
    if (shape.mla or shape.compressed) and ranks > 1:
        notes.append("the compressed cache is not cut by tensor parallelism: every GPU holds all of it")
    if layout.block_tokens > BLOCK_TOKENS and shape.linear is not None:
        notes.append(f"hybrid attention: blocks of {layout.block_tokens} tokens, so that a page holds a state")
    return notes
