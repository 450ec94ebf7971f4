# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanError, PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.legality import check_parallel
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.parallel_sizes import legal_tensor_parallel
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.config import read_config
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[6]
MODELS = load_catalog([ROOT / "catalog"])["models"]


def shape_of(config: dict[str, Any], name: str = "sample") -> ModelShape:
    errors = PlanErrors()
    shape = read_config(config, name, errors)
    assert shape is not None, errors.found
    return shape


SHAPES = {name: shape_of(entry["config"], name) for name, entry in MODELS.items()}


def check(model: str | ModelShape, **settings: Any) -> list[PlanError]:
    errors = PlanErrors()
    shape = SHAPES[model] if isinstance(model, str) else model
    wanted = {"tensor_parallel": 1, "gpus": 8, "gpus_per_host": 8, "hosts": 1, **settings}
    check_parallel(shape, errors=errors, **wanted)
    assert all(all(one.values()) for one in errors.found)
    return errors.found


def ids(model: str | ModelShape, **settings: Any) -> list[str]:
    return [one["id"] for one in check(model, **settings)]


@pytest.mark.parametrize(
    ("model", "legal"),
    [
        ("qwen2.5-72b-block-fp8", [1]),
        ("qwen2.5-72b-fp8-dynamic", [1, 2, 4, 8]),
        ("qwen2.5-72b", [1, 2, 4, 8]),
        ("qwen3-235b-a22b-fp8", [1, 2, 4]),
        ("qwen3.5-397b-a17b-fp8", [1, 2, 4, 8]),
        ("deepseek-v4-flash", [1, 2, 4, 8]),
        ("deepseek-v4-pro", [1, 2, 4, 8]),
        ("deepseek-r1", [1, 2, 4, 8]),
        ("llama-4-maverick-fp8", [1, 2, 4, 8]),
        ("llama-4-maverick-awq", [1, 2, 4, 8]),
        ("llama-3.3-70b", [1, 2, 4, 8]),
        ("gpt-oss-120b", [1, 2, 4, 8]),
    ],
)
def test_the_legal_sizes_of_known_models(model: str, legal: list[int]) -> None:
    assert legal_tensor_parallel(SHAPES[model], 8) == legal
    for ranks in range(1, 9):
        assert (ids(model, tensor_parallel=ranks) == []) == (ranks in legal)


def test_sixteen_gpus_cut_the_experts_of_qwen35_inside_a_block() -> None:
    (one,) = check("qwen3.5-397b-a17b-fp8", tensor_parallel=16, gpus=16, hosts=2)
    assert one["id"] == "tp.blocks"
    assert "1024 / 16 = 64" in one["found"]
    assert "1, 2, 4, 8" in one["remedy"]


def test_a_broken_block_is_shown_with_its_arithmetic() -> None:
    (one,) = check("qwen2.5-72b-block-fp8", tensor_parallel=8)
    assert "29568 / 8 = 3696, which is 28.875 x 128" in one["found"]


def test_heads_that_do_not_divide_are_refused() -> None:
    assert ids("llama-3.3-70b", tensor_parallel=3) == ["tp.heads"]
    assert ids("llama-4-maverick-fp8", tensor_parallel=5) == ["tp.kv-heads"]
    assert ids("deepseek-v4-flash", tensor_parallel=16, gpus=16, hosts=2)[0] == "tp.kv-heads"


PLAIN: dict[str, Any] = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 5120}


@pytest.mark.parametrize(
    ("name", "config", "illegal", "word"),
    [
        ("phi-4", {"heads": (40, 10), "intermediate_size": 17920, "vocab_size": 100_352}, 5, "lm_head 100352 / 5"),
        ("mistral-large", {"heads": (96, 8), "intermediate_size": 28_672, "vocab_size": 32_768}, 24, "28672 / 24"),
        ("qwen2-7b", {"heads": (28, 4), "intermediate_size": 18_944, "vocab_size": 152_064}, 28, "18944 / 28"),
        ("qwen2.5-0.5b", {"heads": (14, 2), "intermediate_size": 4864, "vocab_size": 151_936}, 14, "4864 / 14"),
        (
            "llama-4-scout",
            {
                "model_type": "llama4_text",
                "heads": (40, 8),
                "intermediate_size": 8192,
                "num_local_experts": 16,
                "num_experts_per_tok": 1,
                "vocab_size": 202_048,
            },
            40,
            "mlp.experts.gate_up_proj 8192 / 40",
        ),
    ],
)
def test_sizes_that_do_not_divide_are_refused(name: str, config: dict[str, Any], illegal: int, word: str) -> None:
    heads, kv_heads = config.pop("heads")
    shape = shape_of({**PLAIN, "num_attention_heads": heads, "num_key_value_heads": kv_heads, **config}, name)
    assert illegal not in legal_tensor_parallel(shape, 64)
    (one,) = check(shape, tensor_parallel=illegal, gpus=64, gpus_per_host=64)
    assert one["id"] == "tp.sizes"
    assert word in one["found"]


