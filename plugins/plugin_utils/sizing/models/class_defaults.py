# SPDX-License-Identifier: Apache-2.0
"""Defaults of a model's class that config.json files leave out.

Only for families whose published files really omit these keys. The figures are the defaults of the classes of
Transformers in src/transformers/models, gemma3/configuration_gemma3.py, llama/configuration_llama.py and
mistral/configuration_mistral.py (2026-11-15).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_GEMMA3 = {
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
    "sliding_window": 4096,
}
"""Gemma 3 4B gives only its width and depth; 12B and 27B also the heads."""

DEFAULTS: Mapping[str, Mapping[str, int]] = {"gemma3_text": _GEMMA3}

NESTED: Mapping[str, Mapping[str, int]] = {
    "gemma3_text": _GEMMA3,
    "gemma3": _GEMMA3,
    "llama": {
        "vocab_size": 32_000,
        "hidden_size": 4096,
        "intermediate_size": 11_008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
    },
    "mistral": {
        "vocab_size": 32_000,
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131_072,
    },
}
"""For a text model inside another (LLaVA, Pixtral); a standalone Llama that lacks its width is a broken file."""


def with_class_defaults(text: Mapping[str, Any], nested: bool, notes: list[str]) -> Mapping[str, Any]:
    """Return the config with its class defaults, and add a note that names them. Present keys, even null, are kept."""
    family = text.get("model_type")
    table = (NESTED if nested else DEFAULTS).get(family, {}) if isinstance(family, str) else {}
    assumed = {key: value for key, value in table.items() if key not in text}
    if not assumed:
        return text
    listed = ", ".join(f"{key} {value}" for key, value in assumed.items())
    notes.append(f"the config omits defaults of its class {family}, assumed here: {listed}")
    return {**assumed, **text}
