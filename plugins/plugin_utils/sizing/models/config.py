# SPDX-License-Identifier: Apache-2.0
"""Read any Hugging Face config.json into a ModelShape.

Families differ in the names of keys and in what they omit; both are handled here and in layers.py. An unknown family
is read by its ordinary keys, with a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.class_defaults import with_class_defaults
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.fields import Fields, plain, shown
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.layers import (
    attention_layers,
    read_experts,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.matrices import build_matrices
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.quantization import read_quantization
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import (
    DTYPE_BYTES,
    CompressedAttention,
    Experts,
    LatentAttention,
    LinearAttention,
    ModelShape,
)

ERRORS = {
    "model.config": (
        "Memory, sharding and legality are computed from the model's config.json. One that is truncated, not JSON, or "
        "lacks the keys every transformer has would give meaningless numbers."
    ),
}

KNOWN = (
    "llama", "llama4", "llama4_text", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next",
    "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "deepseek_v2", "deepseek_v3", "deepseek_v32",
    "deepseek_v4", "gemma", "gemma2", "gemma3", "gemma3_text", "phi3", "gpt_oss", "glm4_moe", "kimi_k2",
    "cohere", "cohere2", "gpt2",
)  # fmt: skip
_UNKNOWN_LAYERS = ("hybrid_override_pattern", "mamba_num_heads", "mamba_d_state", "linear_attn_config")
"""Keys of layers that would be counted far too large if read as attention: no number is better than a wrong one."""
_TEXT = ("text_config", "llm_config", "language_config")
_TIED = ("gemma", "gemma2", "gemma3", "gemma3_text", "cohere", "cohere2", "gpt2")
"""Families whose embeddings are also the output matrix unless their config says otherwise."""
_UNGATED = ("gpt2", "gpt_neox", "gptj", "opt", "bloom", "falcon", "mpt", "phi", "starcoder2", "nemotron")
"""Families whose feed-forward layers have no gate."""
_ENCODERS = (
    "bert", "roberta", "xlm-roberta", "camembert", "distilbert", "albert", "electra", "deberta", "deberta-v2",
    "mpnet", "modernbert", "nomic_bert", "clip", "siglip", "vit",
)  # fmt: skip
"""Families that do not generate text: they have no cache, so sizing does not apply."""


def read_config(config: Mapping[str, Any] | object, name: str, errors: PlanErrors) -> ModelShape | None:
    """Return the model's shape; None with one error that names everything missing or invalid."""
    if not isinstance(config, Mapping):
        _refuse(name, [f"it is {shown(config)}, expected a mapping"], errors)
        return None
    notes: list[str] = []
    text, vision = _parts(config)
    text = with_class_defaults(text, text is not config, notes)
    fields = Fields(text)
    if fields.word("model_type") in _ENCODERS and text.get("is_decoder") is not True:
        errors.add(
            "model.config",
            f"the config of {plain(name, 120)}: model_type {fields.word('model_type')} is an encoder, which does not "
            "generate text",
            "a model that is served here generates text, token by token",
            "name a model that generates text",
        )
        return None
    shape = _read(fields, config, name, notes)
    problems = [*([f"it lacks {', '.join(fields.missing)}"] if fields.missing else []), *fields.wrong]
    quantized = text.get("quantization_config", config.get("quantization_config"))
    quantization = read_quantization(quantized, fields.word("expert_dtype"), problems, notes)
    problems += _impossible(shape)
    unknown = [key for key in _UNKNOWN_LAYERS if fields.has(key)]
    if unknown:
        problems.append(f"{', '.join(unknown)} describe state-space layers, whose memory is not modelled")
    if problems:
        _refuse(name, problems, errors)
        return None
    if quantization.linear is None and quantization.experts is not None and shape.experts is None:
        quantization = replace(quantization, linear=quantization.experts)
    shape = replace(shape, quantization=quantization, notes=tuple(notes))
    gated = fields.flag("attn_output_gate", shape.linear is not None)
    return replace(shape, matrices=build_matrices(shape, gated, vision))


