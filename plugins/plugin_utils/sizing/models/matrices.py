# SPDX-License-Identifier: Apache-2.0
"""List the weight matrices of a model from its dimensions: sizes, sharding and legality all follow from this list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.fields import Fields
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.online import Online
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.quantization import FLOAT32, Ignored
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import (
    Matrix,
    ModelShape,
    Quantization,
)

_PREFIXES = ("model.layers.", "model.language_model.layers.", "language_model.model.layers.")
_PLAIN = {"norms", "conv1d", "in_proj_ba", "gate", "weights_proj", "compressor", "hyper_connection", "absorbed"}
"""Kinds that no method quantises: too small, or read in the model's own type by the engine."""


def build_matrices(shape: ModelShape, gated: bool, vision: Mapping[str, Any] | None) -> tuple[Matrix, ...]:
    """Return every matrix of the model with its format. `gated`: attention has an output gate beside each query."""
    matrices = [
        Matrix("embed_tokens", shape.vocab, shape.hidden, "vocab", active=0, place="first"),
        *([] if shape.tied else [Matrix("lm_head", shape.vocab, shape.hidden, "vocab", place="last")]),
        *_attention(shape, gated),
        *_feed_forward(shape),
        Matrix("norms", 2 * shape.hidden, 1, "whole", count=shape.layers),
        *_next_token(shape, gated),
        *_vision(vision),
    ]
    ignored = Ignored(shape.quantization.ignored)
    return tuple(_formatted(shape, one, ignored) for one in matrices if one.count and one.elements)


def with_quantization(shape: ModelShape, online: Online) -> ModelShape:
    """Return the model as an engine quantises it while loading."""
    quantization = Quantization(method=online.method, linear=online.linear, experts=online.experts)
    quantized = replace(shape, quantization=quantization)
    return replace(quantized, matrices=tuple(_formatted(quantized, one, Ignored(())) for one in shape.matrices))


def _formatted(shape: ModelShape, matrix: Matrix, ignored: Ignored) -> Matrix:
    """Return the matrix with the format it is stored in; unchanged where it keeps the model's own type."""
    kind = matrix.name.rsplit(".", 1)[-1]
    if kind == "hyper_connection":
        return replace(matrix, fmt=FLOAT32)
    if kind in _PLAIN or matrix.place in ("first", "last", "vision") or matrix.derived:
        return matrix
    quantization = shape.quantization
    fmt = quantization.experts if matrix.expert else quantization.linear
    if fmt is None:
        return matrix
    layer = shape.layers if matrix.place == "mtp" else _typical_layer(shape, matrix)
    name = matrix.name.replace("experts.", "experts.0.")
    names = [f"{prefix}{layer}.{name}" for prefix in _PREFIXES]
    if matrix.place == "mtp":
        names.append(f"mtp.layers.0.{name}")
    return matrix if any(one in ignored for one in names) else replace(matrix, fmt=fmt)


