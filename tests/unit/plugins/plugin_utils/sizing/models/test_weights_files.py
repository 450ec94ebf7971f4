# SPDX-License-Identifier: Apache-2.0
"""The rules of the catalog for the files an engine loads."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.file_selection import read_selection
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import ENGINES, available, load_schema
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.weights_files import (
    load_format_of,
    load_rules,
    selection,
    unknown_load_format,
)

RULES = load_rules()


def test_every_rule_names_formats_and_engines_there_are() -> None:
    engines = {path.stem.rsplit("-", 1)[0] for path in (BUILT_IN / "engines").glob("*-*.json")}
    assert set(RULES.engines) == engines
    for engine, known in RULES.engines.items():
        assert known["load_formats"]["auto"]
        changed = [names for older in (known.get("before") or {}).values() for names in older.values()]
        for names in [*known["load_formats"].values(), *changed]:
            assert set(names) <= set(RULES.formats), engine
            read_selection(selection(RULES, engine, None, None))


@pytest.mark.slow  # reads the flags of every release
def test_every_load_format_of_a_rule_is_one_of_some_release() -> None:
    """A misspelt one would silently bring everything."""
    spelt: dict[str, set[str]] = {}
    for release in available([ENGINES]):
        engine, _, version = release.partition("==")
        schema = load_schema([ENGINES], engine, version)
        name = RULES.engines[engine].get("flag")
        if schema is not None and name:
            flag = schema.by_name[name]
            spelt.setdefault(engine, set()).update(map(str, (*(flag.choices or ()), *(flag.values or ()))))
    assert set(spelt) == {"vllm", "sglang"}
    for engine, words in spelt.items():
        assert set(RULES.engines[engine]["load_formats"]) <= words


@pytest.mark.parametrize(
    ("engine", "flags", "settings", "found"),
    [
        ("vllm", ["--max-model-len", "8"], {}, None),
        ("vllm", ["--load-format=fastsafetensors"], {}, "fastsafetensors"),
        ("vllm", ["--load_format", "PT", "--x"], {}, "pt"),
        ("vllm", ["--load-format", "pt", "--load-format", "auto"], {}, "auto"),
        ("vllm", ["--load-format"], {}, None),
        ("sglang", ["--load-format=dummy"], {}, "dummy"),
        ("tensorrt-llm", ["--load-format=pt"], {"load_format": "dummy"}, "dummy"),
        ("tensorrt-llm", [], {}, None),
        ("another", ["--load-format=pt"], {}, None),
    ],
)
def test_the_load_format_is_read_as_it_is_written(
    engine: str, flags: list[str], settings: dict[str, str], found: str | None
) -> None:
    assert load_format_of(RULES, engine, flags, settings) == found


def test_what_is_not_known_is_said() -> None:
    assert unknown_load_format(RULES, "vllm", "0.32.0", None) is None
    note = unknown_load_format(RULES, "vllm", "0.32.0", "tensorizer")
    assert note is not None
    assert "load format tensorizer are not known, so every file" in note
    assert selection(RULES, "vllm", "0.32.0", "tensorizer") == {}
    assert selection(RULES, "vllm", "0.32.0", "tensorizer", {"exclude": ["a/*"]}) == {"exclude": ["a/*"]}
