# SPDX-License-Identifier: Apache-2.0
"""Derive the attention kind of each layer, and which layers have experts, from each family's own keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.fields import LIMITS, Fields, plain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import Experts

_KINDS = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "window",
    "chunked_attention": "window",
    "linear_attention": "linear",
}


def attention_layers(fields: Fields, family: str, layers: int, notes: list[str]) -> tuple[Counter[str], int | None]:
    """Return how many layers use full, windowed or linear attention, and the width of the window."""
    window = fields.number("sliding_window", "sliding_window_size", "attention_chunk_size", most="tokens")
    listed = fields.values.get("layer_types")
    if isinstance(listed, Sequence) and not isinstance(listed, str) and len(listed) == layers:
        kinds: Counter[str] = Counter()
        for one in listed:
            kind = _KINDS.get(one) if isinstance(one, str) else None
            if kind is None:
                kind = "full"
                note = "layer_types names layers that are not known: they are counted as full attention"
                if note not in notes:
                    notes.append(note)
            kinds[kind] += 1
        return _windowed(kinds, window)
    if listed is not None:
        fields.wrong.append(f"layer_types is not a list of {layers} items, one for each layer")
    if fields.has("linear_num_value_heads"):
        every = fields.number("full_attention_interval", most="layers") or 4
        full = layers // every
        return Counter(full=full, linear=layers - full), None
    return _windowed(_windows(fields, family, layers, window, notes), window)


def _windowed(kinds: Counter[str], window: int | None) -> tuple[Counter[str], int | None]:
    """Count windowed layers as full if the width is unknown: the window is then as wide as the context."""
    if window is None and kinds["window"]:
        kinds["full"] += kinds.pop("window")
    return kinds, window if kinds["window"] else None


def _windows(fields: Fields, family: str, layers: int, window: int | None, notes: list[str]) -> Counter[str]:
    """Return the layer counts of families that use a rule rather than a list."""
    context = fields.number("max_position_embeddings", most="tokens") or LIMITS["tokens"]
    if window is None or window >= context:
        return Counter(full=layers)
    every = 0  # one in this many layers has full attention; 0 for none
    if family.startswith("llama4"):
        every = fields.number("no_rope_layer_interval", most="layers") or 4
    elif family.startswith("gemma2") or family == "gpt_oss":
        every = 2
    elif family.startswith("gemma3"):
        every = fields.number("sliding_window_pattern", "_sliding_window_pattern", most="layers") or 6
    elif family == "cohere2":
        every = fields.number("sliding_window_pattern", "_sliding_window_pattern", most="layers") or 4
    elif family.startswith(("qwen2", "qwen3")):
        if not fields.flag("use_sliding_window", False):
            return Counter(full=layers)
        first = fields.number("max_window_layers", most="layers", least=0) or 0
        return Counter(full=min(first, layers), window=max(0, layers - first))
    elif family not in ("mistral", "mixtral", "phi3", "starcoder2"):
        notes.append(
            f"sliding_window of a {plain(family) or 'nameless'} model is ignored: all layers are counted as full"
        )
        return Counter(full=layers)
    full = layers // every if every else 0
    return Counter(full=full, window=layers - full)


def read_experts(fields: Fields, family: str, layers: int) -> tuple[Experts | None, int]:
    """Return the experts, and how many layers are dense."""
    if not fields.has("num_experts", "num_local_experts", "n_routed_experts"):
        return None, layers
    if fields.values.get("num_experts", fields.values.get("num_local_experts")) in (0, 1) and not fields.has(
        "n_routed_experts"
    ):
        return None, layers
    count = fields.required("num_experts", "num_local_experts", "n_routed_experts", most="experts")
    per_token = fields.required(
        "num_experts_per_tok", "experts_per_token", "top_k_experts", "num_experts_per_token", most="experts"
    )
    if per_token > count:
        fields.wrong.append(f"num_experts_per_tok is {per_token}, more than the {count} experts")
        per_token = count
    width = fields.required("moe_intermediate_size", "expert_intermediate_size", "intermediate_size")
    moe = _moe_layers(fields, family, layers)
    shared, shared_width = _shared(fields, family, width)
    dense = layers if fields.flag("enable_moe_block", False) else layers - moe
    return Experts(count, per_token, width, shared, shared_width, moe), dense


def _shared(fields: Fields, family: str, width: int) -> tuple[int, int]:
    if family.startswith("llama4"):
        return 1, width
    own = fields.number("shared_expert_intermediate_size", least=0)
    if own is not None:
        return (1, own) if own else (0, 0)
    number = fields.number("n_shared_experts", "num_shared_experts", most="experts", least=0) or 0
    return number, number * width


def _moe_layers(fields: Fields, family: str, layers: int) -> int:
    """Return how many layers have experts."""
    listed = fields.numbers("moe_layers", most="layers")
    if listed:
        return len({one for one in listed if one < layers}) or layers
    if family.startswith("llama4"):
        step = fields.number("interleave_moe_layer_step", most="layers") or 1
        return layers // step
    if family == "deepseek_v4":
        return layers
    first = fields.number("first_k_dense_replace", most="layers", least=0) or 0
    every = fields.values.get("moe_layer_freq")
    step = every if isinstance(every, int) and not isinstance(every, bool) and 1 <= every <= LIMITS["layers"] else 1
    step = fields.number("decoder_sparse_step", most="layers") or step
    dense = set(fields.numbers("mlp_only_layers", most="layers") or ())
    offset = 1 if fields.has("decoder_sparse_step") else 0
    chosen = sum(index >= first and (index + offset) % step == 0 and index not in dense for index in range(layers))
    return chosen or layers
