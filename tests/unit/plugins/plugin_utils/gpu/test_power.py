# SPDX-License-Identifier: Apache-2.0
"""What all hosts found together: power against a budget, and the same bits everywhere."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu.burn_in_cluster import evaluate_cluster
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu.power import cluster_checks, host_draw, paper_draw

ROOT = Path(__file__).parents[5]
RUN = json.loads((ROOT / "tests/fixtures/gpu-burn-in/h200.json").read_text(encoding="utf-8"))
HGX = {"gpus": 8, "power_limit_w": 700, "host_power_w": {"sustained": 10200, "transient": None}}
SPARK = {"gpus": 1, "power_limit_w": None, "host_power_w": {"sustained": None, "transient": 240}}
OTHERS = {"gpus": 1, "power_limit_w": 700, "host_power_w": {"sustained": None, "transient": None}}


def run_of(gpus: int = 8, limit: float | None = 700.0, digest: str | None = None) -> dict[str, Any]:
    document: dict[str, Any] = copy.deepcopy(RUN)
    for load in document["gpus"][0]["load"].values():
        load["power_limit_w"] = limit
    for one in document["gpus"][0]["answers"].values():
        one["digests"] = [digest or "a" * 64]
    document["gpus"] = [{**document["gpus"][0], "index": index} for index in range(gpus)]
    return document


@pytest.mark.parametrize(
    ("hardware", "measured", "other", "draw"),
    [
        (HGX, run_of(), None, (10200.0, True)),
        (HGX, run_of(limit=500.0), None, (8600.0, True)),  # lowered by hand, so that it may take less
        (HGX, None, None, (10200.0, True)),  # not tried yet: the profile's limits
        (HGX, run_of(), 1000, (6600.0, True)),
        (OTHERS, run_of(1), None, (700.0, False)),
        (OTHERS, run_of(1), 300, (1000.0, True)),
        (SPARK, run_of(1, limit=None), None, (240.0, True)),
        (SPARK, run_of(1, limit=None), 40, (736.22, True)),  # the most that was drawn
        ({}, None, None, (0, False)),
    ],
)
def test_what_a_host_may_take(hardware: Any, measured: Any, other: Any, draw: tuple[float, bool]) -> None:
    assert host_draw({"hardware": hardware, "measured": measured}, other) == pytest.approx(draw)


def verdicts(results: dict[str, Any], budget: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {
        host: {one["id"]: one["verdict"] for one in checks} for host, checks in cluster_checks(results, budget).items()
    }


def test_a_rack_is_evaluated_by_all_its_hosts() -> None:
    two = {host: {"hardware": HGX, "measured": run_of()} for host in ("h0", "h1")}
    assert verdicts(two, {"rack_w": 21000})["h0"]["burn_in.rack_power"] == "pass"
    assert verdicts(two, {"rack_w": 17000})["h0"]["burn_in.rack_power"] == "fail"
    assert "burn_in.rack_power" not in verdicts(two, {"rack_w": 17000})["h1"]
    lowered = {host: {"hardware": HGX, "measured": run_of(limit=450.0)} for host in ("h0", "h1")}
    assert verdicts(lowered, {"rack_w": 17000})["h0"]["burn_in.rack_power"] == "pass"


def test_every_rack_is_evaluated_by_its_own_hosts() -> None:
    results = {host: {"hardware": HGX, "measured": run_of()} for host in ("h0", "h1", "h2", "h3")}
    racks = {"a": {"hosts": ["h0", "h2"], "power_w": 21000}, "b": {"hosts": ["h1"]}, "gone": {"hosts": ["h9"]}}
    found = cluster_checks(results, {"racks": racks, "rack_w": 9000})
    told = {
        host: [(one["verdict"], one["observed"]) for one in checks if one["id"] == "burn_in.rack_power"]
        for host, checks in found.items()
    }
    assert told == {
        "h0": [("pass", "2 hosts of rack a may take 20400 W")],
        "h1": [("fail", "the host of rack b may take 10200 W")],
        "h2": [],
        "h3": [("fail", "the host may take 10200 W")],
    }
    assert "burn_in.rack_power" not in verdicts(results, {"racks": {"b": {"hosts": ["h1"]}}})["h1"]


@pytest.mark.parametrize(
    ("hardware", "other", "draw"),
    [
        ({"gpus": 4, "power_limit_w": 700, "host_power_w": {"sustained": 3500, "transient": 4000}}, None, (3500, 4000)),
        ({"gpus": 4, "power_limit_w": 700, "host_power_w": {"sustained": 3500, "transient": 4000}}, 1000, (3800, 4300)),
        (HGX, None, (10200, None)),
        (SPARK, None, (240, 240)),
        (SPARK, 60, (240, 240)),
        (OTHERS, None, (700, None)),
    ],
)
def test_what_a_host_may_take_on_paper(hardware: Any, other: float | None, draw: tuple[float, float | None]) -> None:
    found = paper_draw(hardware, other)
    assert (found.sustained, found.transient) == draw
    assert found.known is (hardware is not OTHERS)


def test_what_is_not_known_of_a_host_is_not_right_but_may_be_wrong() -> None:
    one = {"h0": {"hardware": OTHERS, "measured": run_of(1)}}
    assert verdicts(one, {"host_w": 1000})["h0"] == {"burn_in.host_power": "could_not_check"}
    assert verdicts(one, {"host_w": 600})["h0"] == {"burn_in.host_power": "fail"}
    assert verdicts(one, {"host_w": 1000, "other_w": 200})["h0"] == {"burn_in.host_power": "pass"}


def test_without_a_budget_nothing_is_evaluated() -> None:
    assert verdicts({"h0": {"hardware": HGX, "measured": run_of()}}, {}) == {"h0": {}}
    assert verdicts({}, {"rack_w": 1}) == {}


def test_a_host_with_other_bits_is_found() -> None:
    three = {host: {"hardware": SPARK, "measured": run_of(1)} for host in ("s0", "s1", "s2")}
    assert {one["burn_in.same_answer"] for one in verdicts(three, {}).values()} == {"pass"}
    three["s1"]["measured"] = run_of(1, digest="b" * 64)
    found = verdicts(three, {})
    assert [found[host]["burn_in.same_answer"] for host in ("s0", "s1", "s2")] == ["pass", "fail", "pass"]
    # Of two nobody knows which one is wrong.
    two = verdicts({host: three[host] for host in ("s0", "s1")}, {})
    assert {one["burn_in.same_answer"] for one in two.values()} == {"fail"}


def test_hosts_that_computed_with_something_else_are_not_compared() -> None:
    other = {**run_of(1, digest="b" * 64), "torch": "2.9.0"}
    assert verdicts({"s0": {"measured": run_of(1)}, "s1": {"measured": other}}, {}) == {"s0": {}, "s1": {}}


def test_records_have_every_check_and_the_words_only_what_is_wrong_together() -> None:
    own = {"id": "burn_in.bf16", "expected": "x", "observed": "y", "verdict": "fail", "remedy": "z", "command": None}
    results: dict[str, dict[str, Any]] = {
        "h0": {"hardware": HGX, "measured": run_of(), "checks": [own]},
        "h1": {"hardware": HGX, "measured": {}},
    }
    evaluated = evaluate_cluster(results, {"rack_w": 100})
    assert [one["id"] for one in evaluated["records"]["h0"]] == ["burn_in.bf16", "burn_in.rack_power"]
    assert {one["host"] for one in evaluated["records"]["h0"]} == {"h0"}
    assert len(evaluated["wrong"]) == 1
    assert evaluated["wrong"][0].startswith(
        "h0: burn_in.rack_power fails: 2 hosts may take 20400 W, expected at most 100 W"
    )
    assert evaluate_cluster(results, {"rack_w": 100}, ["burn_in.rack_power"])["wrong"] == []
