# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.model_load import load_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.config import read_config
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.files import LARGEST, parse_config_file
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.memory import (
    active_weight_bytes,
    parameters,
    total_weight_bytes,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[6]
MODELS = load_catalog([ROOT / "catalog"])["models"]
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 4,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}


def read(config: object) -> ModelShape:
    errors = PlanErrors()
    shape = read_config(config, "sample", errors)
    assert shape is not None, errors.found
    return shape


def refused(config: object) -> str:
    errors = PlanErrors()
    assert read_config(config, "sample", errors) is None
    (one,) = errors.found
    assert one["id"] == "model.config"
    assert all(one.values())
    return one["found"]


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("qwen3.5-397b-a17b-fp8", 397, 17),
        ("qwen3-235b-a22b-fp8", 235, 22),
        ("deepseek-v4-flash", 284, 13),
        ("deepseek-v4-pro", 1573, 49),
        ("deepseek-r1", 671, 37),
        ("llama-4-maverick-fp8", 401, 17),
        ("llama-3.3-70b", 70.6, 69.5),
        ("qwen2.5-72b", 72.7, 71.5),
        ("gpt-oss-120b", 117, 5.1),
    ],
)
def test_parameters_are_the_published_ones(name: str, total: float, active: float) -> None:
    found = parameters(read(MODELS[name]["config"]))
    assert found.total / 1e9 == pytest.approx(total, rel=0.01)
    assert found.active / 1e9 == pytest.approx(active, rel=0.06)


@pytest.mark.parametrize("name", [name for name, entry in MODELS.items() if entry.get("size_bytes")])
def test_the_size_of_the_files_follows_from_the_config(name: str) -> None:
    shape = read(MODELS[name]["config"])
    assert total_weight_bytes(shape) == pytest.approx(MODELS[name]["size_bytes"], rel=0.02)
    assert active_weight_bytes(shape) <= total_weight_bytes(shape)


def test_every_entry_of_the_catalog_has_what_the_plan_needs() -> None:
    names: list[str] = []
    for name, entry in MODELS.items():
        shape = read(entry["config"])
        assert entry["context"] == shape.context, name
        assert entry["quantization"] == shape.quantization.method, name
        assert entry["licence"], name
        assert not shape.notes, name
        names += [name, *(alias.lower() for alias in entry["aliases"])]
    assert len(names) == len(set(names)), "a name or alias means two models"


def test_a_head_dimension_is_read_or_derived() -> None:
    assert read(LLAMA).head_dim == 64
    assert read({**LLAMA, "head_dim": 128}).head_dim == 128
    assert read({key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}).kv_heads == 8


@pytest.mark.parametrize("key", ["text_config", "llm_config"])
def test_a_multimodal_config_holds_the_text_model_inside(key: str) -> None:
    vision = {"depth": 2, "hidden_size": 64, "intermediate_size": 128}
    shape = read({"model_type": "some_vl", key: LLAMA, "vision_config": vision, "tie_word_embeddings": True})
    assert (shape.layers, shape.tied) == (4, True)
    assert parameters(shape).vision > 2 * 64 * 64


@pytest.mark.parametrize(
    ("more", "full", "window"),
    [
        ({}, 4, 0),
        ({"model_type": "mistral", "sliding_window": 1024}, 0, 4),
        ({"model_type": "mistral", "sliding_window": None}, 4, 0),
        ({"model_type": "gemma2", "sliding_window": 1024}, 2, 2),
        ({"model_type": "gemma3_text", "sliding_window": 1024, "sliding_window_pattern": 4}, 1, 3),
        ({"model_type": "gpt_oss", "sliding_window": 128}, 2, 2),
        ({"model_type": "qwen2", "sliding_window": 1024, "use_sliding_window": False}, 4, 0),
        ({"model_type": "qwen2", "sliding_window": 1024, "use_sliding_window": True, "max_window_layers": 3}, 3, 1),
        ({"model_type": "llama4_text", "attention_chunk_size": 1024}, 1, 3),
        ({"model_type": "phi3", "sliding_window": 262144}, 4, 0),
        ({"sliding_window": 9, "layer_types": ["full_attention", "sliding_attention"] * 2}, 2, 2),
    ],
)
def test_families_say_in_their_own_way_which_layers_see_a_window(more: dict[str, Any], full: int, window: int) -> None:
    shape = read({**LLAMA, **more})
    assert (shape.full_attention_layers, shape.window_layers) == (full, window)


