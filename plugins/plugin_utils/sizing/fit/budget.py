# SPDX-License-Identifier: Apache-2.0
"""Whether a model fits: weights, activations, runtime and cache against the memory of a GPU. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanError, PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.activation import (
    DRIVER,
    activation_bytes,
    batch_defaults,
    early_bytes,
    runtime_bytes,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.checks import (
    ERRORS,
    SPARE_BLOCKS,
    FixedCache,
    ceiling_of,
    check_context,
    check_dtype,
    check_kv_dtype,
    check_memory,
    check_share,
    check_whole,
    lowered_note,
    refuse_memory,
    refuse_sequences,
    share_notes,
    spare_sequences,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.kv_cache import (
    BLOCK_TOKENS,
    CacheLayout,
    Pool,
    cache_layout,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.parallel_sizes import legal_tensor_parallel
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.memory import (
    CACHE_FORMATS,
    kv_bytes_per_token,
    local_kv_heads,
    weight_bytes,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape

__all__ = ["ERRORS", "Fit", "fit", "refused_document"]

MOST_GPUS = 65_536
MOST_SUGGESTED = 64
"""The largest number of GPUs a remedy names."""


@dataclass(frozen=True)
class Fit:
    """The memory budget of one GPU, and what it leaves for requests. Concurrency is that of one replica."""

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
    """Bytes missing for one request of the full context; 0 if it fits."""
    kv_bytes_per_token: int
    kv_tokens: int
    max_concurrency: float
    longest_context: int
    """The longest request that the cache holds."""
    utilisation: float
    legal_tp: tuple[int, ...] = ()
    errors: tuple[PlanError, ...] = ()
    notes: tuple[str, ...] = ()
    pool: Pool | None = field(default=None, repr=False)
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    lowered_sequences: bool = False
    """Whether max_num_seqs was lowered below the engine's default, because the cache has too few blocks for that."""
    early_bytes: int = 0
    """The part of the runtime that a rank has taken when the engine measures free memory."""

    def concurrency(self, context: int) -> float:
        """Return the concurrent requests of another length, computed as max_concurrency: whole blocks, with states."""
        return self.pool.concurrency(max(1, context)) if self.pool else 0.0

    def streams(self, context: int) -> int:
        """Return the whole requests of a length that are served at once, limited by the cache and the engine."""
        return min(int(self.concurrency(context)), self.max_num_seqs)

    @property
    def free_bytes(self) -> int:
        used = self.os_bytes + self.weights_bytes + self.activation_bytes + self.runtime_bytes + self.kv_bytes
        return max(0, self.total_bytes - used)

    def document(self) -> dict[str, Any]:
        """Return the result for programs, with every key present."""
        return {
            "fits": self.fits,
            "weights_bytes_per_gpu": self.weights_bytes,
            "kv_bytes_per_token_per_gpu": self.kv_bytes_per_token,
            "kv_tokens": self.kv_tokens,
            "max_concurrency": self.max_concurrency,
            "legal_tp": list(self.legal_tp),
            "errors": [dict(one) for one in self.errors],
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
            "max_num_seqs": self.max_num_seqs,
            "longest_context": self.longest_context,
            "utilisation": self.utilisation,
            "notes": list(self.notes),
        }


def refused_document(errors: PlanErrors, notes: list[str] | None = None) -> dict[str, Any]:
    """Return a result without figures, for when there is no shape or hardware to compute with; every key is present."""
    empty = Fit(False, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0.0)
    return {**empty.document(), "errors": list(errors.found), "notes": list(notes or [])}