def _parts(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """Return the text model's config and the vision tower's."""
    vision = config.get("vision_config")
    for key in _TEXT:
        nested = config.get(key)
        if isinstance(nested, Mapping) and "num_hidden_layers" not in config:
            shared = {one: config[one] for one in ("tie_word_embeddings", "dtype", "torch_dtype") if one in config}
            return {**shared, **nested}, vision if isinstance(vision, Mapping) else None
    return config, vision if isinstance(vision, Mapping) else None


def _read(fields: Fields, config: Mapping[str, Any], name: str, notes: list[str]) -> ModelShape:
    family = fields.word("model_type") or Fields(config).word("model_type")
    layers = fields.required("num_hidden_layers", "n_layer", "num_layers", most="layers")
    hidden = fields.required("hidden_size", "n_embd", "d_model")
    heads = fields.required("num_attention_heads", "n_head", most="heads")
    if family not in KNOWN:
        notes.append(f"model_type {plain(family) or '(none)'} is not known: read by the usual keys")
    latent = _latent(fields)
    compressed = _compressed(fields, layers) if fields.has("compress_ratios") else None
    head_dim = fields.number("head_dim")
    if head_dim is None:
        head_dim = latent.nope_dim + latent.rope_dim if latent else max(1, hidden // heads)
    kinds, window = (Counter(full=layers), None) if compressed else attention_layers(fields, family, layers, notes)
    experts, dense = read_experts(fields, family, layers)
    return ModelShape(
        name=plain(name, 120),
        model_type=plain(family),
        layers=layers,
        hidden=hidden,
        vocab=fields.required("vocab_size", most="vocab"),
        heads=heads,
        kv_heads=fields.number("num_key_value_heads", "num_kv_heads", most="heads") or heads,
        head_dim=head_dim,
        context=_context(fields),
        dtype=_dtype(fields, notes),
        intermediate=_intermediate(fields, family, experts, dense, 4 * hidden),
        dense_layers=dense,
        experts=experts,
        mtp_layers=fields.number("num_nextn_predict_layers", "mtp_num_hidden_layers", most="layers", least=0) or 0,
        tied=fields.flag("tie_word_embeddings", family in _TIED),
        gated_mlp=family not in _UNGATED,
        full_attention_layers=kinds["full"],
        window_layers=kinds["window"],
        window=window,
        chunked=fields.has("attention_chunk_size"),
        mla=None if compressed else latent,
        linear=_linear(fields, kinds["linear"]) if kinds["linear"] else None,
        compressed=compressed,
    )


def _intermediate(fields: Fields, family: str, experts: Experts | None, dense: int, fallback: int) -> int | None:
    if experts is not None and not dense:
        return None
    if family.startswith("llama4") and fields.has("intermediate_size_mlp"):
        return fields.number("intermediate_size_mlp")
    if not fields.has("intermediate_size", "ffn_hidden_size", "n_inner") and fields.has("n_embd"):
        return fallback  # GPT-2 leaves it out
    return fields.required("intermediate_size", "ffn_hidden_size", "n_inner")


def _context(fields: Fields) -> int | None:
    """Return the tokens the model was made for: max_position_embeddings, which already includes a rope scaling.

    The exception is YaRN added to a config without changing that number, as Qwen's model cards describe: there engines
    take original_max_position_embeddings times the factor.
    """
    positions = fields.number("max_position_embeddings", "n_positions", "seq_length", most="tokens")
    if fields.has("model_max_length") and fields.word("model_type").startswith("cohere"):
        return fields.number("model_max_length", most="tokens")  # Command R, as vLLM reads it
    scaling = fields.values.get("rope_scaling") or fields.values.get("rope_parameters")
    if positions is None or not isinstance(scaling, Mapping):
        return positions
    inner = Fields(scaling)
    factor = scaling.get("factor")
    original = inner.number("original_max_position_embeddings", most="tokens")
    if (inner.word("rope_type") or inner.word("type")) != "yarn" or original is None:
        return positions
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 1024:
        return positions
    return max(positions, int(original * factor))


def _dtype(fields: Fields, notes: list[str]) -> str:
    text = (fields.word("dtype") or fields.word("torch_dtype")).removeprefix("torch.")
    if text in DTYPE_BYTES:
        return text
    if text:
        notes.append(f"dtype {plain(text, 40)} is not known: counted as bfloat16")
    return "bfloat16"


def _latent(fields: Fields) -> LatentAttention | None:
    rank = fields.number("kv_lora_rank")
    if rank is None:
        return None
    return LatentAttention(
        kv_rank=rank,
        rope_dim=fields.required("qk_rope_head_dim"),
        nope_dim=fields.required("qk_nope_head_dim"),
        value_dim=fields.required("v_head_dim"),
        q_rank=fields.number("q_lora_rank"),
        index_heads=fields.number("index_n_heads", most="heads") or 0,
        index_dim=fields.number("index_head_dim") or 0,
    )


def _linear(fields: Fields, layers: int) -> LinearAttention:
    state = fields.word("mamba_ssm_dtype")
    return LinearAttention(
        layers=layers,
        key_heads=fields.required("linear_num_key_heads", most="heads"),
        value_heads=fields.required("linear_num_value_heads", most="heads"),
        key_dim=fields.required("linear_key_head_dim"),
        value_dim=fields.required("linear_value_head_dim"),
        kernel=fields.number("linear_conv_kernel_dim") or 4,
        state_dtype=state if state in DTYPE_BYTES else "",
    )


def _compressed(fields: Fields, layers: int) -> CompressedAttention:
    ratios = fields.numbers("compress_ratios", length=layers) or [1] * layers
    return CompressedAttention(
        ratios=tuple(max(1, one) for one in ratios[:layers]),
        window=fields.required("sliding_window", most="tokens"),
        rope_dim=fields.required("qk_rope_head_dim"),
        q_rank=fields.required("q_lora_rank"),
        o_rank=fields.required("o_lora_rank"),
        o_groups=fields.required("o_groups", most="heads"),
        index_heads=fields.number("index_n_heads", most="heads") or 0,
        index_dim=fields.number("index_head_dim") or 0,
        streams=fields.number("hc_mult", most="heads") or 1,
    )


def _impossible(shape: ModelShape) -> list[str]:
    """Return problems of numbers that are each within bounds but contradict each other."""
    problems = []
    if shape.heads % shape.kv_heads and shape.mla is None and shape.compressed is None:
        problems.append(f"num_attention_heads {shape.heads} is not a multiple of num_key_value_heads {shape.kv_heads}")
    if shape.kv_heads > shape.heads:
        problems.append(f"num_key_value_heads {shape.kv_heads} is more than num_attention_heads {shape.heads}")
    if shape.compressed and (shape.heads * shape.head_dim) % shape.compressed.o_groups:
        problems.append(f"o_groups {shape.compressed.o_groups} does not divide the {shape.heads} attention heads")
    return problems


def _refuse(name: str, problems: list[str], errors: PlanErrors) -> None:
    listed = problems[:12]
    more = f"; and {len(problems) - 12} more" if len(problems) > 12 else ""
    errors.add(
        "model.config",
        f"the config of {plain(name, 120)}: {'; '.join(listed)}{more}",
        "a model's config.json gives its dimensions as positive whole numbers under the usual keys",
        "use the config.json of the model's own repository, unchanged, or name a model of the catalog",
    )