@pytest.mark.parametrize(
    ("more", "moe_layers", "dense"),
    [
        ({"num_experts": 8, "decoder_sparse_step": 2, "mlp_only_layers": [3]}, 1, 3),
        ({"n_routed_experts": 8, "first_k_dense_replace": 1, "moe_layer_freq": 1}, 3, 1),
        ({"model_type": "llama4_text", "num_local_experts": 8, "interleave_moe_layer_step": 2}, 2, 2),
        ({"model_type": "mixtral", "num_local_experts": 8}, 4, 0),
        ({"model_type": "gemma4_text", "num_experts": 8, "enable_moe_block": True}, 4, 4),
    ],
)
def test_families_say_in_their_own_way_which_layers_have_experts(
    more: dict[str, Any], moe_layers: int, dense: int
) -> None:
    shape = read({**LLAMA, "num_experts_per_tok": 2, "moe_intermediate_size": 256, **more})
    assert shape.experts is not None
    assert (shape.experts.moe_layers, shape.dense_layers) == (moe_layers, dense)


def compressed_tensors(**weights: object) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}


@pytest.mark.parametrize(
    ("quantization", "size"),
    [
        (None, 2 * 2**20),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 2**20 + 8 * 8 * 4),
        ({"quant_method": "fp8"}, 2**20 + 4),
        (compressed_tensors(num_bits=8, type="float", strategy="channel"), 2**20 + 1024 * 4),
        (compressed_tensors(num_bits=4, type="int", strategy="group", group_size=128), 2**19 + 1024 * 8 * 2),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 2**19 + 1024 * 8 * 2.5),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}, 2**19 + 1024 * 8 * 2),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 2**20 + 1024 * 2),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 2**19 + 1024 * 64),
        ({"quant_algo": "FP8"}, 2**20 + 4),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 2**19 + 1024 * 16),
        ({"quant_method": "unheard-of"}, 2 * 2**20),
    ],
)
def test_a_quantised_matrix_has_its_scales(quantization: dict[str, Any] | None, size: int) -> None:
    shape = read({**LLAMA, "hidden_size": 1024, "head_dim": 128, "quantization_config": quantization})
    (matrix,) = [one for one in shape.matrices if one.name == "self_attn.q_proj"]
    found = matrix.fmt.size(1024, 1024) if matrix.fmt else 1024 * 1024 * shape.dtype_bytes
    assert found == size


@pytest.mark.parametrize(
    "ignored",
    ["re:.*self_attn.*", "model.layers.*.self_attn", "self_attn.q_proj", "model.layers.2.self_attn.q_proj", "*q_proj"],
)
def test_exceptions_stay_in_the_models_own_type(ignored: str) -> None:
    shape = read({**LLAMA, "quantization_config": {"quant_method": "fp8", "ignore": [ignored]}})
    formats = {one.name: one.fmt for one in shape.matrices}
    assert formats["self_attn.q_proj"] is None
    assert formats["mlp.down_proj"] is not None
    assert formats["lm_head"] is None


def test_a_hostile_exception_cannot_hang_the_reader() -> None:
    patterns = ["re:(.*)*x", "re:(.+)+!", "re:[", "re:" + ".*" * 50 + "!", "*" * 150 + "!", "a" * 100_000] * 200
    started = time.process_time()
    read({**LLAMA, "quantization_config": {"quant_method": "fp8", "ignore": patterns}})
    assert time.process_time() - started < 10


def test_an_unknown_family_is_read_by_the_ordinary_keys_with_a_note() -> None:
    shape = read({**LLAMA, "model_type": "brand_new"})
    assert shape.layers == 4
    assert any("brand_new" in note for note in shape.notes)


def test_missing_keys_are_named_all_at_once() -> None:
    found = refused({"model_type": "llama"})
    for key in ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size", "intermediate_size"):
        assert key in found


def test_state_space_layers_are_refused_rather_than_counted_wrong() -> None:
    assert "mamba_num_heads" in refused({**LLAMA, "mamba_num_heads": 64})


@pytest.mark.parametrize("value", [-1, 0, True, "4", 4.5, 10**30, [4], {"a": 4}, math.nan, math.inf])
@pytest.mark.parametrize("key", ["num_hidden_layers", "hidden_size", "vocab_size", "num_key_value_heads"])
def test_wrong_numbers_are_refused_by_name(key: str, value: object) -> None:
    found = refused({**LLAMA, key: value})
    assert key in found
    assert len(found) < 400