def _typical_layer(shape: ModelShape, matrix: Matrix) -> int:
    """Return a layer in the middle that has this matrix: the first and last ones are sometimes left unquantised."""
    middle = shape.layers // 2
    if shape.linear is not None:
        every = max(2, shape.layers // max(1, shape.full_attention_layers))
        middle -= middle % every
        return middle + every - 1 if "self_attn" in matrix.name else middle
    return middle


def _attention(shape: ModelShape, gated: bool) -> Iterator[Matrix]:
    if shape.compressed is not None:
        yield from _compressed(shape)
    elif shape.mla is not None:
        yield from _latent(shape, shape.full_attention_layers + shape.window_layers)
    else:
        yield from _grouped_query(shape, shape.full_attention_layers + shape.window_layers, gated)
    if shape.linear is not None:
        yield from _delta_net(shape)


def _grouped_query(shape: ModelShape, layers: int, gated: bool) -> Iterator[Matrix]:
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield Matrix("self_attn.q_proj", queries * (2 if gated else 1), shape.hidden, "column", count=layers)
    yield Matrix("self_attn.k_proj", keys, shape.hidden, "kv", count=layers)
    yield Matrix("self_attn.v_proj", keys, shape.hidden, "kv", count=layers)
    yield Matrix("self_attn.o_proj", shape.hidden, queries, "row", count=layers)


def _latent(shape: ModelShape, layers: int) -> Iterator[Matrix]:
    mla = shape.mla
    if mla is None:
        return
    query = shape.heads * (mla.nope_dim + mla.rope_dim)
    if mla.q_rank:
        yield Matrix("self_attn.q_a_proj", mla.q_rank, shape.hidden, "whole", count=layers)
        yield Matrix("self_attn.q_b_proj", query, mla.q_rank, "column", count=layers)
    else:
        yield Matrix("self_attn.q_proj", query, shape.hidden, "column", count=layers)
    expand = shape.heads * (mla.nope_dim + mla.value_dim)
    yield Matrix("self_attn.kv_a_proj_with_mqa", mla.cached, shape.hidden, "whole", count=layers)
    yield Matrix("self_attn.kv_b_proj", expand, mla.kv_rank, "column", count=layers)
    yield Matrix("self_attn.o_proj", shape.hidden, shape.heads * mla.value_dim, "row", count=layers)
    # The engine keeps a second, unquantised copy of the expansion, to attend in the latent space while decoding.
    yield Matrix("self_attn.absorbed", expand, mla.kv_rank, "column", count=layers, active=0, derived=True)
    if mla.index_heads:
        width = mla.index_heads * mla.index_dim
        yield Matrix("self_attn.indexer.wq_b", width, mla.q_rank or shape.hidden, "whole", count=layers)
        yield Matrix("self_attn.indexer.wk", mla.index_dim, shape.hidden, "whole", count=layers)
        yield Matrix("self_attn.indexer.weights_proj", mla.index_heads, shape.hidden, "whole", count=layers)


def _delta_net(shape: ModelShape) -> Iterator[Matrix]:
    linear = shape.linear
    if linear is None:
        return
    keys, values = linear.key_heads * linear.key_dim, linear.value_heads * linear.value_dim
    parts, count = (keys, keys, values, values), linear.layers
    yield Matrix("linear_attn.in_proj_qkvz", sum(parts), shape.hidden, "column", count=count, parts=parts)
    yield Matrix("linear_attn.in_proj_ba", 2 * linear.value_heads, shape.hidden, "column", count=count)
    yield Matrix("linear_attn.conv1d", linear.channels, linear.kernel, "column", count=count)
    yield Matrix("linear_attn.out_proj", shape.hidden, values, "row", count=count)


def _compressed(shape: ModelShape) -> Iterator[Matrix]:
    """Yield the matrices of DeepSeek V4's attention, with its indexer, compressors and hyper-connections."""
    one = shape.compressed
    if one is None:
        return
    layers, width = shape.layers, shape.heads * shape.head_dim
    indexed = sum(ratio == 4 for ratio in one.ratios)
    coarse = sum(ratio > 4 for ratio in one.ratios)
    yield Matrix("attn.wq_a", one.q_rank, shape.hidden, "whole", count=layers)
    yield Matrix("attn.wkv", shape.head_dim, shape.hidden, "whole", count=layers)
    yield Matrix("attn.wq_b", width, one.q_rank, "column", count=layers)
    yield Matrix("attn.wo_a", one.o_groups * one.o_rank, width // one.o_groups, "column", count=layers)
    yield Matrix("attn.wo_b", shape.hidden, one.o_groups * one.o_rank, "row", count=layers)
    yield Matrix("attn.indexer.wq_b", one.index_heads * one.index_dim, one.q_rank, "whole", count=indexed)
    yield Matrix("attn.indexer.weights_proj", one.index_heads, shape.hidden, "whole", count=indexed)
    # Layers of ratio 4 overlap two windows, hence twice the width; each makes a value and a score.
    yield Matrix("attn.indexer.compressor", 4 * one.index_dim, shape.hidden, "whole", count=indexed)
    yield Matrix("attn.compressor", 4 * shape.head_dim, shape.hidden, "whole", count=indexed)
    yield Matrix("attn.compressor", 2 * shape.head_dim, shape.hidden, "whole", count=coarse)
    streams = one.streams
    yield Matrix("hyper_connection", (2 + streams) * streams, streams * shape.hidden, "whole", count=2 * layers)


def _feed_forward(shape: ModelShape, layers: int | None = None) -> Iterator[Matrix]:
    if shape.intermediate and shape.dense_layers and layers is None:
        yield from _dense(shape, shape.intermediate, shape.dense_layers)
    experts = shape.experts
    if experts is None:
        return
    count = experts.moe_layers if layers is None else layers
    yield Matrix("mlp.gate", experts.count, shape.hidden, "whole", count=count)
    for one in _gated("mlp.experts.", experts.intermediate, shape.hidden, count * experts.count):
        yield replace(one, expert=True, active=one.count // experts.count * experts.per_token)
    if experts.shared_intermediate:
        yield from _gated("mlp.shared_expert.", experts.shared_intermediate, shape.hidden, count)


def _dense(shape: ModelShape, width: int, count: int) -> Iterator[Matrix]:
    if shape.gated_mlp:
        yield from _gated("mlp.", width, shape.hidden, count)
        return
    yield Matrix("mlp.up_proj", width, shape.hidden, "column", count=count)
    yield Matrix("mlp.down_proj", shape.hidden, width, "row", count=count)


def _gated(prefix: str, width: int, hidden: int, count: int) -> Iterator[Matrix]:
    yield Matrix(f"{prefix}gate_up_proj", 2 * width, hidden, "column", count=count, parts=(width, width))
    yield Matrix(f"{prefix}down_proj", hidden, width, "row", count=count)


def _next_token(shape: ModelShape, gated: bool) -> Iterator[Matrix]:
    """Yield the multi-token-prediction layers: a whole layer each, and a projection of two inputs to one."""
    count = shape.mtp_layers
    if not count:
        return
    projection = Matrix("eh_proj", shape.hidden, 2 * shape.hidden, "whole", count=count)
    if shape.compressed is not None:
        bare = replace(shape, compressed=replace(shape.compressed, ratios=(1,) * count), layers=count)
        attention = list(_compressed(bare))
    elif shape.mla is not None:
        attention = [one for one in _latent(shape, count) if not one.derived]
    else:
        attention = list(_grouped_query(shape, count, gated))
    dense = [] if shape.experts else list(_dense(shape, shape.intermediate or shape.hidden, count))
    for one in [projection, *attention, *_feed_forward(shape, count), *dense]:
        if one.count:
            yield replace(one, place="mtp", active=0)


def _vision(vision: Mapping[str, Any] | None) -> Iterator[Matrix]:
    """Yield the vision tower, as far as its config goes: attention, feed-forward, projection to the text model."""
    if vision is None:
        return
    fields = Fields(vision)
    width = fields.number("hidden_size", "embed_dim")
    depth = fields.number("depth", "num_hidden_layers", "num_layers", most="layers")
    if not width or not depth:
        return
    inner = fields.number("intermediate_size", "mlp_dim") or 4 * width
    yield Matrix("vision.attention", 4 * width, width, "column", count=depth, active=0, place="vision")
    yield Matrix("vision.mlp", 2 * inner, width, "column", count=depth, active=0, place="vision")
    merged = width * (fields.number("spatial_merge_size") or 1) ** 2
    out = fields.number("out_hidden_size", "projector_output_dim", "vision_output_dim") or width
    if merged <= 1 << 20:
        yield Matrix("vision.merger", merged + out, merged, "column", active=0, place="vision")
