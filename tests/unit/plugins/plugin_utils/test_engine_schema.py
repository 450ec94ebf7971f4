# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.ranges import load_ranges, plain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import (
    ENGINES,
    available,
    engine_name,
    is_later,
    load_schema,
    parse_schema,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.values import read_size

FLAG: dict[str, Any] = {
    "names": ["--x"],
    "type": "int",
    "nargs": None,
    "choices": None,
    "values": None,
    "also": [],
    "keys": None,
    "units": None,
    "decimals": None,
    "default": 1,
    "negatable": False,
    "required": False,
    "repeatable": False,
    "since": None,
    "deprecated": None,
    "help": "",
}
SCHEMA: dict[str, Any] = {
    "engine": "toy",
    "version": "1.0",
    "source": "made here",
    "date": "2026-01-01",
    "parser": {"underscores": False, "abbreviations": True, "subkeys": False, "attached": {}},
    "positional": [],
    "flags": [FLAG],
}


def test_the_catalog_has_the_pinned_engines() -> None:
    assert set(available([ENGINES])) >= {
        "sglang==0.5.23",
        "tensorrt-llm==1.2.1",
        "vllm==0.32.0",
        "vllm==0.6.3",
        "vllm==0.7.3",
    }


def test_facts_that_were_seen_when_the_real_parsers_ran() -> None:
    vllm = load_schema([ENGINES], "vllm", "0.32.0")
    sglang = load_schema([ENGINES], "sglang", "0.5.23")
    assert vllm is not None
    assert sglang is not None
    assert len(vllm.flags) == 316
    assert len(vllm.by_name["--kv-cache-dtype"].choices or ()) == 19
    assert vllm.by_name["--language-model-only"].since == "0.17.0"
    assert vllm.by_name["--nnodes"].since == "0.11.1"
    assert "qwen3_xml" in (vllm.by_name["--tool-call-parser"].values or ())
    assert vllm.by_name["--master-port"].default == 29501
    assert len(sglang.flags) == 531
    assert sglang.by_name["--port"].default == 30000
    assert "--tp" not in sglang.by_name


def test_a_unit_is_worth_what_its_engine_says() -> None:
    vllm = load_schema([ENGINES], "vllm", "0.32.0")
    sglang = load_schema([ENGINES], "sglang", "0.5.23")
    assert vllm is not None
    assert sglang is not None
    assert read_size(vllm.by_name["--kv-cache-memory-bytes"], "64M") == 64 << 20
    assert read_size(sglang.by_name["--max-total-tokens"], "64M") == 64_000_000
    assert read_size(vllm.by_name["--max-model-len"], "1.5k") == 1500
    assert read_size(vllm.by_name["--max-model-len"], "1.5K") is None


def test_no_schema_is_none_and_paths_are_no_names(tmp_path: Path) -> None:
    assert load_schema([ENGINES], "vllm", "9.9.9") is None
    assert load_schema([ENGINES], "../engines/vllm", "0.32.0") is None
    assert available([tmp_path / "nowhere"]) == []


def test_a_site_replaces_a_schema(tmp_path: Path) -> None:
    (tmp_path / "vllm-0.32.0.json").write_text(json.dumps({**SCHEMA, "engine": "vllm", "version": "0.32.0"}))
    schema = load_schema([tmp_path, ENGINES], "vllm", "0.32.0")
    assert schema is not None
    assert [flag.name for flag in schema.flags] == ["--x"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"engine": 1}', "[" * 100_000])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "toy-1.0.json").write_text(text)
    with pytest.raises(CatalogError, match=r"toy-1\.0\.json"):
        load_schema([tmp_path], "toy", "1.0")


@pytest.mark.parametrize(
    "wrong",
    [
        {"names": []},
        {"names": ["x"]},
        {"type": "number"},
        {"type": "enum"},
        {"type": "size"},
        {"also": None},
        {"nargs": []},
    ],
)
def test_a_flag_of_another_shape_is_refused(wrong: dict[str, Any]) -> None:
    document = copy.deepcopy(SCHEMA)
    document["flags"][0].update(wrong)
    with pytest.raises(CatalogError, match=r"flags\[0\]"):
        parse_schema(document, "toy.json")
    del document["flags"][0]["type"]
    with pytest.raises(CatalogError, match=r"flags\[0\]"):
        parse_schema(document, "toy.json")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("vLLM", "vllm"),
        ("SGLang ", "sglang"),
        ("TensorRT-LLM", "tensorrt-llm"),
        ("tensorrt_llm", "tensorrt-llm"),
        ("trtllm", "tensorrt-llm"),
        ("trtllm-serve", "tensorrt-llm"),
        ("tgi", "tgi"),
    ],
)
def test_engines_are_known_under_the_names_people_write(written: str, name: str) -> None:
    assert engine_name(written) == name


def test_every_range_is_of_a_number_of_some_engine() -> None:
    schemas = [load_schema([ENGINES], *one.split("==")) for one in available([ENGINES])]
    numbers = {
        plain(name)
        for schema in schemas
        if schema
        for flag in schema.flags
        if flag.type in {"int", "float", "size"}
        for name in flag.names
    }
    assert load_ranges([ENGINES]).keys() <= numbers


def test_defaults_are_in_their_ranges() -> None:
    for one in available([ENGINES]):
        schema = load_schema([ENGINES], *one.split("=="))
        assert schema is not None
        for flag in schema.flags:
            if flag.name in schema.ranges and flag.default is not None:
                assert flag.default in schema.ranges[flag.name], (one, flag.name)


@pytest.mark.parametrize("text", ["[]", "{", "ranges: 1", "ranges: [{flags: [--x], leest: 1}]"])
def test_a_broken_table_of_ranges_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "ranges.yml").write_text(text)
    with pytest.raises(CatalogError, match=r"ranges\.yml"):
        load_ranges([tmp_path])


def test_later() -> None:
    assert is_later("0.10.0", "0.9.2")
    assert is_later("0.6.3.post1", "0.6.3")
    assert not is_later("0.32.0", "0.32.0")