@pytest.mark.parametrize(
    "config",
    [
        None,
        [],
        "text",
        {**LLAMA, "num_key_value_heads": 3},
        {**LLAMA, "quantization_config": [1]},
        {**LLAMA, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128]}},
        {**LLAMA, "quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 128]}},
        {**LLAMA, "quantization_config": {"quant_method": "compressed-tensors"}},
        {**LLAMA, "quantization_config": {"quant_method": "awq", "group_size": "many"}},
        {**LLAMA, "num_experts": 8, "num_experts_per_tok": 9},
        {**LLAMA, "layer_types": ["full_attention"]},
        {**LLAMA, "compress_ratios": [4, 4]},
        {**LLAMA, "tie_word_embeddings": "no"},
    ],
)
def test_contradictions_are_refused(config: object) -> None:
    refused(config)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(
    [
        *LLAMA,
        "head_dim",
        "num_experts",
        "n_routed_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
        "layer_types",
        "kv_lora_rank",
        "qk_rope_head_dim",
        "linear_num_value_heads",
        "linear_num_key_heads",
        "linear_key_head_dim",
        "linear_value_head_dim",
        "compress_ratios",
        "sliding_window",
        "attention_chunk_size",
        "quantization_config",
        "text_config",
        "vision_config",
        "mtp_num_hidden_layers",
        "tie_word_embeddings",
        "dtype",
        "mlp_only_layers",
        "moe_layers",
    ]
)


@given(st.dictionaries(KEYS, JSON | st.integers(1, 64), max_size=8) | JSON)
def test_no_json_makes_the_reader_raise(extra: object) -> None:
    for config in (extra, {**LLAMA, **extra} if isinstance(extra, dict) else extra):
        errors = PlanErrors()
        shape = read_config(config, "any", errors)
        assert (shape is None) == bool(errors.found)
        if shape is not None:
            assert total_weight_bytes(shape) > 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (json.dumps(LLAMA)[:50], "not valid JSON"),
        ("", "not valid JSON"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a": ' * 100_000, "nested too deeply"),
        ('{"a": NaN}', "NaN"),
        ('{"a": Infinity}', "Infinity"),
        ('{"a": ' + "9" * 10_000 + "}", "limit"),
        ("[1]", "not an object"),
        ("null", "not an object"),
    ],
)
def test_a_file_that_is_no_config_is_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    errors = PlanErrors()
    assert parse_config_file(path, errors) is None
    (one,) = errors.found
    assert one["id"] == "model.config"
    assert words in one["found"]


def test_a_file_is_not_read_when_it_is_huge_a_pipe_or_binary(tmp_path: Path) -> None:
    huge, pipe, binary = tmp_path / "huge.json", tmp_path / "pipe.json", tmp_path / "binary.json"
    with huge.open("wb") as stream:
        stream.truncate(1 << 30)
    os.mkfifo(pipe)
    binary.write_bytes(b"\xff\xfe\x00")
    started = time.process_time()
    for path in (huge, pipe, binary, tmp_path / "missing.json", Path("/dev/zero"), Path("a\0b")):
        errors = PlanErrors()
        assert parse_config_file(path, errors) is None
        assert [one["id"] for one in errors.found] == ["model.config"]
    assert time.process_time() - started < 10
    assert huge.stat().st_size > LARGEST


def test_a_directory_gives_its_config_and_the_quantisation_beside_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("\ufeff" + json.dumps(LLAMA))
    errors = PlanErrors()
    assert parse_config_file(tmp_path, errors) == LLAMA
    beside = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    config = parse_config_file(tmp_path, errors)
    assert config is not None
    assert read(config).quantization.method == "modelopt"
    (tmp_path / "hf_quant_config.json").write_text("{")
    assert parse_config_file(tmp_path, errors) == LLAMA
    assert not errors.found


def compressed(kind: str, bits: int) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": kind, "strategy": "channel"}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}


@pytest.mark.parametrize(
    ("quantised", "fp8"),
    [
        (None, False),
        ({"quant_method": "fp8"}, True),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, True),
        ({"quant_method": "fbgemm_fp8"}, True),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, True),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, False),
        ({"quant_method": "modelopt", "quant_algo": "INT8_SQ"}, False),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, False),
        (compressed("float", 8), True),
        (compressed("int", 8), False),
        (compressed("float", 4), False),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, False),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, False),
        ({"quant_method": "awq", "bits": 4}, False),
        ({"quant_method": "mxfp4"}, False),
        ({"quant_method": "unheard-of"}, False),
    ],
)
def test_only_floats_of_eight_bits_are_fp8(quantised: dict[str, Any] | None, fp8: bool) -> None:
    shape = read({**LLAMA, "quantization_config": quantised})
    assert shape.quantization.is_fp8 == fp8
    assert load_of(shape, "auto").precision == ("fp8" if fp8 else "bf16")


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize(
    ("scaling", "context"),
    [
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 512}, 4096),
        ({"type": "linear", "factor": 8}, 4096),
        ({"type": "yarn", "factor": 4, "original_max_position_embeddings": 1024}, 4096),
        ({"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 64}, 4096),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}, 16384),
        ({"type": "yarn", "factor": math.inf, "original_max_position_embeddings": 4096}, 4096),
        ({"type": "yarn", "factor": "4", "original_max_position_embeddings": 4096}, 4096),
        ({"type": "yarn", "factor": 4, "original_max_position_embeddings": []}, 4096),
        ("yarn", 4096),
    ],
)
def test_positions_count_a_rope_scaling_unless_yarn_was_added(key: str, scaling: object, context: int) -> None:
    assert read({**LLAMA, key: scaling}).context == context


