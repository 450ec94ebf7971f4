# SPDX-License-Identifier: Apache-2.0
"""Which accepted answers count for a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN
from ansible_collections.firstlight.cluster.plugins.plugin_utils.quality.reference import (
    find_reference,
    read_answers,
    reference_path,
    related_models,
)


def accept(directory: Path, model: str, revision: str | None, asked: str) -> None:
    configuration = {"model": model, "revision": revision}
    path = reference_path(directory, configuration)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": 1, "asked": asked, "configuration": configuration, "answers": []}))


def found(directory: Path, model: str, revision: str | None, *related: str) -> Any:
    document = find_reference(directory, {"model": model, "revision": revision}, related)
    return document and document["asked"]


def test_its_own_come_first_then_another_revisions_then_another_precisions(tmp_path: Path) -> None:
    accept(tmp_path, "big", "a", "1")
    accept(tmp_path, "big-fp8", "x", "2")
    accept(tmp_path, "big-fp8", "y", "3")
    assert found(tmp_path, "big-fp8", "x", "big") == "2"
    assert found(tmp_path, "big-fp8", "z", "big") == "3"
    assert found(tmp_path, "big-awq", None, "big", "big-fp8") == "3"
    assert found(tmp_path, "big", "b", "big-fp8") == "1"
    assert found(tmp_path, "other", "a") is None
    assert found(tmp_path / "nowhere", "big", "a") is None


def test_a_model_by_the_name_of_its_repository_stays_below_the_directory(tmp_path: Path) -> None:
    accept(tmp_path, "../../Qwen/Qwen3", None, "1")
    assert found(tmp_path, "../../Qwen/Qwen3", None) == "1"
    assert [path.parent.name for path in tmp_path.rglob("*.json")] == ["references"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2, "answers": []}', '{"format": 1, "answers": 3}'])
def test_a_file_without_answers_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    assert read_answers(tmp_path / "x.json") is None


def test_the_catalog_says_which_models_are_the_same() -> None:
    assert related_models([BUILT_IN], "qwen2.5-72b") == ["qwen2.5-72b-block-fp8", "qwen2.5-72b-fp8-dynamic"]
    assert related_models([BUILT_IN], "qwen2.5-72b-block-fp8") == ["qwen2.5-72b", "qwen2.5-72b-fp8-dynamic"]
    assert related_models([BUILT_IN], "deepseek-r1") == []
    assert related_models([BUILT_IN], "no-such-model") == []
