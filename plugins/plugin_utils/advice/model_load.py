# SPDX-License-Identifier: Apache-2.0
"""A model's dimensions as what the performance arithmetic asks for."""

from __future__ import annotations

import dataclasses

from ansible_collections.firstlight.cluster.plugins.plugin_utils.advice.performance import Experts, ModelLoad
from ansible_collections.firstlight.cluster.plugins.plugin_utils.models.memory import (
    active_weight_bytes,
    kv_bytes_per_token,
    parameters,
    state_bytes_per_sequence,
    total_weight_bytes,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.models.shape import ModelShape


def load_of(shape: ModelShape, kv_dtype: str) -> ModelLoad:
    """What the model costs to run, whole, before it is split over GPUs; see ModelShape.with_dtype for another type."""
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
    )


def _experts(shape: ModelShape) -> Experts | None:
    if shape.experts is None:
        return None
    routed = tuple(one for one in shape.matrices if one.expert and one.place == "layer")
    return Experts(
        count=shape.experts.count,
        per_token=shape.experts.per_token,
        bytes=total_weight_bytes(dataclasses.replace(shape, matrices=routed)),
    )
