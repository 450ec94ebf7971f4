# SPDX-License-Identifier: Apache-2.0
"""vLLM's cache layout: blocks of tokens, groups of layers, and the number of blocks a request takes.

The arithmetic follows v1/core/kv_cache_utils.py and v1/kv_cache_interface.py of vLLM. Layers of one kind form groups of
equal size; a block is one page of every layer of a group; all groups draw blocks from one pool. A model of one kind of
layer has one group, and a token costs the same in every layer. A hybrid model has several groups: one that grows with
the context, others that keep a window or a state, each rounded up to whole blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.memory import (
    V4_BLOCK_TOKENS,
    V4_STATE_BYTES,
    index_cache_bytes,
    layer_cache_bytes,
    state_bytes_per_layer,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape

BLOCK_TOKENS = 16
IN_FLIGHT_BATCHES = 2
"""Batches whose tokens are scheduled but not settled: two, since the scheduler works ahead of the GPU."""
STATES_PER_SEQUENCE = 2
"""Blocks of linear-attention state a sequence holds with prefix caching: the running one and the last aligned one."""
_ALIGNMENT = 576
"""DeepSeek V4's pages are padded to a multiple of this many bytes."""


@dataclass(frozen=True)
class Fixed:
    """A group of layers that keeps a window of tokens (or a number of blocks) for each sequence."""

    groups: int
    window: int
    """Tokens kept; 0 if `blocks` is the whole size."""
    block_tokens: int
    blocks: int = 0
    """Additional blocks: one for a window that starts inside a block, or the states of linear attention."""


