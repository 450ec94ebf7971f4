# SPDX-License-Identifier: Apache-2.0
"""Which files of a repository are brought, as public repositories are filled."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.file_selection import (
    Format,
    Selection,
    check_selection,
    files_lacking,
    read_selection,
    select,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.weights_files import (
    load_rules,
    selection,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

SMALL = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "README.md",
    "modeling_x.py",
]
LLAMA = [
    *SMALL,
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
    "original/consolidated.00.pth",
    "original/params.json",
    "original/tokenizer.model",
]
GPT_OSS = [
    *SMALL,
    "model-00000-of-00001.safetensors",
    "model.safetensors.index.json",
    "metal/model.bin",
    "original/model--00001-of-00007.safetensors",
    "original/config.json",
]
OLD = [
    *SMALL,
    "model.safetensors",
    "pytorch_model-00001-of-00002.bin",
    "pytorch_model-00002-of-00002.bin",
    "pytorch_model.bin.index.json",
    "tf_model.h5",
    "flax_model.msgpack",
    "rust_model.ot",
    "onnx/model.onnx",
    "model.Q4_K_M.gguf",
    "training_args.bin",
]
MISTRAL = [
    *SMALL,
    "params.json",
    "tekken.json",
    "consolidated.safetensors",
    "model-00001-of-00002.safetensors",
    "model.safetensors.index.json",
]


def taken(paths: list[str], engine: str = "vllm", version: str = "0.32.0", load_format: str | None = None) -> list[str]:
    """What the catalog's rules take of a repository, without the small files that are always taken."""
    chosen = read_selection(selection(load_rules(), engine, version, load_format))
    found = check_selection(paths, chosen)
    assert set(SMALL) <= set(found)
    return [path for path in found if path not in SMALL]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_copies_for_other_programs_are_left_out(engine: str) -> None:
    assert taken(LLAMA, engine) == LLAMA[6:9]
    assert taken(GPT_OSS, engine) == GPT_OSS[6:8]
    assert taken(OLD, engine) == ["model.safetensors"]


def test_a_repository_with_one_format_is_brought_whole() -> None:
    only = [*SMALL, "pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json", "extra.bin"]
    assert taken(only) == sorted(only[6:])


@pytest.mark.parametrize(
    ("engine", "version", "load_format", "wanted"),
    [
        ("vllm", "0.32.0", None, ["consolidated.safetensors"]),
        ("vllm", "0.11.2", None, ["model-00001-of-00002.safetensors", "model.safetensors.index.json"]),
        ("vllm", "0.32.0", "hf", ["model-00001-of-00002.safetensors", "model.safetensors.index.json"]),
        ("vllm", "0.32.0", "mistral", ["consolidated.safetensors"]),
        ("sglang", "0.5.23", None, ["model-00001-of-00002.safetensors", "model.safetensors.index.json"]),
        ("tensorrt-llm", "1.2.1", None, ["model-00001-of-00002.safetensors", "model.safetensors.index.json"]),
    ],
)
def test_of_two_copies_the_one_is_brought_that_the_engine_prefers(
    engine: str, version: str, load_format: str | None, wanted: list[str]
) -> None:
    assert taken(MISTRAL, engine, version, load_format) == sorted([*wanted, "params.json", "tekken.json"])


def test_each_directory_is_looked_at_by_itself() -> None:
    """A part of a model may have its weights in another format than the model."""
    paths = [*SMALL, "model.safetensors", "2_Dense/pytorch_model.bin", "vision/model.safetensors", "vision/model.bin"]
    assert taken(paths) == ["2_Dense/pytorch_model.bin", "model.safetensors", "vision/model.safetensors"]


def test_without_a_selection_everything_is_brought() -> None:
    for paths in (LLAMA, GPT_OSS, OLD, MISTRAL):
        assert select(paths, read_selection({})) == sorted(paths)


def test_a_repository_without_weights_of_the_engine_is_refused() -> None:
    chosen = read_selection(selection(load_rules(), "vllm", "0.32.0", None))
    with pytest.raises(
        ValueError, match=r"the engine loads none.*q4\.gguf.*mistral or safetensors.*firstlight_model_files"
    ):
        check_selection(["config.json", "model-q4.gguf"], chosen)
    assert check_selection(["config.json", "adapter.json"], chosen) == ["adapter.json", "config.json"]


