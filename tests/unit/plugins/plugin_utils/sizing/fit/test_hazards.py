# SPDX-License-Identifier: Apache-2.0
"""Known hazards: refused, avoided or told, in the versions and on the hardware that have them, and looked at again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import EngineSchema, load_schema
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.written import written
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.hazards import (
    Case,
    Precautions,
    check_hazards,
    load_hazards,
    overdue,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.config import read_config
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape

ROOT = Path(__file__).parents[6]
MODELS = load_catalog([ROOT / "catalog"])["models"]
HAZARDS, _ = load_hazards([ROOT / "catalog"])
QWEN = "qwen3.5-397b-a17b-fp8"


def shape_of(name: str) -> ModelShape:
    shape = read_config(MODELS[name]["config"], name, PlanErrors())
    assert shape is not None
    return shape


SHAPES = {name: shape_of(name) for name in MODELS}


def schema(version: str) -> EngineSchema:
    found = load_schema([ROOT / "catalog" / "engines"], "vllm", version)
    assert found is not None
    return found


SCHEMA = schema("0.32.0")


def check(
    model: str, flags: Sequence[str] = (), hazards: Sequence[Any] = HAZARDS, **case: Any
) -> tuple[Precautions, list[str]]:
    errors = PlanErrors()
    made = Case(SHAPES[model], flags=written(SCHEMA, flags), **{"version": "0.32.0", **case})
    found = check_hazards(made, hazards, errors)
    assert all(one["id"] == "hazard.known" and all(one.values()) for one in errors.found)
    return found, [one["found"].partition(":")[0] for one in errors.found]


def refused(model: str, **case: Any) -> list[str]:
    return check(model, **case)[1]


def test_expert_parallel_with_experts_in_fp8_is_refused() -> None:
    name = "expert-parallel-fp8-moe"
    for version in (None, "0.8.5", "0.32.0", "0.32.0+cu130", "1.0"):
        assert refused(QWEN, expert_parallel=True, version=version) == [name]
    assert refused(QWEN, expert_parallel=True, version="0.7.3") == []
    assert refused(QWEN, expert_parallel=True, engine="sglang") == []
    assert refused("deepseek-v4-flash", expert_parallel=True) == []
    assert refused(QWEN) == []


class TestDeepGemm:
    """It is chosen for FP8 experts on compute capability 12, where it answers worse or faults."""

    @pytest.mark.parametrize("version", ["0.24.0", "0.31.0", "0.32.0", None])
    def test_the_experts_of_a_gb10_get_other_kernels(self, version: str | None) -> None:
        found, nothing = check(QWEN, compute_capability="12.1", version=version)
        assert nothing == []
        assert found.flags == ("--moe-backend", "triton")
        assert found.environment == {"VLLM_USE_DEEP_GEMM": "0"}
        assert any("the plan adds --moe-backend triton" in note for note in found.notes)
        assert {one["name"] for one in found.met} == {"deep-gemm-experts-sm12x", "deep-gemm-linear-sm12x"}

    @pytest.mark.parametrize("version", ["0.31.0", "0.32.0"])
    def test_the_engines_that_are_pinned_know_the_flag_and_its_value(self, version: str) -> None:
        known = {flag.name: flag for flag in schema(version).flags}
        assert "triton" in (known["--moe-backend"].choices or ())

    @pytest.mark.parametrize(
        "case",
        [
            {"compute_capability": "9.0"},
            {"compute_capability": "10.0"},
            {"compute_capability": None},
            {"compute_capability": "12.1", "version": "0.23.0"},
            {"compute_capability": "12.1", "engine": "sglang"},
        ],
    )
    def test_elsewhere_nothing_is_added(self, case: dict[str, Any]) -> None:
        found, nothing = check(QWEN, **case)
        assert (found, nothing) == (Precautions(), [])

    def test_a_dense_model_has_no_experts_and_one_without_fp8_no_such_kernels(self) -> None:
        assert check("qwen2.5-72b-block-fp8", compute_capability="12.1")[0].flags == ()
        assert check("qwen2.5-72b-block-fp8", compute_capability="12.1")[0].environment
        assert check("llama-3.3-70b", compute_capability="12.1")[0] == Precautions()

    def test_a_model_that_needs_deep_gemm_keeps_it(self) -> None:
        assert check("deepseek-v4-flash", compute_capability="12.1")[0] == Precautions()

    @pytest.mark.parametrize(
        "flags", [["--moe-backend", "deep_gemm"], ["--moe-backend=DEEP-GEMM"], ["--moe_backend", "auto"]]
    )
    def test_who_asks_for_it_is_refused(self, flags: list[str]) -> None:
        found, names = check(QWEN, flags, compute_capability="12.1")
        assert names == ["deep-gemm-experts-sm12x"]
        assert found.flags == ()
        assert "deep-gemm-experts-sm12x" in {one["name"] for one in found.met}, "so that an old one is told of, too"

    @pytest.mark.parametrize("backend", ["triton", "marlin", "flashinfer_cutlass"])
    def test_who_has_chosen_other_kernels_keeps_them(self, backend: str) -> None:
        found, names = check(QWEN, ["--moe-backend", backend], compute_capability="12.1")
        assert (found.flags, names) == ((), [])


class TestTold:
    """What reports disagree about is told, not refused."""

    def test_flashinfer_attention(self) -> None:
        found, names = check(QWEN, ["--attention-backend", "flashinfer"], compute_capability="12.1")
        assert names == []
        assert any("leave --attention-backend out" in note for note in found.notes)
        for flags in ([], ["--attention-backend", "FLASH_ATTN"]):
            assert not any("FlashInfer" in note for note in check(QWEN, flags, compute_capability="12.1")[0].notes)
        assert check(QWEN, ["--attention-backend", "FLASHINFER"], compute_capability="9.0")[0] == Precautions()
        assert check("llama-3.3-70b", ["--attention-backend", "FLASHINFER"], compute_capability="12.1")[0].notes == ()

    @pytest.mark.parametrize(
        ("kv_cache", "told"), [("fp8", True), ("FP8_E4M3", True), ("auto", False), ("bfloat16", False)]
    )
    def test_an_fp8_cache_asks_for_its_proof(self, kv_cache: str, told: bool) -> None:
        found, names = check(QWEN, kv_cache=kv_cache, compute_capability="9.0")
        assert names == []
        assert any("compare the answers" in note for note in found.notes) == told


class TestReview:
    """A hazard counts until somebody has looked; from its day on the operator is told so."""

    def test_every_built_in_one_has_its_day_and_its_source(self) -> None:
        hazards, problems = load_hazards([ROOT / "catalog"])
        assert problems == []
        for one in hazards:
            assert dt.date.fromisoformat(one["review_by"]) > dt.date.fromisoformat(one["date"])
            assert "http" in one["source"]

    def test_from_the_day_on_it_is_told(self) -> None:
        met = [{"name": "a", "review_by": "2027-02-15", "source": "https://x"}]
        assert overdue(met, dt.date(2027, 2, 15)) == []
        (told,) = overdue(met, dt.date(2027, 2, 16))
        assert "hazard a was due for review by 2027-02-15" in told
        assert "https://x" in told

    def test_a_day_without_quotes_is_a_day_too(self, tmp_path: Path) -> None:
        moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        entry = {**HAZARDS[0], "review_by": dt.date(2027, 1, 1), "date": moment}
        (tmp_path / "hazards.yml").write_text(yaml.safe_dump([entry]))
        hazards, problems = load_hazards([tmp_path])
        assert problems == []
        met = check(QWEN, hazards=hazards, expert_parallel=True)[0].met
        assert [one["review_by"] for one in met] == ["2027-01-01"]
        assert overdue(met, dt.date(2027, 1, 2))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[", "cannot be read"),
        ("a: 1", "not a list of"),
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
    name = ["expert-parallel-fp8-moe"]
    for version, found in (("0.32.0", []), ("0.29.0", name), ("0.30.0rc1", name), ("0.30", []), ("nightly", name)):
        assert refused(QWEN, hazards=hazards, expert_parallel=True, version=version) == found


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"when": {}},
        {"when": {"weather": "bad"}},
        {"when": {"quantization": "fp8"}},
        {"when": {"compute_capability": [12.1]}},
        {"when": {"flag": {"name": "--x"}}},
        {"why": 5},
        {"before": 0.3},
        {"warn": "yes"},
        {"review_by": "soon"},
        {"date": 2026},
        {"avoid": {"value": "x"}},
        {"avoid": {"flag": "--x", "variable": "X", "value": "x"}},
        {"avoid": {"variable": "X", "value": 0}},
        {"avoid": {"flag": "--x", "value": "x", "refuse": "auto"}},
        {"avoid": {"flag": "--x", "value": "x", "more": "auto"}},
    ],
)
def test_a_wrong_hazard_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    (tmp_path / "hazards.yml").write_text(yaml.safe_dump([{**HAZARDS[0], **change}]))
    hazards, problems = load_hazards([tmp_path])
    assert hazards == []
    assert "item 1" in problems[0]


def test_one_without_its_day_is_refused(tmp_path: Path) -> None:
    entry = {key: value for key, value in HAZARDS[0].items() if key != "review_by"}
    (tmp_path / "hazards.yml").write_text(yaml.safe_dump([entry]))
    assert "lacks review_by" in load_hazards([tmp_path])[1][0]
