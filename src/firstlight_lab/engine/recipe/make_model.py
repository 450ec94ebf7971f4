# SPDX-License-Identifier: Apache-2.0
"""Write the lab's model into the directory given as the only argument; runs inside the image's own file system.

A Qwen3 of two layers with random weights from a fixed seed: small enough to load at once, and with four
key/value heads, so that it can be split over four nodes as the real models are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HIDDEN, HEADS, HEAD_DIM, LAYERS, INTERMEDIATE, VOCABULARY = 256, 4, 64, 2, 512, 1024
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXT = [
    "Four small machines stand on a desk and answer as one.",
    "The first light of a cluster is the first true answer it gives.",
    "Every node holds a quarter of the weights and none of them the whole.",
    "A link is up when a packet has crossed it, and a server is ready when it has spoken.",
    "You are a helpful assistant. Say hello in one sentence.",
    "What is the capital of France? The capital of France is Paris.",
]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_json(path: Path, value: object) -> None:
    """Write a value so that the same value always gives the same bytes."""
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def tokenizer(directory: Path) -> None:
    """Train a byte-level tokenizer on the sentences above and fill it up to the vocabulary's size."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=SPECIAL,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    if made.get_vocab_size() > VOCABULARY:
        raise SystemExit(f"the tokenizer has {made.get_vocab_size()} tokens, the model only {VOCABULARY}")
    made.save(str(directory / "tokenizer.json"))
    write_json(
        directory / "tokenizer_config.json",
        {
            "chat_template": CHAT_TEMPLATE,
            "eos_token": "<|im_end|>",
            "model_max_length": 512,
            "pad_token": "<|endoftext|>",
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    )


def weights(directory: Path) -> None:
    """Draw the weights in a fixed order from a fixed seed."""
    generator = torch.Generator().manual_seed(20260101)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float32) * 0.05

    tensors = {"model.embed_tokens.weight": draw(VOCABULARY, HIDDEN), "model.norm.weight": torch.ones(HIDDEN)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        for name in ("q_proj", "k_proj", "v_proj"):
            tensors[f"{prefix}self_attn.{name}.weight"] = draw(HEADS * HEAD_DIM, HIDDEN)
        tensors[prefix + "self_attn.o_proj.weight"] = draw(HIDDEN, HEADS * HEAD_DIM)
        for name in ("q_norm", "k_norm"):
            tensors[f"{prefix}self_attn.{name}.weight"] = torch.ones(HEAD_DIM)
        for name in ("gate_proj", "up_proj"):
            tensors[f"{prefix}mlp.{name}.weight"] = draw(INTERMEDIATE, HIDDEN)
        tensors[prefix + "mlp.down_proj.weight"] = draw(HIDDEN, INTERMEDIATE)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{name}.weight"] = torch.ones(HIDDEN)
    tensors["lm_head.weight"] = draw(VOCABULARY, HIDDEN)
    save_file(tensors, str(directory / "model.safetensors"), metadata={"format": "pt"})


def main() -> None:
    """Write configuration, tokenizer and weights."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    write_json(
        directory / "config.json",
        {
            "architectures": ["Qwen3ForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": None,
            "dtype": "float32",
            "eos_token_id": SPECIAL.index("<|im_end|>"),
            "head_dim": HEAD_DIM,
            "hidden_act": "silu",
            "hidden_size": HIDDEN,
            "initializer_range": 0.02,
            "intermediate_size": INTERMEDIATE,
            "max_position_embeddings": 512,
            "model_type": "qwen3",
            "num_attention_heads": HEADS,
            "num_hidden_layers": LAYERS,
            "num_key_value_heads": HEADS,
            "pad_token_id": SPECIAL.index("<|endoftext|>"),
            "rms_norm_eps": 1e-06,
            "rope_theta": 10000.0,
            "tie_word_embeddings": False,
            "use_cache": True,
            "vocab_size": VOCABULARY,
        },
    )
    write_json(
        directory / "generation_config.json",
        {
            "eos_token_id": SPECIAL.index("<|im_end|>"),
            "pad_token_id": SPECIAL.index("<|endoftext|>"),
        },
    )
    tokenizer(directory)
    weights(directory)


if __name__ == "__main__":
    main()
