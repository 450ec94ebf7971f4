# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.arguments import (
    check_arguments,
    to_errors,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.replaced import Replaced, load_replaced
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import ENGINES, load_schema
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors

REPLACED = load_replaced([ENGINES])
NEWEST = {"vllm": "0.32.0", "sglang": "0.5.23", "tensorrt-llm": "1.2.1"}
OF_THE_RECIPES = {
    ("vllm", "--scheduler-policy"),
    ("vllm", "--enable-sequence-parallelism"),
    ("vllm", "--enable-reasoning"),
    ("vllm", "--swap-space"),
    ("vllm", "--device"),
    ("vllm", "--task"),
    ("vllm", "--num-scheduler-steps"),
    ("vllm", "--disable-log-requests"),
    ("vllm", "--rope-scaling"),
    ("vllm", "--worker-use-ray"),
    ("vllm", "--use-v2-block-manager"),
    ("sglang", "--enable-radixattention"),
    ("sglang", "--enable-radix-cache"),
    ("sglang", "--tp"),
}


def test_every_word_of_the_recipes_is_explained() -> None:
    known = {(entry["engine"], entry["flag"]) for entry in REPLACED.flags}
    assert known >= OF_THE_RECIPES
    assert {entry["variable"] for entry in REPLACED.environment} >= {
        "NCCL_TIMEOUT",
        "VLLM_ATTENTION_BACKEND",
        "HOST_IP",
    }


def label(entry: Any) -> str:
    return f"{entry['engine']} {entry['flag']} {entry.get('value', '')}"


@pytest.mark.parametrize("entry", REPLACED.flags, ids=label)
def test_an_entry_is_about_something_the_newest_schema_lacks(entry: Any) -> None:
    schema = load_schema([ENGINES], entry["engine"], NEWEST[entry["engine"]])
    assert schema is not None
    assert (entry["flag"] in schema.by_name) == ("value" in entry)


@pytest.mark.parametrize("entry", [entry for entry in REPLACED.flags if entry["replacement"]], ids=label)
def test_what_replaces_it_is_a_flag_of_the_engine(entry: Any) -> None:
    schema = load_schema([ENGINES], entry["engine"], NEWEST[entry["engine"]])
    assert schema is not None
    first = shlex.split(entry["replacement"])[0]
    wrong = [finding for finding in check_arguments(schema, [first, "1"], REPLACED) if not finding["known"]]
    assert not wrong


@pytest.mark.parametrize("entry", [entry for entry in REPLACED.flags if "value" not in entry], ids=label)
def test_every_entry_names_a_real_flag(entry: Any) -> None:
    schema = load_schema([ENGINES], entry["engine"], NEWEST[entry["engine"]])
    assert schema is not None
    assert ("see" in entry) == (entry["replacement"] is None)
    (finding,) = check_arguments(schema, [entry["flag"]], REPLACED)
    assert finding["error"] == "flags.replaced"
    assert str(finding["nearest"]).partition(".")[0] in schema.by_name
    assert finding["replaced_by"] == entry["replacement"]
    errors = PlanErrors()
    to_errors([finding], errors)
    (error,) = errors.found
    assert error["remedy"] == (
        f"instead of {entry['flag']} write {entry['replacement']}"
        if entry["replacement"]
        else f"remove {entry['flag']}; see {entry['see']}"
    )


@pytest.mark.parametrize("entry", REPLACED.environment, ids=lambda entry: f"{entry['engine']} {entry['variable']}")
def test_what_replaces_a_variable_is_a_flag_of_its_engine(entry: Any) -> None:
    if entry["engine"] and entry["replacement"]:
        schema = load_schema([ENGINES], entry["engine"], NEWEST[entry["engine"]])
        assert schema is not None
        assert entry["replacement"].partition(".")[0] in schema.by_name


@pytest.mark.parametrize("entry", [entry for entry in REPLACED.flags if entry["since"]], ids=label)
def test_its_lifetime_is_that_of_the_scan(entry: Any) -> None:
    schema = load_schema([ENGINES], entry["engine"], NEWEST[entry["engine"]])
    assert schema is not None
    times = schema.history[entry["flag"]]
    assert (entry["since"], entry["until"]) == (times[0][0], times[-1][1])


def test_words_of_replaced_values_are_refused_or_taken_as_the_entry_says() -> None:
    for entry in REPLACED.flags:
        if "value" in entry:
            schema = load_schema([ENGINES], entry["engine"], NEWEST[entry["engine"]])
            assert schema is not None
            (finding,) = check_arguments(schema, [entry["flag"], entry["value"]], REPLACED)
            assert (finding["problem"] is not None) == (entry["replacement"] is not None), entry
            assert finding["explanation"] == entry["meaning"]


def test_a_misspelt_field_is_refused(tmp_path: Path) -> None:
    document = yaml.safe_load((ENGINES / "replaced.yml").read_text(encoding="utf-8"))
    document["flags"][0]["sinse"] = "1"
    (tmp_path / "replaced.yml").write_text(yaml.safe_dump(document))
    with pytest.raises(CatalogError, match="sinse"):
        load_replaced([tmp_path])


@pytest.mark.parametrize("text", ["[]", "{", "flags: 1"])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "replaced.yml").write_text(text)
    with pytest.raises(CatalogError, match=r"replaced\.yml"):
        load_replaced([tmp_path])


def test_without_a_file_nothing_is_known(tmp_path: Path) -> None:
    assert load_replaced([tmp_path]) == Replaced((), (), {})
