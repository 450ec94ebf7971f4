# SPDX-License-Identifier: Apache-2.0
"""The document of a benchmark: figures of a point from its runs, and whether one goes on with another's."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.benchmark.output import PERCENTILES, no_result
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.points import points_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.results import (
    add_run,
    configuration_of,
    is_complete,
    new_document,
    problems_of,
    same_benchmark,
    seeds_of,
    summary_of,
    table_lines,
    unfinished,
    without_problems,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import Workload
from hypothesis import given
from hypothesis import strategies as st

WORKLOAD = Workload("chat", input=1024, output=256, streams=(1, 16), repeats=3)
CLIENT = {"host": "b", "through": "endpoint", "on_head": False}


def figures(speed: float = 100.0, problem: str | None = None, seed: int = 1) -> dict[str, Any]:
    times = {"mean": 1000 / speed, **dict.fromkeys(PERCENTILES, 1000 / speed)}
    return {
        **no_result(10, 20.0),
        "seed": seed,
        "started": "2026-11-18T08:30:00+00:00",
        "completed": 10,
        **dict.fromkeys(("output_tokens_per_s", "total_tokens_per_s", "requests_per_s"), speed),
        **dict.fromkeys(("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"), times),
        "prefix_hit_rate": 0.0,
        "client_load": 0.1,
        "problem": problem,
    }


def document(**configuration: Any) -> dict[str, Any]:
    return new_document("lab", "20261118T083000Z-1f3a", "2026-11-18T08:30:00+00:00", configuration, CLIENT, [WORKLOAD])


def test_the_figures_of_a_point_are_the_median_of_what_counts() -> None:
    runs = [figures(100), figures(500, "client was the bottleneck"), figures(110), figures(104)]
    summary = summary_of(runs)
    assert summary is not None
    assert summary["output_tokens_per_s"] == 104
    assert summary["runs"] == 3
    assert summary["spread"]["output_tokens_per_s"] == pytest.approx(10 / 104, abs=1e-4)
    assert summary["ttft_ms"]["95"] == pytest.approx(1000 / 104)
    assert summary["goodput_requests_per_s"] is None
    assert summary_of([figures(problem="x")]) is None
    assert summary_of([]) is None


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=9))
def test_a_summary_lies_among_its_runs(speeds: list[float]) -> None:
    summary = summary_of([figures(speed) for speed in speeds])
    assert summary is not None
    assert min(speeds) <= summary["output_tokens_per_s"] <= max(speeds)
    assert summary["spread"]["output_tokens_per_s"] >= 0


def test_a_document_grows_run_by_run() -> None:
    made, points = document(), points_of([WORKLOAD])
    for number, point in enumerate(points):
        assert not is_complete(made) or number >= 2
        made = add_run(made, point, figures(100 + number, seed=number))
    assert is_complete(made)
    assert seeds_of(made) == set(range(6))
    assert [point["summary"]["runs"] for point in made["workloads"][0]["points"]] == [3, 3]
    assert json.loads(json.dumps(made)) == made
    lines = table_lines(made)
    assert len(lines) == 3
    assert "16 streams" in lines[2]


def test_what_does_not_count_is_named_and_measured_again() -> None:
    made, (first, *_) = document(), points_of([WORKLOAD])
    made = add_run(made, first, figures(problem="stalled"))
    assert problems_of(made) == ["chat at 1 stream: stalled"]
    assert "not measured" in table_lines(made)[1]
    assert problems_of(without_problems(made)) == []


def test_only_the_same_benchmark_goes_on() -> None:
    one = document(engine="vllm")
    assert same_benchmark(one, document(engine="vllm"))
    assert not same_benchmark(one, document(engine="sglang"))
    other = copy.deepcopy(one)
    other["client"]["host"] = "c"
    assert not same_benchmark(one, other)
    fewer = copy.deepcopy(one)
    fewer["workloads"][0]["points"].pop()
    assert not same_benchmark(one, fewer)


def test_unfinished_documents_the_newest_first(tmp_path: Path) -> None:
    for name, finished in (("20260101", None), ("20260102", "now"), ("20260103", None)):
        (tmp_path / f"{name}.json").write_text(json.dumps({**document(), "run": name, "finished": finished}))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text("[]")
    assert [one["run"] for one in unfinished(tmp_path)] == ["20260103", "20260101"]
    assert unfinished(tmp_path / "not-there") == []


def test_the_configuration_comes_from_the_plan() -> None:
    server = {
        "inference_server_served_name": "tiny",
        "inference_server_image": "firstlight/engine:sha256-00",
        "inference_server_tensor_parallel": 4,
        "inference_server_pipeline_parallel": 1,
        "inference_server_replicas": 2,
    }
    cluster: dict[str, Any] = {
        "head": "a",
        "hosts": ["a", "b"],
        "model": "tiny",
        "engine": "vllm",
        "engine_version": "0.32.0",
    }
    cluster |= {"stack": "lab", "profile": "vllm-ray", "hardware": "gb10", "context": 256, "kv_cache_dtype": "fp8"}
    argv = ["vllm", "serve", "/models/tiny"]
    roles = {
        "inference_server": server,
        "inference_image": {"inference_image_reference": "registry.example/engine@sha256:00"},
        "model_weights": {"model_weights_revision": "2" * 40},
        "nvidia_driver": None,
    }
    plan = {
        "cluster": cluster,
        "roles": roles,
        "host": {"launch": [{"name": "ray", "engine_argv": ["ray"]}, {"name": "server", "engine_argv": argv}]},
        "desired": {"inference_server": {}},
    }
    found = configuration_of({"a": plan, "b": {**plan, "roles": {}}})
    assert found["argv"] == argv
    assert (found["max_model_len"], found["kv_cache_dtype"], found["gpus"]) == (256, "fp8", 8)
    assert found["image"].endswith("@sha256:00")
    assert found["revision"] == "2" * 40
    assert len(found["plan_sha256"]) == 64
    changed = configuration_of({"a": {**plan, "desired": {"x": 1}}, "b": plan})
    assert changed["plan_sha256"] != found["plan_sha256"]
