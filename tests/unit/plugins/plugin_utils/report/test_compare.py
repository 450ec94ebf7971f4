# SPDX-License-Identifier: Apache-2.0
"""What differs between two reports."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.compare import differences

from tests.unit import report_samples as samples


def told(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["kind"], one["where"], one["what"]) for one in differences(before, after)]


def test_the_same_report_does_not_differ() -> None:
    assert differences(samples.right(), samples.right()) == []


def test_a_node_that_became_sick_and_is_mended() -> None:
    worse = told(samples.right(), samples.sick())
    assert worse[0] == ("worse", "cluster", "verdict")
    assert ("worse", "spark-gamma", "kernel.xid") in worse
    assert ("changed", "spark-gamma", "kernel") in worse
    assert ("better", "spark-gamma", "kernel.xid") in told(samples.sick(), samples.right())


def test_a_failure_on_a_node_that_nobody_looked_at_is_not_better() -> None:
    fixed, before = samples.right(), samples.sick()
    silent, gone, left_out = (copy.deepcopy(fixed) for _ in range(3))
    silent["silent"] = {"spark-gamma": "unreachable"}
    gone["plan"]["hosts"].remove("spark-gamma")
    left_out["checks"].append({"id": "host.answer", "cells": {"spark-alpha": {"status": "pass"}}})
    for document in (silent, gone, left_out):
        for row in document["checks"]:
            row["cells"].pop("spark-gamma", None)
    left_out["checks"][-1]["cells"]["spark-gamma"] = {"status": "could_not_check", "measured": "it was not queried"}
    place = ("better", "spark-gamma", "kernel.xid")
    assert [place in told(before, after) for after in (fixed, silent, gone, left_out)] == [True, False, False, False]


def test_a_gpu_that_was_not_tried_again_is_not_better() -> None:
    before, fixed = samples.right(), samples.right()
    row = next(one for one in before["checks"] if one["id"] == "burn_in.bf16")
    row["cells"]["spark-beta"]["status"] = "fail"
    after = copy.deepcopy(fixed)
    after["burn_in"]["spark-beta"]["problem"] = "no run is on record"
    for one in after["checks"]:
        if one["id"].startswith("burn_in."):
            del one["cells"]["spark-beta"]
    place = ("better", "spark-beta", "burn_in.bf16")
    assert [place in told(before, one) for one in (fixed, after)] == [True, False]


def test_figures_differ_by_more_than_their_runs_do() -> None:
    before, after = samples.right(), samples.right()
    one, other = (found["bench"]["workloads"][0]["points"][1]["summary"] for found in (before, after))
    other["output_tokens_per_s"] = one["output_tokens_per_s"] * 1.03
    assert differences(before, after) == [], "its runs differ by 4 %"
    other["output_tokens_per_s"] = one["output_tokens_per_s"] * 1.1
    other["tpot_ms"] = {"50": one["tpot_ms"]["50"] * 1.2}
    assert told(before, after) == [
        ("worse", "chat, 16 streams", "per token, ms"),
        ("better", "chat, 16 streams", "tokens/s"),
    ]


def test_plan_nodes_and_starts() -> None:
    before = samples.right()
    after = copy.deepcopy(before)
    after["plan"]["revision"] = "other"
    after["plan"]["hosts"] = [*after["plan"]["hosts"][:3], "spark-new"]
    after["startup"]["starts"][0]["seconds"] = 400
    assert told(before, after) == [
        ("better", "server", "seconds to the first answer"),
        ("changed", "cluster", "revision"),
        ("changed", "spark-delta", "node"),
        ("changed", "spark-new", "node"),
    ]
