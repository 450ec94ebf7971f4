# SPDX-License-Identifier: Apache-2.0
"""Compute the memory of a model's weights, cache and states on a GPU. Pure arithmetic over a ModelShape."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import (
    DTYPE_BYTES,
    Matrix,
    ModelShape,
)

VOCABULARY_PADDING = 64
"""vLLM pads the vocabulary to a multiple of this, then cuts it."""
V4_STATE_BYTES = 584
"""A compressed token of DeepSeek V4: 448 bytes of FP8, 128 of rotary BF16, 8 of scales (vLLM's fp8_ds_mla)."""
V4_BLOCK_TOKENS = 256


@dataclass(frozen=True)
class CacheFormat:
    """How the elements of the cache are stored."""

    bits: int
    group: int = 0
    """Elements that share a one-byte scale; 0 for none."""
    scale_bytes: int = 0
    """Bytes of the scale that each token and head has, for keys and for values."""
    latent: bool = False
    """A layout of latent attention, whose rotary part keeps 16 bits."""
    guess: bool = False
    """The format is not documented well enough to count: one byte per element is assumed."""

    def size(self, elements: int) -> int:
        """Return the bytes of a vector of this length."""
        scales = -(-elements // self.group) if self.group else 0
        return -(-elements * self.bits // 8) + scales + self.scale_bytes


_GUESS = CacheFormat(8, guess=True)
CACHE_FORMATS = {
    **{word: CacheFormat(32) for word in ("float32", "float")},
    **{word: CacheFormat(16) for word in ("bfloat16", "bf16", "float16", "fp16", "half")},
    **{word: CacheFormat(8) for word in ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8")},
    "fp8_ds_mla": CacheFormat(8, latent=True),
    "fp8_per_token_head": CacheFormat(8, scale_bytes=4),
    "int8_per_token_head": CacheFormat(8, scale_bytes=4),
    "int4_per_token_head": CacheFormat(4, scale_bytes=4),
    "nvfp4": CacheFormat(4, group=16),
    "nvfp4_4over6": CacheFormat(4, group=16),
    "fp4_mx_block16": CacheFormat(4, group=16),
    "mxfp8": CacheFormat(8, group=32),
    **dict.fromkeys(
        (
            "nvfp4_ds_mla",
            "turboquant_3bit_nc",
            "turboquant_4bit_nc",
            "turboquant_k3v4_nc",
            "turboquant_k8v4",
            "ultraquant_4bit",
        ),
        _GUESS,
    ),
}
"""Values of --kv-cache-dtype: those of vLLM 0.32 and SGLang 0.5.23 (catalog/engines), and common spellings.

Sizes as in vLLM's v1/kv_cache_interface.py: a float32 scale for each token and head beside keys and values, for NVFP4
one byte for each 16 elements.
"""


@dataclass(frozen=True)
class Parameters:
    """Parameter counts."""

    total: int
    """Of the text model, without multi-token-prediction layers and without a vision tower."""
    active: int
    """Parameters that a token uses, without embeddings."""
    mtp: int
    vision: int


def parameters(shape: ModelShape) -> Parameters:
    """Return how many parameters the model has, and how many a token uses."""
    stored = [one for one in shape.matrices if not one.derived]

    def total(*places: str) -> int:
        return sum(one.elements * one.count for one in stored if one.place in places)

    active = sum(one.elements * _active(one) for one in stored)
    if shape.tied:
        active += shape.vocab * shape.hidden
    return Parameters(total("layer", "first", "last"), active, total("mtp"), total("vision"))


def _active(matrix: Matrix) -> int:
    return matrix.count if matrix.active is None else matrix.active


def total_weight_bytes(shape: ModelShape) -> int:
    """Return the bytes of the checkpoint's weights: everything, including vision tower and multi-token prediction."""
    return sum(_size(shape, one, one.outputs, one.inputs) * one.count for one in shape.matrices if not one.derived)


def active_weight_bytes(shape: ModelShape) -> int:
    """Return the bytes read for one decoded token at batch 1: attention, shared and active experts, output matrix."""
    total = sum(_size(shape, one, one.outputs, one.inputs) * _active(one) for one in shape.matrices)
    return total + (shape.vocab * shape.hidden * shape.dtype_bytes if shape.tied else 0)


def weight_bytes(
    shape: ModelShape,
    tensor_parallel: int,
    pipeline_parallel: int = 1,
    expert_parallel: bool = False,
    *,
    mtp: bool = False,
    vision: bool = True,
) -> int:
    """Return the bytes of weights on the GPU that holds most, with each matrix cut or copied by tensor parallelism.

    `mtp`: the multi-token-prediction layers are loaded (only with speculative decoding). `vision`: the vision tower is.
    """
    stage = -(-shape.layers // pipeline_parallel)
    layers = ends = first = last = 0
    for one in shape.matrices:
        if (one.place == "mtp" and not mtp) or (one.place == "vision" and not vision):
            continue
        size = _shard(shape, one, tensor_parallel, expert_parallel)
        if one.place == "layer":
            layers += size
        elif one.place == "first":
            first += size
        elif one.place == "last":
            last += size
        else:
            ends += size
    in_stage = -(-layers * stage // shape.layers)
    if pipeline_parallel == 1:
        return in_stage + first + last + ends
    return in_stage + max(first + ends, last or first)


def _shard(shape: ModelShape, one: Matrix, ranks: int, expert_parallel: bool) -> int:
    """Return the bytes of all matrices of a kind on one GPU."""
    if one.expert and expert_parallel and shape.experts is not None:
        layers = one.count // shape.experts.count
        return _size(shape, one, one.outputs, one.inputs) * layers * -(-shape.experts.count // ranks)
    outputs, inputs = one.outputs, one.inputs
    if one.split == "column":
        outputs = -(-outputs // ranks)
    elif one.split == "row":
        inputs = -(-inputs // ranks)
    elif one.split == "kv":
        outputs = outputs // shape.kv_heads * local_kv_heads(shape, ranks)
    elif one.split == "vocab":
        outputs = -(-(-(-outputs // VOCABULARY_PADDING) * VOCABULARY_PADDING) // ranks)
    return _size(shape, one, outputs, inputs) * one.count


def _size(shape: ModelShape, one: Matrix, outputs: int, inputs: int) -> int:
    return one.fmt.size(outputs, inputs) if one.fmt else outputs * inputs * shape.dtype_bytes


def local_kv_heads(shape: ModelShape, ranks: int) -> int:
    """Return the KV heads on one GPU: at least one, so with more GPUs than heads each head is replicated."""
    return max(1, -(-shape.kv_heads // ranks))


def _cache_format(shape: ModelShape, kv_dtype: str) -> CacheFormat:
    """Return how the cache is stored; `auto` is the model's own type, or what its checkpoint asks for."""
    word = kv_dtype.lower()
    if word == "auto":
        word = shape.quantization.kv_cache or shape.dtype
    return CACHE_FORMATS.get(word, CacheFormat(8 * shape.dtype_bytes))


def layer_cache_bytes(shape: ModelShape, tensor_parallel: int, kv_dtype: str) -> int:
    """Return the bytes that one attention layer caches for a token on one GPU (not DeepSeek V4's)."""
    stored = _cache_format(shape, kv_dtype)
    if shape.mla is not None:
        # The latent vector is whole on every GPU; FP8 keeps its rotary part in 16 bits, with four scales of 4 bytes,
        # where the model has a sparse index, and plain elements otherwise.
        if stored.bits == 8 and (shape.mla.index_heads or stored.latent):
            return shape.mla.kv_rank + 16 + 2 * shape.mla.rope_dim
        return stored.size(shape.mla.cached)
    return 2 * local_kv_heads(shape, tensor_parallel) * stored.size(shape.head_dim)


def index_cache_bytes(shape: ModelShape) -> int:
    """Return the bytes of DeepSeek V3.2's sparse index per layer and token: FP8 keys, and a scale for each 128."""
    if shape.mla is None or not shape.mla.index_heads:
        return 0
    return shape.mla.index_dim + 4 * -(-shape.mla.index_dim // 128)


def kv_bytes_per_token(
    shape: ModelShape, tensor_parallel: int, kv_dtype: str = "auto", pipeline_parallel: int = 1
) -> int:
    """Return the bytes by which one more token grows the cache of one GPU, in the stage with most layers.

    Only layers whose cache grows count: windows and linear attention keep a fixed amount for each sequence.
    """
    if shape.compressed is not None:
        index = shape.compressed.index_dim + 4
        total = 0
        for ratio, count in Counter(shape.compressed.ratios).items():
            if ratio > 1:
                staged = -(-count // pipeline_parallel)
                total += staged * ((V4_STATE_BYTES + (index if ratio == 4 else 0)) * V4_BLOCK_TOKENS // ratio)
        return -(-total // V4_BLOCK_TOKENS)
    growing = shape.full_attention_layers or (shape.window_layers if shape.linear is None else 0)
    layers = -(-growing // pipeline_parallel)
    return layers * (layer_cache_bytes(shape, tensor_parallel, kv_dtype) + index_cache_bytes(shape))


def state_bytes_per_sequence(shape: ModelShape, tensor_parallel: int, speculative_tokens: int = 0) -> int:
    """Return the bytes that the linear-attention layers keep for a sequence of any length on one GPU."""
    if shape.linear is None:
        return 0
    return shape.linear.layers * state_bytes_per_layer(shape, tensor_parallel, speculative_tokens)


def state_bytes_per_layer(shape: ModelShape, tensor_parallel: int, speculative_tokens: int = 0) -> int:
    """Return the bytes of the convolution's last inputs, in the model's type, and the recurrent state, in its own."""
    linear = shape.linear
    if linear is None:
        return 0
    convolution = -(-linear.channels // tensor_parallel) * (linear.kernel - 1 + speculative_tokens) * shape.dtype_bytes
    heads = max(1, -(-linear.value_heads // tensor_parallel))
    state = heads * linear.value_dim * linear.key_dim * DTYPE_BYTES.get(linear.state_dtype, shape.dtype_bytes)
    return convolution + state
