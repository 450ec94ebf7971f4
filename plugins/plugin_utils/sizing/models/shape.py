# SPDX-License-Identifier: Apache-2.0
"""A model's dimensions, as far as memory, sharding and legality need them: pure data, read from a config.json."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

Split = Literal["column", "row", "kv", "vocab", "whole"]
"""How tensor parallelism cuts a matrix: by its outputs, by its inputs, by KV heads (which are replicated when there
are fewer of them than GPUs), by (padded) vocabulary, or not at all."""


@dataclass(frozen=True)
class WeightFormat:
    """How the elements of a quantised matrix are stored, scales included."""

    name: str
    bits: float
    """Bits of an element."""
    block: tuple[int, int] | None = None
    """Outputs x inputs that share a scale, for block formats."""
    group: int | None = None
    """Inputs that share a scale, for group formats."""
    scale_bytes: float = 4
    zero_bits: int = 0
    """Bits of a zero point of each group."""
    per_channel: bool = False
    padded: bool = False
    """Whether the engine pads shards to whole groups, so that any cut is legal."""

    def size(self, outputs: int, inputs: int) -> int:
        """Return the bytes of a matrix in this format."""
        total = outputs * inputs * self.bits / 8
        if self.block is not None:
            rows, columns = self.block
            total += -(-outputs // rows) * -(-inputs // columns) * self.scale_bytes
        elif self.group is not None:
            groups = outputs * -(-inputs // self.group)
            total += groups * (self.scale_bytes + self.zero_bits / 8)
        elif self.per_channel:
            total += outputs * self.scale_bytes
        else:
            total += self.scale_bytes
        return int(total)


@dataclass(frozen=True)
class Quantization:
    """The checkpoint's quantisation, from its quantization_config."""

    method: str | None = None
    block: tuple[int, int] | None = None
    group: int | None = None
    linear: WeightFormat | None = None
    """Format of the quantised linear layers; None if only experts are quantised, or nothing is."""
    experts: WeightFormat | None = None
    ignored: tuple[str, ...] = ()
    """Modules that stay in the model's own type."""
    kv_cache: str | None = None
    """Type of the cache that the checkpoint itself asks for."""

    @property
    def is_fp8(self) -> bool:
        """Whether weights are 8-bit floats, so that the GPU must support FP8 compute; 8-bit integers do not count."""
        return any(one is not None and one.name == "fp8" for one in (self.linear, self.experts))


@dataclass(frozen=True)
class Experts:
    """The experts of a mixture-of-experts model."""

    count: int
    per_token: int
    intermediate: int
    shared: int
    """Shared experts, which every token uses."""
    shared_intermediate: int
    """Width of all shared experts together."""
    moe_layers: int


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention: one compressed vector per token and layer is cached, whole on every GPU."""

    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    q_rank: int | None
    index_heads: int = 0
    index_dim: int = 0

    @property
    def cached(self) -> int:
        """Elements in the cache for a token and layer."""
        return self.kv_rank + self.rope_dim


@dataclass(frozen=True)
class LinearAttention:
    """Layers with a state of fixed size for each sequence instead of a growing cache (Gated DeltaNet)."""

    layers: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    state_dtype: str

    @property
    def channels(self) -> int:
        """Channels of the short convolution over queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


@dataclass(frozen=True)
class CompressedAttention:
    """DeepSeek V4: tokens are compressed by a ratio per layer, beside a short sliding window."""

    ratios: tuple[int, ...]
    """Compression ratio of each layer; a layer with ratio 1 has only the window."""
    window: int
    rope_dim: int
    q_rank: int
    o_rank: int
    o_groups: int
    index_heads: int
    index_dim: int
    streams: int
    """Parallel residual streams (hyper-connections)."""


@dataclass(frozen=True)
class Matrix:
    """One kind of weight matrix: how many there are, how big, and how it is cut."""

    name: str
    """The name in the checkpoint, which the quantisation's list of exceptions uses."""
    outputs: int
    inputs: int
    split: Split
    count: int = 1
    """How many of them the whole model has."""
    active: int | None = None
    """How many of them a token uses; None is all."""
    parts: tuple[int, ...] = ()
    """Outputs of each of the projections that are fused, each of which is cut on its own."""
    fmt: WeightFormat | None = None
    place: Literal["layer", "first", "last", "mtp", "vision"] = "layer"
    expert: bool = False
    derived: bool = False
    """Made by the engine while it loads; not in the checkpoint."""

    @property
    def elements(self) -> int:
        return self.outputs * self.inputs


@dataclass(frozen=True)
class ModelShape:
    """A model's dimensions."""

    name: str
    model_type: str
    layers: int
    hidden: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int | None
    """Tokens the text model was made for (max_position_embeddings)."""
    dtype: str = "bfloat16"
    intermediate: int | None = None
    """Width of the dense feed-forward layers; None if every layer has experts."""
    dense_layers: int = 0
    experts: Experts | None = None
    mtp_layers: int = 0
    tied: bool = False
    gated_mlp: bool = True
    """Whether feed-forward layers have a gate beside the up projection; older families have only the latter."""
    full_attention_layers: int = 0
    window_layers: int = 0
    """Layers that only attend to a window or chunk of the last tokens."""
    window: int | None = None
    chunked: bool = False
    """The window is a chunk (Llama 4), not sliding."""
    mla: LatentAttention | None = None
    linear: LinearAttention | None = None
    compressed: CompressedAttention | None = None
    quantization: Quantization = field(default_factory=Quantization)
    matrices: tuple[Matrix, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def dtype_bytes(self) -> int:
        return DTYPE_BYTES[self.dtype]

    @property
    def narrowed(self) -> bool:
        """Whether an engine with an automatic type loads the model in another type than its own."""
        return self.dtype == "float32"

    def with_dtype(self, dtype: str | None) -> ModelShape:
        """Return the model as an engine loads it with this type, which everything unquantised and the cache get.

        None is `auto`: the checkpoint's own type, but 16 bits for float32, as vLLM and SGLang do on GPUs (vLLM's
        config/model.py, _resolve_auto_dtype).
        """
        return replace(self, dtype=dtype or ("bfloat16" if self.narrowed else self.dtype))