def test_what_the_operator_names_wins() -> None:
    own: dict[str, Any] = {"include": ["original/*", "*.gguf"], "exclude": ["README.md"]}
    chosen = read_selection(selection(load_rules(), "vllm", "0.32.0", None, None, own))
    found = select([*LLAMA, "x.gguf"], chosen)
    assert {"original/consolidated.00.pth", "x.gguf"} < set(found)
    assert "README.md" not in found
    # The model's entry says the same; a list of the inventory takes its place.
    entry = {"include": ["*.gguf"]}
    assert "x.gguf" in select([*LLAMA, "x.gguf"], read_selection(selection(load_rules(), "vllm", None, None, entry)))
    replaced = read_selection(selection(load_rules(), "vllm", None, None, entry, {"include": []}))
    assert "x.gguf" not in select([*LLAMA, "x.gguf"], replaced)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"format": []}, "has format, expected only formats, weights, exclude, include"),
        ({"formats": ["safetensors"]}, "expected a list of mappings"),
        ({"formats": [{"name": "x"}]}, "the format x has no files"),
        ({"formats": [{"name": "x", "files": ["*"], "not": []}]}, "has not, expected only name, files, except"),
        ({"exclude": "original/*"}, "exclude is 'original/.', expected a list of patterns"),
        ({"include": [7]}, "expected a list of patterns"),
    ],
)
def test_what_is_no_selection_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_selection(given)


def test_what_was_left_out_and_is_wanted_now_is_named() -> None:
    auto = read_selection(selection(load_rules(), "vllm", "0.32.0", None))
    hugging = read_selection(selection(load_rules(), "vllm", "0.32.0", "hf"))
    brought = select(MISTRAL, auto)
    out = sorted(set(MISTRAL) - set(brought))
    assert files_lacking(auto, brought, out) == []
    assert files_lacking(hugging, brought, out) == ["model-00001-of-00002.safetensors", "model.safetensors.index.json"]
    assert files_lacking(read_selection({}), brought, out) == out
    assert files_lacking(hugging, brought, []) == []


NAMES = st.sampled_from(
    ["model.safetensors", "consolidated.safetensors", "pytorch_model.bin", "x.bin", "x.pt", "x.pth", "x.gguf"]
    + ["model.safetensors.index.json", "pytorch_model.bin.index.json", "config.json", "notes.txt", "x.onnx"]
)
PATHS = st.lists(st.builds(lambda place, name: place + name, st.sampled_from(["", "original/", "sub/"]), NAMES))
PATTERNS = st.lists(st.sampled_from(["*", "*.bin", "original/*", "sub/*", "x.*", "*.json"]), max_size=3).map(tuple)
FORMATS = st.lists(
    st.sampled_from(
        [
            Format("safetensors", ("*.safetensors",), ("consolidated*",)),
            Format("mistral", ("consolidated*.safetensors",)),
            Format("pytorch", ("*.bin",)),
            Format("pth", ("*.pth",)),
        ]
    ),
    unique=True,
).map(tuple)
SELECTIONS = st.builds(
    Selection, FORMATS, st.just(("*.safetensors", "*.gguf", "*.pth", "pytorch_model*.bin")), PATTERNS
)


@examples(300)
@given(paths=PATHS, chosen=SELECTIONS, include=PATTERNS)
def test_a_selection_of_a_selection_is_the_same(paths: list[str], chosen: Selection, include: tuple[str, ...]) -> None:
    """A host that takes the files from another sees only what that one took."""
    chosen = Selection(chosen.formats, chosen.weights, chosen.exclude, include)
    once = select(paths, chosen)
    assert set(once) <= set(paths)
    assert select(once, chosen) == once
    assert files_lacking(chosen, once, set(paths) - set(once)) == []
    assert select(paths, Selection(include=include)) == sorted(set(paths))


@examples(300)
@given(paths=PATHS, formats=FORMATS)
def test_a_format_that_is_there_is_brought(paths: list[str], formats: tuple[Format, ...]) -> None:
    """Whatever else is left out: a directory with weights that the engine loads keeps some."""
    chosen = Selection(formats, ("*.safetensors", "*.gguf", "*.pth", "*.bin"))
    found = select(paths, chosen)
    for place in {path.rpartition("/")[0] for path in paths}:
        names = [path.rpartition("/")[2] for path in paths if path.rpartition("/")[0] == place]
        if any(one.has(name) for one in formats for name in names):
            assert any(one.has(path.rpartition("/")[2]) for one in formats for path in found if path.startswith(place))