def fit(  # noqa: PLR0913 - independent settings, all passed by name
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
    full_graphs: bool | None = None,
    errors: PlanErrors | None = None,
) -> Fit:
    """Compute what `gpus` GPUs of this hardware hold of the model.

    `kv_cache_bytes` is a cache of a fixed size on each GPU (vLLM's --kv-cache-memory-bytes); then the utilisation does
    not count: the cache may take what is left of the memory, of unified memory what is left below the ceiling. `dtype`
    is the engine's --dtype, the type of weights that are not quantised and of an `auto` cache; None or `auto` is the
    model's own, 16 bits for float32. `speculative_tokens` is how many tokens the multi-token-prediction layers draft, 0
    without them. `full_graphs` says whether whole decode steps are captured, if that differs from `graphs`; a hybrid
    model then needs a block for every request, and `max_num_seqs` is lowered to that unless it is given. `errors` are
    included in the result, which fits only if there are none.
    """
    own = PlanErrors()
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
    # Sizes that check_parallel has refused are not refused again.
    said = PlanErrors() if errors and any(one["id"] == "tp.size" for one in errors.found) else own
    good = {key: check_whole(key, *one, said if one[1] == MOST_GPUS else own) for key, one in numbers.items()}
    told = check_dtype(dtype, own)
    narrowed = told is None and shape.narrowed
    shape = shape.with_dtype(told)
    kv_dtype = check_kv_dtype(kv_dtype, CACHE_FORMATS, own)
    share = check_share(hardware, utilisation, own)
    total = check_memory(hardware, own)
    guessed = check_whole("speculative_tokens", speculative_tokens or None, 64, own) or 0
    ranks, stages = good["tensor_parallel"] or 1, good["pipeline_parallel"] or 1
    tokens = good["context"] or 1
    check_context(shape, tokens, own)
    unified, asked = bool(hardware.get("unified")), good["kv_cache_bytes"]
    reported = None if unified and hardware.get("memory_mib") is None else total - DRIVER
    default_tokens, default_sequences = batch_defaults(reported)
    batched = good["max_num_batched_tokens"] or default_tokens
    sequences = good["max_num_seqs"] or default_sequences
    if asked is not None:
        share = ceiling_of(hardware) if unified else 1.0
    usable = int(total * share)

    def parts_at(size: int, parts: int) -> _Parts:
        """Return what each GPU holds at one way of cutting the model."""
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
        """Return the bytes that one request of the full context lacks."""
        return parts_at(size, parts).missing(usable, tokens, batched, asked)

    at = parts_at(ranks, stages)
    pool = at.pool(usable, batched, asked)
    notes = []
    each_a_block = shape.linear is not None and (graphs if full_graphs is None else full_graphs)
    if each_a_block and good["max_num_seqs"] is None and 0 < pool.blocks < sequences * SPARE_BLOCKS:
        notes.append(lowered_note(sequences, pool.blocks))
        sequences = spare_sequences(pool.blocks)
        at = parts_at(ranks, stages)
        pool = at.pool(usable, batched, asked)
    layout, left = at.layout, usable - at.fixed
    crowded = asked is not None and asked > left
    short = max(0, at.missing(usable, tokens, batched, asked)) if total else 0
    if asked is None:
        notes += share_notes(hardware, share, total)
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
        # A request that only keeps a window takes fewer bytes per token the longer it is.
        kv_bytes_per_token=min(
            kv_bytes_per_token(shape, ranks, kv_dtype, stages), at.needed(tokens, batched) // tokens
        ),
        kv_tokens=pool.tokens(tokens),
        max_concurrency=pool.concurrency(tokens),
        longest_context=0 if crowded else pool.longest(shape.context or tokens),
        utilisation=round(share, 4),
        legal_tp=tuple(legal_tensor_parallel(shape, good["gpus"] or 1)),
        notes=(*shape.notes, *_notes(shape, ranks, layout, kv_dtype, narrowed), *notes),
        pool=pool,
        max_num_seqs=sequences,
        max_num_batched_tokens=batched,
        lowered_sequences=good["max_num_seqs"] is None and sequences < default_sequences,
        early_bytes=early_bytes(ranks * stages),
    )
    if short and not any(one["id"] != "fit.beyond-model" for one in (*own.found, *said.found)):
        fixed = None if asked is None else FixedCache(asked, at.needed(tokens, batched), left)
        larger = _larger(shape, ranks, stages, hardware.get("gpus") or 1, expert_parallel, missing)
        refuse_memory(shape, result, larger, fixed, own)
    elif each_a_block and not short and pool.blocks < sequences:
        refuse_sequences(shape, sequences, pool.blocks, own)
    found = (*(errors.found if errors else ()), *own.found)
    return replace(result, fits=not found, errors=found)


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

    def pool(self, usable: int, batched: int, asked: int | None) -> Pool:
        """Return the cache that fits in the remaining memory, or that was asked for."""
        size = max(0, usable - self.fixed) if asked is None else asked
        return Pool(self.layout, size // self.layout.bytes_per_block, batched)

    def needed(self, context: int, batched: int) -> int:
        """Return the cache bytes of one request."""
        return self.layout.blocks_per_request(context, batched) * self.layout.bytes_per_block

    def missing(self, usable: int, context: int, batched: int, asked: int | None) -> int:
        """Return the bytes that one request lacks, negative if some are left; `asked` is an explicit cache size."""
        needed = self.needed(context, batched)
        if asked is None:
            return self.fixed + needed - usable
        return max(needed - asked, self.fixed + asked - usable)


def _larger(
    shape: ModelShape,
    ranks: int,
    stages: int,
    each: int,
    expert_parallel: bool,
    missing: Callable[[int, int], int],
) -> tuple[int, int] | None:
    """Return the cut over the fewest GPUs, more than now, at which the model would fit; hosts have `each` GPUs."""
    ways = (
        (size * parts, parts, size)
        for size in legal_tensor_parallel(shape, MOST_SUGGESTED, expert_parallel)
        for parts in (1, 2, 4, 8)
        if ranks * stages < size * parts <= MOST_SUGGESTED
        and parts <= shape.layers
        and (size <= each or size % each == 0)
    )
    return next(((size, parts) for _, parts, size in sorted(ways) if missing(size, parts) <= 0), None)


def _notes(shape: ModelShape, ranks: int, layout: CacheLayout, kv_dtype: str, narrowed: bool) -> list[str]:
    notes = []
    if narrowed:
        notes.append("a float32 checkpoint, which engines load in 16 bits unless --dtype float32 is set")
    if kv_dtype in CACHE_FORMATS and CACHE_FORMATS[kv_dtype].guess:
        notes.append(f"the size of the cache's type {kv_dtype} is not known: counted as one byte per element")
    if shape.mla is None and shape.compressed is None and ranks > shape.kv_heads:
        copies = ranks * local_kv_heads(shape, ranks) // shape.kv_heads
        notes.append(f"{shape.kv_heads} KV heads over {ranks} GPUs: each is kept {copies} times, and so is the cache")
    if (shape.mla or shape.compressed) and ranks > 1:
        notes.append("the compressed cache is not split by tensor parallelism: every GPU holds all of it")
    if layout.block_tokens > BLOCK_TOKENS and shape.linear is not None:
        notes.append(f"hybrid attention: blocks of {layout.block_tokens} tokens, so that a page holds a state")
    return notes