def test_another_type_changes_what_is_not_quantised() -> None:
    plain, wide = read(LLAMA), read(LLAMA).with_dtype("float32")
    assert total_weight_bytes(wide) == 2 * total_weight_bytes(plain)
    assert load_of(plain, "auto", "float").kv_bytes_per_token == 2 * load_of(plain, "auto").kv_bytes_per_token
    assert load_of(wide, "auto") == load_of(plain, "auto"), "engines load float32 in 16 bits"
    assert plain.with_dtype(None) == plain
    quantised = read({**LLAMA, "quantization_config": {"quant_method": "fp8"}})
    sizes = [total_weight_bytes(one) for one in (quantised, quantised.with_dtype("float32"), wide)]
    assert sizes == sorted(set(sizes))


GEMMA3_4B: dict[str, Any] = {
    "model_type": "gemma3",
    "architectures": ["Gemma3ForConditionalGeneration"],
    "text_config": {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
    "torch_dtype": "bfloat16",
}


def test_what_a_class_has_as_a_default_is_assumed_with_a_note() -> None:
    found = read(GEMMA3_4B)
    assert (found.vocab, found.heads, found.kv_heads, found.head_dim) == (262_208, 8, 4, 256)
    assert (found.context, found.window, found.tied) == (131_072, 1024, True)
    assert parameters(found).total / 1e9 == pytest.approx(3.88, rel=0.01)
    (note,) = found.notes
    assert "vocab_size 262208" in note
    assert "sliding_window" not in note
    named = {**GEMMA3_4B, "text_config": {**GEMMA3_4B["text_config"], "num_attention_heads": 16, "vocab_size": 1000}}
    assert (read(named).heads, read(named).vocab) == (16, 1000)


def test_defaults_stand_in_for_nothing_that_a_file_should_say() -> None:
    assert "it lacks" in refused({"model_type": "llama", "vocab_size": 1000})
    assert "it lacks num_hidden_layers" in refused(
        {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}}
    )
    llava = read({"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32_064}})
    assert parameters(llava).total / 1e9 == pytest.approx(6.74, rel=0.01)


def test_families_of_their_own() -> None:
    """Command R ties its embeddings by default; GPT-2 has no gate and names everything otherwise."""
    command_r = {**LLAMA, "model_type": "cohere", "model_max_length": 131_072, "max_position_embeddings": 8192}
    assert read(command_r).tied
    assert read(command_r).context == 131_072
    gpt2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
    found = read(gpt2)
    assert found.notes == ()
    assert found.context == 1024
    assert parameters(found).total / 1e6 == pytest.approx(124, rel=0.01)
    assert "encoder, which does not generate text" in refused({**LLAMA, "model_type": "bert"})


def test_texts_of_a_config_cannot_reach_a_terminal() -> None:
    odd = "\ud800\x1b[31m\r\n" + "x" * 500
    hostile = {
        **LLAMA,
        "model_type": odd,
        "dtype": odd,
        "sliding_window": 10,
        "quantization_config": {"quant_method": odd},
    }
    found = read(hostile)
    assert len(found.notes) == 4
    for note in (*found.notes, found.model_type, refused({**hostile, "vocab_size": odd})):
        assert note.isprintable()
        assert len(note) < 300
        note.encode()


@pytest.mark.parametrize(
    ("name", "rule", "remedy"),
    [
        ("qwen3-Q4_K_M.gguf", "GGUF is not supported", "the repository that the GGUF was made from"),
        ("Qwen3-Q8_0.GGUF", "GGUF is not supported", "the repository that the GGUF was made from"),
        ("model-00001-of-00002.safetensors", "config.json of its repository", "name the config.json next to"),
    ],
)
def test_a_file_of_weights_is_told_from_a_broken_config(tmp_path: Path, name: str, rule: str, remedy: str) -> None:
    errors = PlanErrors()
    (tmp_path / name).write_bytes(b"GGUF\x03\x00\xff")
    assert parse_config_file(tmp_path / name, errors) is None
    (one,) = errors.found
    assert rule in one["rule"]
    assert remedy in one["remedy"]
    assert "again" not in one["remedy"]
