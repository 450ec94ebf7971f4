# SPDX-License-Identifier: Apache-2.0
"""Convert a model's dimensions to the inputs of the performance arithmetic."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.performance import (
    Draft,
    Experts,
    ModelLoad,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.checks import DTYPES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.memory import (
    active_weight_bytes,
    kv_bytes_per_token,
    layer_cache_bytes,
    parameters,
    state_bytes_per_sequence,
    total_weight_bytes,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape


def load_of(shape: ModelShape, kv_dtype: str, dtype: str | None = None) -> ModelLoad:
    """Return the cost of running the whole model, before it is split over GPUs; `dtype` is the engine's --dtype."""
    shape = shape.with_dtype(DTYPES.get(dtype or "auto"))
    return ModelLoad(
        layers=shape.layers,
        hidden=shape.hidden,
        weight_bytes=total_weight_bytes(shape),
        active_weight_bytes=active_weight_bytes(shape),
        active_parameters=parameters(shape).active,
        kv_bytes_per_token=kv_bytes_per_token(shape, 1, kv_dtype),
        activation_bytes=shape.dtype_bytes,
        experts=_experts(shape),
        precision="fp8" if shape.quantization.is_fp8 else "bf16",
        kv_shards=1 if shape.mla or shape.compressed else shape.kv_heads,
        state_bytes_per_sequence=state_bytes_per_sequence(shape, 1),
        attention_layers=shape.full_attention_layers or None,
        attention=shape.heads * shape.head_dim,
        feed=_feed(shape),
        vocabulary=shape.vocab,
        **_windows(shape, kv_dtype),
        draft=_draft(shape),
    )


def _feed(shape: ModelShape) -> int:
    if shape.experts is None:
        return shape.intermediate or 0
    return shape.experts.per_token * shape.experts.intermediate + shape.experts.shared_intermediate


def _windows(shape: ModelShape, kv_dtype: str) -> dict[str, int]:
    """Return what sliding-window layers read, in models where other layers see the whole context."""
    if not (shape.window and shape.window_layers and shape.full_attention_layers) or shape.compressed is not None:
        return {}
    each = layer_cache_bytes(shape, 1, kv_dtype)
    return {"window": shape.window, "window_bytes_per_token": shape.window_layers * each}


def _draft(shape: ModelShape) -> Draft | None:
    """Return the cost of one multi-token-prediction layer, as far as a token uses it, with the output projection."""
    own = [one for one in shape.matrices if one.place == "mtp"]
    if not own:
        return None
    share = shape.experts.per_token / shape.experts.count if shape.experts else 1.0
    used = [replace(one, active=round(one.count / shape.mtp_layers * (share if one.expert else 1))) for one in own]
    one = replace(shape, matrices=tuple(used), tied=True)
    return Draft(active_weight_bytes(one), parameters(one).active)


def _experts(shape: ModelShape) -> Experts | None:
    if shape.experts is None:
        return None
    routed = tuple(one for one in shape.matrices if one.expert and one.place == "layer")
    return Experts(
        count=shape.experts.count,
        per_token=shape.experts.per_token,
        bytes=total_weight_bytes(replace(shape, matrices=routed)),
        parameters=parameters(replace(shape, matrices=routed, tied=False)).active,
    )
