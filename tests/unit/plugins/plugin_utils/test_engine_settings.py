# SPDX-License-Identifier: Apache-2.0
"""The settings file of TensorRT-LLM: what its pinned version would refuse is refused before it is written."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import TENSORRT_SETTINGS_PATH
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.ranges import load_ranges
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.settings import (
    PLANNED,
    Problem,
    check_planned,
    check_twice,
    settings_problems,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.settings_schema import (
    SettingsSchema,
    load_settings,
    parse_settings,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from hypothesis import given

from tests.unit.launching import commands, read_description

ROOT = Path(__file__).resolve().parents[4]
ENGINES = ROOT / "catalog" / "engines"
FILE = ENGINES / "settings" / "tensorrt-llm-1.2.1.json"


@cache
def schema() -> SettingsSchema:
    found = load_settings([ENGINES], "tensorrt-llm", "1.2.1")
    assert found is not None
    return found


def problems(document: Any) -> list[Problem]:
    return settings_problems(schema(), document, load_ranges([ENGINES]))


GOOD: list[dict[str, Any]] = [
    {},
    {"max_seq_len": 8192, "max_batch_size": 64, "max_num_tokens": None},
    {"kv_cache_config": {"dtype": "fp8", "free_gpu_memory_fraction": 0.85, "enable_block_reuse": False}},
    {"kv_cache_config": {"max_attention_window": [4096, 8192]}},
    {"cuda_graph_config": {"enable_padding": True, "batch_sizes": [1, 2, 4]}},
    {"cuda_graph_config": None},
    {"moe_config": {"backend": "TRTLLM", "load_balancer": {"num_slots": 8}}},
    {"speculative_config": {"decoding_type": "MTP", "num_nextn_predict_layers": 2}},
    {"speculative_config": {"decoding_type": "Eagle", "max_draft_len": 3, "speculative_model_dir": "/models/draft"}},
    {"sparse_attention_config": {"algorithm": "DSA", "index_topk": 2048}},
    {"load_format": "dummy"},
    {"sampler_type": "TorchSampler"},
    {"scheduler_config": {"capacity_scheduler_policy": "MAX_UTILIZATION"}},
    {"cache_transceiver_config": {"backend": "UCX", "kv_transfer_timeout_ms": 1000}},
    {"batch_wait_timeout_ms": 1},
]


@pytest.mark.parametrize("document", GOOD, ids=str)
def test_what_the_engine_takes(document: dict[str, Any]) -> None:
    assert problems(document) == []


BAD: list[tuple[Any, str, str, str]] = [
    ({"max_seq_length": 1}, "settings.unknown", "max_seq_length", "write max_seq_len"),
    ({"kv_cache_config": {"free_gpu_mem_fraction": 0.5}}, "settings.unknown", "kv_cache_config.free", "_memory_"),
    ({"max_seq_len": "8192"}, "settings.value", "max_seq_len", "correct max_seq_len"),
    ({"max_seq_len": True}, "settings.value", "is True", "correct max_seq_len"),
    ({"max_seq_len": 0}, "settings.value", "is 0", "correct max_seq_len"),
    ({"kv_cache_config": {"free_gpu_memory_fraction": 1.5}}, "settings.value", "1.5", "correct kv_cache_config."),
    ({"kv_cache_config": "fp8"}, "settings.value", "kv_cache_config", "correct kv_cache_config"),
    ({"kv_cache_config": None}, "settings.value", "is None", "correct kv_cache_config"),
    ({"kv_cache_config": {"dtype": "fp8_e4m3"}}, "settings.value", "fp8_e4m3", "write one of them"),
    ({"kv_cache_config": {"max_attention_window": [1, "x"]}}, "settings.value", "window[1]", "correct"),
    ({"cuda_graph_config": {"enable_padding": "yes"}}, "settings.value", "'yes'", "correct"),
    ({"moe_config": {"backend": "cutlass"}}, "settings.value", "'cutlass'", "write backend: CUTLASS"),
    ({"nvfp4_gemm_config": {"allowed_backends": ["cutlas"]}}, "settings.value", "backends[0]", "cutlass"),
    ({"speculative_config": {"decoding_type": "Medusa"}}, "settings.value", "'Medusa'", "write one of them"),
    ({"speculative_config": {"num_nextn_predict_layers": 1}}, "settings.value", "decoding_type", "write one of"),
    (
        {"speculative_config": {"decoding_type": "MTP", "num_layers": 1}},
        "settings.unknown",
        "speculative_config.num_layers",
        "remove",
    ),
    ({"kv_connector_config": {"connector_module": "x"}}, "settings.value", "has no connector_", "add connector_"),
    ({"cache_transceiver_config": {"kv_transfer_timeout_ms": 0}}, "settings.value", "is 0", "correct"),
    ({"quant_config": {"quant_algo": "FP8"}}, "settings.unknown", "quant_config", "remove"),
    ({"build_config": {"max_batch_size": 1}}, "settings.unknown", "build_config", "remove"),
    ({7: 1}, "settings.unknown", "the key 7", "remove 7"),
    ([1], "settings.value", "the settings file", "correct"),
]


@pytest.mark.parametrize(("document", "identifier", "found", "remedy"), BAD, ids=str)
def test_what_the_engine_refuses(document: Any, identifier: str, found: str, remedy: str) -> None:
    (problem,) = problems(document)
    assert problem.id == identifier
    assert found in problem.found
    assert "tensorrt-llm 1.2.1" in problem.rule
    assert remedy in problem.remedy


def test_everything_is_told_at_once() -> None:
    assert len(problems({"max_seq_len": "x", "kv_cache_config": {"dtype": 1, "no": 1}, "nothing": 1})) == 4


def test_a_secret_in_the_wrong_place_is_not_repeated() -> None:
    (problem,) = problems({"kv_cache_config": {"tokens_per_block": "hunter2"}})
    assert "hunter2" not in f"{problem.found} {problem.remedy}"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["dtype", "backend", "x"]), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(schema().objects[schema().root])), PLAIN, max_size=4))
def test_any_plain_data_is_evaluated_and_told_in_words(document: dict[str, Any]) -> None:
    for problem in problems(document):
        assert problem.found
        assert problem.rule
        assert problem.remedy


LAUNCHES = yaml.safe_load((ROOT / "tests" / "fixtures" / "launches.yml").read_text())


@pytest.mark.parametrize("name", [name for name in LAUNCHES if name.startswith("tensorrt")])
def test_the_file_that_a_launch_writes_is_one_the_engine_takes(name: str) -> None:
    more = {
        "max_model_len": 4096,
        "gpu_memory_utilization": 0.85,
        "kv_cache_dtype": "fp8_e4m3",
        "max_num_seqs": 8,
        "max_num_batched_tokens": 4096,
        "prefix_caching": True,
        "speculative": {"method": "mtp", "tokens": 2},
        "engine_settings": {"kv_cache_config": {"tokens_per_block": 64}, "cuda_graph_config": {"enable_padding": True}},
    }
    description = read_description({**LAUNCHES[name], **more})
    (command,) = commands(description, description.head)
    document = yaml.safe_load(command["files"][TENSORRT_SETTINGS_PATH])
    # Inside of what both have, not one instead of the other.
    assert document["kv_cache_config"] == {
        "free_gpu_memory_fraction": 0.85,
        "dtype": "fp8",
        "enable_block_reuse": True,
        "tokens_per_block": 64,
    }
    assert problems(document) == []


def test_what_the_plan_says_stands_in_no_settings_file() -> None:
    errors = PlanErrors()
    check_planned({"tensor_parallel_size": 2, "backend": "tensorrt", "max_seq_len": 1}, errors)
    assert [one["id"] for one in errors.found] == ["settings.planned"] * 2
    errors = PlanErrors()
    planned = {"max_seq_len": 1, "kv_cache_config": {"dtype": "fp8"}}
    check_twice(planned, {"max_seq_len": 1, "kv_cache_config": {"dtype": "auto", "use_uvm": False}}, errors)
    assert [one["id"] for one in errors.found] == ["settings.twice"] * 2
    assert "kv_cache_config.dtype" in errors.found[1]["found"]


def test_every_planned_key_is_one_of_the_engine() -> None:
    assert set(PLANNED) <= set(schema().objects[schema().root])


def test_a_site_catalog_wins_and_a_broken_one_is_told(tmp_path: Path) -> None:
    document = json.loads(FILE.read_text())
    (tmp_path / "settings").mkdir()
    own = tmp_path / "settings" / FILE.name
    document["objects"][document["root"]]["keys"]["patched"] = {"takes": ["int"]}
    own.write_text(json.dumps(document))
    found = load_settings([tmp_path, ENGINES], "tensorrt-llm", "1.2.1")
    assert found is not None
    assert settings_problems(found, {"patched": 1}) == []
    own.write_text("{")
    with pytest.raises(CatalogError, match="generate it again"):
        load_settings([tmp_path, ENGINES], "tensorrt-llm", "1.2.1")
    assert load_settings([ENGINES], "tensorrt-llm", "9.9.9") is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"root": "Nobody"}, "the one that root names"),
        ({"engine": 1}, "the text engine"),
        ({"objects": {"A": {}}, "root": "A"}, "without keys"),
        ({"objects": {"A": {"keys": {"b": {}}}}, "root": "A"}, "without what it takes"),
        ({"objects": {"A": {"keys": {"b": {"takes": [{"object": "B"}]}}}}, "root": "A"}, "is not known"),
        ({"objects": {"A": {"keys": {"b": {"takes": ["complex"]}}}}, "root": "A"}, "is not known"),
    ],
)
def test_a_schema_of_another_shape(change: dict[str, Any], told: str) -> None:
    with pytest.raises(CatalogError, match=told):
        parse_settings({**json.loads(FILE.read_text()), **change}, "here")
    with pytest.raises(CatalogError, match="JSON object"):
        parse_settings([], "here")