def test_the_vocabulary_is_padded_before_it_is_cut() -> None:
    """GPT-2 has 50257 words, 50304 with padding, which 3 divides; whole experts need no equal parts."""
    config = {**PLAIN, "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 50_257}
    assert legal_tensor_parallel(shape_of(config), 12) == [1, 2, 3, 4, 6, 12]
    experts = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 1000, "model_type": "qwen3_moe"}
    odd = shape_of({**config, **experts})
    assert ids(odd, tensor_parallel=3, gpus=3) == ["tp.sizes"]
    assert ids(odd, tensor_parallel=3, gpus=3, expert_parallel=True) == []


@pytest.mark.parametrize(
    ("gpus", "each", "hosts", "found", "remedy"),
    [
        (4, 8, 1, "8 processes on 4 GPUs", "set tensor_parallel to one of 1, 2, 4, or use 8 GPUs"),
        (1, 1, 1, "8 processes on 1 host of 1 GPU", "set tensor_parallel to 1, or list 8 hosts"),
        (4, 4, 1, "8 processes on 1 host of 4 GPUs", "set tensor_parallel to one of 1, 2, 4, or list 2 hosts"),
        (4, 2, 2, "8 processes on 2 hosts of 2 GPUs, which have 4", "to one of 1, 2, 4, or list 4 hosts"),
    ],
)
def test_too_few_gpus_are_counted_right(gpus: int, each: int, hosts: int, found: str, remedy: str) -> None:
    (one,) = check("llama-3.3-70b", tensor_parallel=8, gpus=gpus, gpus_per_host=each, hosts=hosts)
    assert one["found"].endswith(found)
    assert one["remedy"].endswith(remedy)


def test_more_ranks_than_gpus_are_refused_with_the_arithmetic() -> None:
    (one,) = check("qwen3.5-397b-a17b-fp8", tensor_parallel=8, gpus=4, gpus_per_host=1, hosts=4)
    assert one["id"] == "world.size"
    assert "8 x pipeline parallel 1 = 8 processes on 4 hosts" in one["found"]
    assert "set tensor_parallel to one of 1, 2, 4, or list 8 hosts" in one["remedy"]
    assert ids("llama-3.3-70b", tensor_parallel=4, pipeline_parallel=4, gpus=8) == ["world.size"]


def test_a_group_takes_whole_hosts() -> None:
    assert ids("llama-3.3-70b", tensor_parallel=4, gpus=6, gpus_per_host=3, hosts=2) == ["world.uneven"]
    assert ids("llama-3.3-70b", tensor_parallel=8, gpus=8, gpus_per_host=4, hosts=2) == []


def test_a_stage_has_a_layer() -> None:
    assert ids("llama-3.3-70b", pipeline_parallel=81, gpus=1024, hosts=128) == ["pp.layers"]


@pytest.mark.parametrize("value", [0, -1, True, "4", 2.0, None, 10**30, []])
@pytest.mark.parametrize("key", ["tensor_parallel", "pipeline_parallel", "gpus"])
def test_sizes_that_are_none_are_refused(key: str, value: object) -> None:
    assert ids("llama-3.3-70b", **{key: value}) == ["tp.size"]


