# SPDX-License-Identifier: Apache-2.0
"""Predicted speed against benchmarks of a real vLLM on a real H200, every recorded point."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice import performance
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.closed_loop import Demand, Seen, simulate
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.model_load import load_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.performance import (
    Group,
    ModelLoad,
    serve,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.config import read_config

ROOT = Path(__file__).parents[6]
RECORD = json.loads((ROOT / "tests/fixtures/performance/h200-vllm-0.26.0.json").read_text(encoding="utf-8"))["models"]
H200 = load_catalog([ROOT / "catalog"])["hardware"]["h200-sxm-1"]
POINTS = [(name, point) for name, one in RECORD.items() for point in one["points"]]
OLD = {"MEMORY_EFFICIENCY": 0.8, "COMPUTE_EFFICIENCY": 0.55, "KERNEL_SECONDS_PER_LAYER": 50e-6, "STEP_SECONDS": 1e-3}


def load(name: str) -> ModelLoad:
    shape = read_config(RECORD[name]["config"], name, PlanErrors())
    assert shape is not None
    found = load_of(shape, "auto")
    if found.experts and found.precision == "fp8":
        # The dummy weights in FP8 made all tokens equal to the router: a step over 64 tokens took less time than
        # reading the experts that 64 different ones choose takes at the full bandwidth.
        return replace(found, experts=replace(found.experts, alike=True))
    return found


def seen(name: str, point: dict[str, Any]) -> Seen:
    group = Group(load(name), H200, tensor_parallel=1)
    return simulate(group, Demand(point["input"], point["output"], point["concurrency"], slots=1024))


def named(value: object) -> str | None:
    return f"{value['concurrency']}x{value['input']}+{value['output']}" if isinstance(value, dict) else None


@pytest.mark.parametrize(("name", "point"), POINTS, ids=named)
def test_speed_of_a_server_on_an_h200(name: str, point: dict[str, Any]) -> None:
    found, mixture = seen(name, point), RECORD[name]["config"].keys() & {"num_experts", "num_local_experts"}
    # At 16 streams a kernel of the mixtures was compiled while they served, says their log: seconds of few.
    near = (0.3 if point["concurrency"] == 16 else 0.15) if mixture else 0.08
    assert found.output_tokens_per_s == pytest.approx(point["output_tokens_per_s"], rel=near)
    assert found.tpot_seconds * 1e3 == pytest.approx(point["tpot_ms"]["50"], rel=0.14 if mixture else 0.08)
    # First tokens at 16 streams depend on how the streams fall into step, which differs from run to run.
    assert found.ttft_seconds * 1e3 == pytest.approx(point["ttft_ms"]["50"], rel=0.35 if mixture else 0.25)


SGLANG = json.loads((ROOT / "tests/fixtures/performance/h200-sglang-0.5.16.json").read_text(encoding="utf-8"))["points"]


@pytest.mark.parametrize("point", [one for one in SGLANG if one["rate"] is None and one["input"]], ids=named)
def test_speed_of_sglang_on_an_h200(point: dict[str, Any]) -> None:
    """It admits prompts in another order, so that first tokens differ; nothing was calibrated on it."""
    found = seen("llama-8b", point)
    assert found.output_tokens_per_s == pytest.approx(point["output_tokens_per_s"], rel=0.15)
    assert found.tpot_seconds * 1e3 == pytest.approx(point["tpot_ms"]["50"], rel=0.1)


def test_speed_of_requests_that_arrive_at_random() -> None:
    point = next(one for one in SGLANG if one["rate"])
    group = Group(load("llama-8b"), H200, tensor_parallel=1)
    for clients in (64, 512):
        asked = Demand(point["input"], point["output"], clients, slots=1024, rate=point["rate"])
        found = simulate(group, asked)
        assert found.output_tokens_per_s == pytest.approx(point["output_tokens_per_s"], rel=0.1)
        assert found.tpot_seconds * 1e3 == pytest.approx(point["tpot_ms"]["50"], rel=0.1)
        assert found.ttft_seconds * 1e3 == pytest.approx(point["ttft_ms"]["50"], rel=0.25)


def test_a_step_over_equal_tokens_only_explains_the_mixture_in_fp8() -> None:
    """What `load` says of the dummy weights: 64 different tokens would need longer even at the nominal bandwidth."""
    name = "qwen3-30b-a3b-fp8"
    point = next(one for one in RECORD[name]["points"] if one["concurrency"] == 64)
    equal = load(name)
    assert equal.experts is not None
    spread = replace(equal, experts=replace(equal.experts, alike=False))
    assert Group(spread, H200, tensor_parallel=1).step(64, 1152).nominal_seconds * 1e3 > point["itl_ms"]["50"]


@pytest.mark.parametrize("constant", [*OLD, None])
def test_the_constants_before_the_calibration_do_not_hold(
    constant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them alone is off by more than 2 % at one stream or 16, all together by more than 10 %."""
    points = [(name, point) for name, point in POINTS if name.startswith("llama") and point["concurrency"] in (1, 16)]

    def error() -> float:
        ratios: list[float] = [
            seen(name, point).output_tokens_per_s / point["output_tokens_per_s"] for name, point in points
        ]
        return sum(abs(one - 1) for one in ratios) / len(ratios)

    today = error()
    assert today < 0.03
    for name, value in OLD.items():
        if constant in (name, None):
            monkeypatch.setattr(performance, name, value)
    assert error() > (today + 0.01 if constant else 0.1)


@pytest.mark.parametrize(("name", "point"), POINTS, ids=named)
def test_the_plans_formula_says_the_same_as_the_scheduler(name: str, point: dict[str, Any]) -> None:
    """Advice weighs many layouts and takes a formula; it must not tell another story than `firstlight estimate`."""
    size: dict[str, int] = {"batch": point["concurrency"], "prompt": point["input"], "output": point["output"]}
    formula = serve(load(name), H200, tensor_parallel=1, **size)
    assert formula.tokens_per_s == pytest.approx(seen(name, point).output_tokens_per_s, rel=0.06)


@pytest.mark.parametrize("name", RECORD)
def test_the_batch_of_the_plan_is_what_the_gpu_does(name: str) -> None:
    """The figure of many short requests, by the plan's own formula."""
    point = max(RECORD[name]["points"], key=lambda one: one["output_tokens_per_s"])
    size: dict[str, int] = {"batch": point["concurrency"], "prompt": point["input"], "output": point["output"]}
    found = serve(load(name), H200, tensor_parallel=1, **size).tokens_per_s
    assert found == pytest.approx(point["output_tokens_per_s"], rel=0.2)
