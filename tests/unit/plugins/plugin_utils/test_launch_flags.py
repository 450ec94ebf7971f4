# SPDX-License-Identifier: Apache-2.0
"""No launch renders a flag or a word that the pinned engine's own parser does not know."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.arguments import (
    check_arguments,
    check_environment,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.launch_rules import ERRORS, check_launch
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.replaced import Replaced, load_replaced
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import EngineSchema, load_schema
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import LaunchDescription
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.translations import TRANSLATIONS
from hypothesis import given

from tests.unit.examples import examples
from tests.unit.launching import commands, read_description

ROOT = Path(__file__).resolve().parents[4]
ENGINES = ROOT / "catalog" / "engines"
LAUNCHES: dict[str, dict[str, Any]] = {
    name: values
    for name, values in yaml.safe_load((ROOT / "tests" / "fixtures" / "launches.yml").read_text()).items()
    if not name.startswith(".")
}


@cache
def schema_of(engine: str, version: str) -> EngineSchema:
    schema = load_schema([ENGINES], engine, version)
    assert schema is not None, f"catalog/engines has no schema of {engine} {version}"
    return schema


@cache
def replaced() -> Replaced:
    return load_replaced([ENGINES])


def wrong(description: LaunchDescription) -> list[Any]:
    schema = schema_of(description.engine, str(description.version))
    found: list[Any] = []
    for host in description.hosts:
        for record in commands(description, host.name):
            found += check_environment(list(record["env"]), replaced())
            if record["name"] == "server" and record["engine_argv"]:
                found += check_arguments(schema, record["engine_argv"], replaced())
    return [finding for finding in found if finding["error"]]


@pytest.mark.parametrize("name", LAUNCHES)
def test_every_rendered_flag_is_the_engines_own(name: str) -> None:
    assert wrong(read_description(LAUNCHES[name])) == []


@examples(40)
@given(
    st.sampled_from(sorted(LAUNCHES)),
    st.fixed_dictionaries(
        {},
        optional={
            "max_model_len": st.none() | st.integers(1, 2_000_000),
            "gpu_memory_utilization": st.none() | st.floats(0.01, 1),
            "kv_cache_dtype": st.sampled_from([None, "auto", "fp8", "fp8_e4m3"]),
            "max_num_seqs": st.none() | st.integers(1, 4096),
            "max_num_batched_tokens": st.none() | st.integers(1, 1_000_000),
            "prefix_caching": st.sampled_from([None, True, False]),
        },
    ),
)
def test_no_setting_renders_a_flag_the_schema_lacks(name: str, changes: dict[str, Any]) -> None:
    assert wrong(read_description({**LAUNCHES[name], **changes})) == []


TRANSLATED = [
    (engine, setting, ours, theirs)
    for engine, table in TRANSLATIONS.items()
    for setting, forms in table.items()
    for form in forms
    if form.arguments is not None
    for ours, theirs in (form.words or {}).items()
]


@pytest.mark.parametrize(("engine", "setting", "ours", "theirs"), TRANSLATED)
def test_a_translated_word_is_the_engines_own(engine: str, setting: str, ours: str, theirs: str) -> None:
    description = read_description({**LAUNCHES[f"{engine}-single"], setting: ours})
    assert wrong(description) == []
    assert theirs in commands(description, description.head)[0]["engine_argv"]


def test_what_is_wrong_with_a_description_is_refused() -> None:
    errors = PlanErrors()
    assert check_launch(read_description(LAUNCHES["tensorrt-llm-single"]), errors)
    assert errors.found == []
    changed = {"listen": "0.0.0.0", "image": "latest", "environment": {"HF_TOKEN": "x"}}
    assert not check_launch(read_description({**LAUNCHES["tensorrt-llm-single"], **changed}), errors)
    identifiers = [error["id"] for error in errors.found]
    assert identifiers == ["launch.image", "launch.secret", "launch.listen"]
    assert set(identifiers) <= set(ERRORS)