def test_expert_parallel_needs_experts_that_divide() -> None:
    assert ids("llama-3.3-70b", tensor_parallel=8, expert_parallel=True) == ["tp.experts"]
    assert ids("qwen3-235b-a22b-fp8", tensor_parallel=8, expert_parallel=True) == [], "experts stay whole"
    odd = shape_of({**MODELS["qwen3-235b-a22b-fp8"]["config"], "num_experts": 100, "quantization_config": None})
    assert ids(odd, tensor_parallel=8, expert_parallel=True) == ["tp.experts"]


@pytest.mark.parametrize(
    ("model", "speculative", "expected"),
    [
        ("qwen3.5-397b-a17b-fp8", {"method": "mtp", "num_speculative_tokens": 2}, []),
        ("qwen3.5-397b-a17b-fp8", {"method": "mtp", "tokens": 1}, []),
        ("qwen3.5-397b-a17b-fp8", {"method": "qwen3_next_mtp"}, []),
        ("qwen3.5-397b-a17b-fp8", {"method": "mtp", "num_speculative_tokens": 0}, ["speculative.mtp"]),
        ("qwen3.5-397b-a17b-fp8", {"method": "mtp", "num_speculative_tokens": 10**30}, ["speculative.mtp"]),
        ("qwen3.5-397b-a17b-fp8", {"method": "mtp", "num_speculative_tokens": True}, ["speculative.mtp"]),
        ("llama-3.3-70b", {"method": "mtp", "num_speculative_tokens": 1}, ["speculative.mtp"]),
        ("llama-3.3-70b", {"method": "ngram", "num_speculative_tokens": 4}, []),
        ("llama-3.3-70b", None, []),
    ],
)
def test_further_token_layers_must_be_there(
    model: str, speculative: dict[str, Any] | None, expected: list[str]
) -> None:
    assert ids(model, tensor_parallel=4, speculative=speculative) == expected


def test_groups_of_integers_stay_whole() -> None:
    config = {**MODELS["qwen2.5-72b"]["config"], "quantization_config": {"quant_method": "awq", "group_size": 128}}
    shape = shape_of(config)
    assert legal_tensor_parallel(shape, 8) == [1]
    assert ids(shape, tensor_parallel=2) == ["tp.groups"]


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    kv_heads = draw(st.sampled_from([1, 2, 4, 8]))
    config: dict[str, Any] = {
        "model_type": "qwen3",
        "num_hidden_layers": draw(st.integers(1, 8)),
        "hidden_size": 128 * draw(st.integers(1, 16)),
        "intermediate_size": draw(st.integers(1, 64)) * draw(st.sampled_from([1, 32, 64, 128])),
        "num_key_value_heads": kv_heads,
        "num_attention_heads": kv_heads * draw(st.integers(1, 12)),
        "head_dim": draw(st.sampled_from([32, 64, 128, 256])),
        "vocab_size": draw(st.integers(1, 200_000)),
        "quantization_config": {
            "quant_method": "fp8",
            "weight_block_size": [draw(st.sampled_from([32, 64, 128])), draw(st.sampled_from([32, 64, 128]))],
        },
    }
    if draw(st.booleans()):
        config |= {
            "num_experts": draw(st.integers(2, 64)),
            "num_experts_per_tok": 1,
            "moe_intermediate_size": draw(st.integers(1, 64)) * draw(st.sampled_from([1, 32, 128])),
        }
    return config


@given(configs(), st.integers(1, 64))
def test_a_legal_size_always_shards_to_whole_heads_and_whole_blocks(config: dict[str, Any], most: int) -> None:
    shape = shape_of(config)
    rows, columns = config["quantization_config"]["weight_block_size"]
    widths = {config["moe_intermediate_size"]} if "num_experts" in config else {config["intermediate_size"]}
    for ranks in legal_tensor_parallel(shape, most):
        assert ranks <= most
        assert shape.heads % ranks == 0
        assert shape.kv_heads % ranks == 0 or ranks % shape.kv_heads == 0
        for width in widths if ranks > 1 else ():
            assert width % (ranks * rows) == 0
            assert width % (ranks * columns) == 0
        if ranks > 1:
            assert shape.heads // ranks * shape.head_dim % rows == 0
            assert shape.heads // ranks * shape.head_dim % columns == 0
            assert max(1, shape.kv_heads // ranks) * shape.head_dim % rows == 0
        assert check(shape, tensor_parallel=ranks, gpus=64, gpus_per_host=64) == []
