# SPDX-License-Identifier: Apache-2.0
"""The words for every engine in SGLang's own: cache, quantised cache, parsers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.translations import TRANSLATIONS

from tests.unit.launching import commands

ROOT = Path(__file__).resolve().parents[5]
SCHEMA = json.loads((ROOT / "catalog" / "engines" / "sglang-0.5.23.json").read_text())
FLAGS = {name: flag for flag in SCHEMA["flags"] for name in flag["names"]}
LAUNCH = {
    "profile": "sglang",
    "version": SCHEMA["version"],
    "image": "registry.example/sglang@sha256:" + "0f" * 32,
    "model_directory": "/models/m",
    "served_name": "m",
    "hosts": [{"name": "a"}],
    "head": "a",
}


def words(**settings: Any) -> list[str]:
    (command,) = commands({**LAUNCH, **settings}, "a")
    return list(command["engine_argv"])


def value(found: list[str], flag: str) -> str:
    return found[found.index(flag) + 1]


def test_the_radix_cache_is_on_unless_it_is_switched_off() -> None:
    assert FLAGS["--disable-radix-cache"]["default"] is False
    for settings in ({}, {"prefix_caching": None}, {"prefix_caching": True}):
        assert not [word for word in words(**settings) if "radix" in word]
    assert "--disable-radix-cache" in words(prefix_caching=False)


@pytest.mark.parametrize(("asked", "said"), [("fp8", "fp8_e4m3"), ("fp8_e4m3", "fp8_e4m3"), ("auto", "auto")])
def test_the_cache_is_quantised_in_its_own_word(asked: str, said: str) -> None:
    found = value(words(kv_cache_dtype=asked), "--kv-cache-dtype")
    assert found == said
    assert found in FLAGS["--kv-cache-dtype"]["choices"]


@pytest.mark.parametrize("setting", ["tool_call_parser", "reasoning_parser"])
def test_every_parser_with_another_name_is_one_it_has(setting: str) -> None:
    (form,) = TRANSLATIONS["sglang"][setting]
    flag = f"--{setting.replace('_', '-')}"
    known = FLAGS[flag]["choices"] or FLAGS[flag]["values"]
    assert form.words
    for asked, said in form.words.items():
        assert value(words(**{setting: asked}), flag) == said
        assert said in known
        assert asked not in known, f"{asked} needs no translation"


def test_a_parser_of_the_same_name_stays() -> None:
    assert value(words(tool_call_parser="mistral"), "--tool-call-parser") == "mistral"
