# SPDX-License-Identifier: Apache-2.0
"""The settings file in a plan: whose it is, and what it is compared with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import TENSORRT_SETTINGS_PATH
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.settings_schema import load_settings
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import PlannerContext
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.intent import Serving
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.launch_settings import check_settings_file
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.serving_values import read_engine_settings

ENGINES = Path(__file__).resolve().parents[6] / "catalog" / "engines"
KNOWN = PlannerContext(catalog={}, settings=lambda engine, version: load_settings([ENGINES], engine, version))
SERVING = Serving(
    profile="tensorrt-llm",
    runtime="docker",
    tensor_parallel=1,
    pipeline_parallel=1,
    replicas=1,
    utilisation=None,
    max_model_len=None,
    port=8000,
    listen="127.0.0.1",
    served_name="x",
    start_timeout=None,
    flags=(),
)


def found(
    own: dict[str, Any],
    text: str | None = None,
    *,
    engine: str = "tensorrt-llm",
    version: str = "1.2.1",
    profile: str = "tensorrt-llm",
    knowledge: PlannerContext = KNOWN,
) -> list[str]:
    errors = PlanErrors()
    launched: dict[str, list[dict[str, Any]]] = (
        {} if text is None else {"a": [{"files": {TENSORRT_SETTINGS_PATH: text}}], "b": [{"files": {}}]}
    )
    serving = replace(SERVING, profile=profile, engine_settings=own)
    check_settings_file(engine, version, serving, launched, knowledge, errors)
    return [one["id"] for one in errors.found]


def test_what_is_written_is_what_is_evaluated() -> None:
    assert found({}, "---\nmax_seq_len: 1\n") == []
    assert found({}, "---\n{}\n") == []
    assert found({}, "---\nmax_seq_length: 1\n") == ["settings.unknown"]


def test_without_commands_the_operators_own_are_evaluated() -> None:
    assert found({"max_seq_len": "1"}) == ["settings.value"]
    assert found({}) == []


def test_only_one_engine_has_such_a_file() -> None:
    assert found({"max_seq_len": 1}, engine="vllm", version="0.32.0", profile="vllm-ray") == ["settings.engine"]
    assert found({}, engine="vllm", version="0.32.0", profile="vllm-ray") == []


def test_a_version_whose_file_nobody_knows() -> None:
    assert found({"max_seq_len": 1}, version="9.9.9") == ["settings.schema"]
    assert found({}, version="9.9.9") == []


def test_a_schema_that_cannot_be_read() -> None:
    def broken(*_: str) -> None:
        raise CatalogError(["settings schema x cannot be read"])

    assert found({"max_seq_len": 1}, knowledge=replace(KNOWN, settings=broken)) == ["settings.schema"]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (None, {}),
        ({"a": {"b": [1, None, True, "x", 0.5]}}, {"a": {"b": [1, None, True, "x", 0.5]}}),
        ("a: 1", None),
        ({"a": [Path("/")]}, None),
    ],
)
def test_what_an_operator_may_write(given: Any, read: dict[str, Any] | None) -> None:
    errors = PlanErrors()
    assert read_engine_settings({"engine_settings": given}, errors) == (read or {})
    assert [one["id"] for one in errors.found] == (["intent.type"] if read is None else [])
