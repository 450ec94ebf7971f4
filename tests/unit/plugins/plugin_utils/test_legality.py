# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.fit.hazards import load_hazards
from ansible_collections.firstlight.cluster.plugins.plugin_utils.fit.legality import (
    check_parallel,
    legal_tensor_parallel,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.models.config import read_config
from ansible_collections.firstlight.cluster.plugins.plugin_utils.models.shape import ModelShape
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusal, Refusals
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[4]
MODELS = load_catalog([ROOT / "catalog"])["models"]


def shape_of(config: dict[str, Any], name: str = "sample") -> ModelShape:
    refusals = Refusals()
    shape = read_config(config, name, refusals)
    assert shape is not None, refusals.found
    return shape


SHAPES = {name: shape_of(entry["config"], name) for name, entry in MODELS.items()}
HAZARDS, _ = load_hazards([ROOT / "catalog"])


def check(model: str | ModelShape, **settings: Any) -> list[Refusal]:
    refusals = Refusals()
    shape = SHAPES[model] if isinstance(model, str) else model
    wanted = {"tensor_parallel": 1, "gpus": 8, "gpus_per_host": 8, "hosts": 1, **settings}
    check_parallel(shape, refusals=refusals, **wanted)
    assert all(all(one.values()) for one in refusals.found)
    return refusals.found


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


def test_more_ranks_than_gpus_are_refused_with_the_arithmetic() -> None:
    (one,) = check("qwen3.5-397b-a17b-fp8", tensor_parallel=8, gpus=4, gpus_per_host=1, hosts=4)
    assert one["id"] == "world.size"
    assert "8 x pipeline parallel 1 = 8 processes on 4 hosts" in one["found"]
    assert "set tensor parallel to 4, or list 8 hosts" in one["remedy"]
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


def test_expert_parallel_with_experts_in_fp8_is_a_known_hazard() -> None:
    settings: dict[str, Any] = {"tensor_parallel": 4, "expert_parallel": True, "hazards": HAZARDS}
    for version in (None, "0.8.5", "0.32.0", "0.32.0+cu130", "1.0"):
        assert ids("qwen3.5-397b-a17b-fp8", engine_version=version, **settings) == ["hazard.known"]
    assert ids("qwen3.5-397b-a17b-fp8", engine_version="0.7.3", **settings) == []
    assert ids("qwen3.5-397b-a17b-fp8", engine="sglang", **settings) == []
    assert ids("deepseek-v4-flash", **settings) == []
    assert ids("qwen3.5-397b-a17b-fp8", **{**settings, "expert_parallel": False}) == []


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


def test_the_built_in_hazards_are_complete() -> None:
    hazards, problems = load_hazards([ROOT / "catalog"])
    assert problems == []
    assert all(one["source"] and one["date"] for one in hazards)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[", "cannot be read"),
        ("a: 1", "no list"),
        ("- 1", "expected a mapping"),
        ("- {name: x}", "lacks engine"),
    ],
)
def test_a_wrong_hazards_file_is_named(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "hazards.yml").write_text(content)
    hazards, problems = load_hazards([tmp_path, tmp_path / "missing"])
    assert hazards == []
    assert words in problems[0]
    assert str(tmp_path) in problems[0]


def test_a_site_lifts_a_hazard_by_its_name(tmp_path: Path) -> None:
    text = (ROOT / "catalog/hazards.yml").read_text().replace("before: null", 'before: "0.30.0"')
    (tmp_path / "hazards.yml").write_text(text)
    hazards, problems = load_hazards([tmp_path, ROOT / "catalog"])
    assert problems == []
    settings: dict[str, Any] = {"tensor_parallel": 4, "expert_parallel": True, "hazards": hazards}
    assert ids("qwen3.5-397b-a17b-fp8", engine_version="0.32.0", **settings) == []
    assert ids("qwen3.5-397b-a17b-fp8", engine_version="0.29.0", **settings) == ["hazard.known"]
    assert ids("qwen3.5-397b-a17b-fp8", engine_version="0.30.0rc1", **settings) == ["hazard.known"]
    assert ids("qwen3.5-397b-a17b-fp8", engine_version="0.30", **settings) == []
    assert ids("qwen3.5-397b-a17b-fp8", engine_version="nightly", **settings) == ["hazard.known"]


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"when": {}},
        {"when": {"weather": "bad"}},
        {"when": {"quantization": "fp8"}},
        {"why": 5},
        {"before": 0.3},
    ],
)
def test_a_wrong_hazard_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    (entry,) = yaml.safe_load((ROOT / "catalog/hazards.yml").read_text())
    (tmp_path / "hazards.yml").write_text(yaml.safe_dump([{**entry, **change}]))
    hazards, problems = load_hazards([tmp_path])
    assert hazards == []
    assert "item 1" in problems[0]
