# SPDX-License-Identifier: Apache-2.0
"""What layouts are compared with beside what is measured: traces and prices."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN

from firstlight.cli import build_parser
from firstlight.errors import UsageError
from firstlight.layouts_lab import _prices, _replicas, _traced
from firstlight.trials import PlaybookTrial

LAYOUTS = [(1, 1), (4, 1), (2, 2)]


def test_traces_are_those_of_the_directory_with_the_layouts_name(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 7, "ts": 0, "dur": 5}
    for name, other in (("tp4", 15), ("tp2pp2", 5)):
        (tmp_path / name).mkdir()
        events = [event, {**event, "name": "gemm", "ts": 5, "dur": other}]
        (tmp_path / name / "rank0.pt.trace.json").write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    found = _traced(str(tmp_path), LAYOUTS)
    assert found == {(4, 1): {"share": 0.25, "source": "profiler"}, (2, 2): {"share": 0.5, "source": "profiler"}}
    assert _traced("", LAYOUTS) == {}


def test_traces_that_say_nothing_end_it_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected traces in tp1, tp4, tp2pp2"):
        _traced(str(tmp_path), LAYOUTS)
    (tmp_path / "tp4").mkdir()
    with pytest.raises(UsageError, match="no trace with a GPU kernel"):
        _traced(str(tmp_path), LAYOUTS)


@pytest.mark.slow  # a plan
def test_replicas_have_gpus_of_their_own(tmp_path: Path) -> None:
    arguments = build_parser("bench").parse_args(["bench", "-i", "inventory/h100x4", "-e", "plan_model=gpt-oss-120b"])
    trial = PlaybookTrial(arguments, {}, {}, tmp_path / "answers.json")
    layout = {"tensor_parallel": 2, "pipeline_parallel": 1}
    assert _replicas(trial, layout) == 1
    assert _replicas(trial, {**layout, "profile": "vllm-replicas", "replicas": 2}) == 2


@pytest.mark.parametrize(
    ("told", "inventory", "hardware", "price", "currency"),
    [
        (2.5, 3.0, "h100-sxm-8", 2.5, None),
        (None, 3.0, "h100-sxm-8", 3.0, None),
        (None, None, "h100-sxm-8", 4.0, "USD"),
        (None, None, "gb10", None, None),
    ],
)
def test_the_price_that_is_told_comes_first(
    told: float | None, inventory: float | None, hardware: str, price: float | None, currency: str | None
) -> None:
    plan = SimpleNamespace(served={"price_per_gpu_hour": inventory})
    cluster: Any = SimpleNamespace(catalogs=[BUILT_IN], plan=plan, configuration={"hardware": hardware})
    assert _prices(argparse.Namespace(gpu_hour=told), cluster) == {"gpu_hour": price, "currency": currency}