@dataclass(frozen=True)
class CacheLayout:
    """The pool's block, and what a request takes of it."""

    block_tokens: int
    bytes_per_block: int
    growing: int
    """Groups whose blocks grow with the context."""
    fixed: tuple[Fixed, ...] = ()

    def blocks_per_request(self, context: int, batched_tokens: int) -> int:
        """Return the blocks of a request of this length, while `batched_tokens` are processed in each step."""
        blocks = self.growing * -(-context // self.block_tokens)
        for one in self.fixed:
            kept = min(one.window + IN_FLIGHT_BATCHES * batched_tokens, context) if one.window else 0
            blocks += one.groups * (-(-kept // one.block_tokens) + one.blocks)
        return max(1, blocks)


@dataclass(frozen=True)
class Pool:
    """A pool of blocks, and what it holds."""

    layout: CacheLayout
    blocks: int
    batched: int

    def concurrency(self, context: int) -> float:
        """Return the concurrent requests of this length, as vLLM prints it."""
        return round(self.blocks / self.layout.blocks_per_request(context, self.batched), 4)

    def tokens(self, context: int) -> int:
        """Return tokens in whole blocks; if groups differ, the requests that fit times their length, as vLLM prints."""
        if self.layout.growing == 1 and not self.layout.fixed:
            return self.blocks * self.layout.block_tokens
        return self.blocks * context // self.layout.blocks_per_request(context, self.batched)

    def longest(self, most: int) -> int:
        """Return the longest request, up to `most`, that fits; by bisection, as more tokens never take fewer blocks."""
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if self.layout.blocks_per_request(middle, self.batched) <= self.blocks:
                low = middle
            else:
                high = middle - 1
        return low


def cache_layout(
    shape: ModelShape,
    tensor_parallel: int,
    pipeline_parallel: int = 1,
    kv_dtype: str = "auto",
    *,
    block_tokens: int = BLOCK_TOKENS,
    speculative_tokens: int = 0,
) -> CacheLayout:
    """Return the layout of the model's cache on one GPU."""

    def staged(layers: int) -> int:
        return -(-layers // pipeline_parallel)

    if shape.compressed is not None:
        return _compressed(shape, pipeline_parallel, bool(speculative_tokens))
    full = staged(shape.full_attention_layers) + (shape.mtp_layers if speculative_tokens else 0)
    token = layer_cache_bytes(shape, tensor_parallel, kv_dtype)
    if shape.linear is not None:
        return _hybrid(
            shape, tensor_parallel, full, staged(shape.linear.layers), token, block_tokens, speculative_tokens
        )
    windowed = staged(shape.window_layers)
    if windowed and full:
        return _windowed(shape, full, windowed, token * block_tokens, block_tokens)
    if windowed:
        fixed = Fixed(1, (shape.window or 1) - 1, block_tokens, 1)
        return CacheLayout(block_tokens, windowed * token * block_tokens, 0, (fixed,))
    index = index_cache_bytes(shape)
    return CacheLayout(block_tokens, max(1, full) * (token + index) * block_tokens, 1)


def _group_size(*counts: int) -> int:
    """Return the layers per group: the smaller kind's number, or the larger one's where that pads less."""
    least, most = min(counts), max(counts)
    return most if most < least * 1.5 else least


def _windowed(shape: ModelShape, full: int, windowed: int, page: int, block_tokens: int) -> CacheLayout:
    size = _group_size(full, windowed)
    window = shape.window or 1
    # A sliding window may begin inside a block and so touches one more; chunks begin at block boundaries.
    kept, further = (window, 0) if shape.chunked else (window - 1, 1)
    fixed = Fixed(-(-windowed // size), max(1, kept), block_tokens, further)
    return CacheLayout(block_tokens, size * page, -(-full // size), (fixed,))


def _hybrid(
    shape: ModelShape, ranks: int, full: int, linear: int, token: int, block_tokens: int, guessed: int
) -> CacheLayout:
    """Return a layout with blocks long enough that a page of attention holds a state of linear attention."""
    state = state_bytes_per_layer(shape, ranks, guessed)
    kept = STATES_PER_SEQUENCE + guessed
    if not full:
        return CacheLayout(block_tokens, max(1, linear * state), 0, (Fixed(1, 0, block_tokens, kept),))
    tokens = block_tokens * max(1, -(-state // (block_tokens * token)))
    size = _group_size(full, linear)
    fixed = Fixed(-(-linear // size), 0, tokens, kept)
    return CacheLayout(tokens, size * tokens * token, -(-full // size), (fixed,))


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _compressed(shape: ModelShape, pipeline_parallel: int, mtp: bool) -> CacheLayout:
    """DeepSeek V4: compressed tokens and their index grow; windows and the compressors' inputs do not.

    The windows are small, but each request keeps all tokens of the batches in flight in blocks of 64, 8 and 4 tokens,
    which is most of what a short request takes.
    """
    one = shape.compressed
    if one is None:
        raise ValueError("not a model with compressed attention")
    fine = -(-sum(ratio == 4 for ratio in one.ratios) // pipeline_parallel)
    coarse = -(-sum(ratio > 4 for ratio in one.ratios) // pipeline_parallel)
    windows = -(-len(one.ratios) // pipeline_parallel) + (shape.mtp_layers if mtp else 0)
    coarse_ratio = max((ratio for ratio in one.ratios if ratio > 4), default=128)
    page = _padded(V4_BLOCK_TOKENS // 4 * V4_STATE_BYTES)
    index = _padded(V4_BLOCK_TOKENS // 4 * (one.index_dim + 4))
    coarse_page = _padded(max(1, V4_BLOCK_TOKENS // coarse_ratio) * V4_STATE_BYTES)
    growing = fine * (page + index) + coarse * coarse_page
    first = max(fine, coarse, 1)
    counts = [first, windows, fine, coarse]
    size = min(range(first, max(counts) + 1), key=lambda d: (sum(-count % d for count in counts), -d))
    window_groups = -(-windows // size)
    per_group = -(-windows // window_groups)
    # Inputs of the compressors wait in float32: a value and a score for each, twice that where windows overlap.
    fine_state = _padded(4 * 4 * shape.head_dim * 4) + _padded(4 * 4 * one.index_dim * 4)
    coarse_state = _padded(8 * 2 * shape.head_dim * 4)
    largest = max(growing, per_group * page, fine * fine_state, coarse * coarse_state)
    fixed = [Fixed(window_groups, one.window - 1 or 1, 64, 1)]
    if fine:
        fixed.append(Fixed(-(-fine // size), 7, 4, 1))
    if coarse:
        fixed.append(Fixed(-(-coarse // size), coarse_ratio - 1, 8, 1))
    return CacheLayout(V4_BLOCK_TOKENS, largest, 1 if growing else 0, tuple(fixed))
