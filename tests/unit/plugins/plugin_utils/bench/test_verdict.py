# SPDX-License-Identifier: Apache-2.0
"""What a benchmark comes to: every verdict with its reason, and nothing told that nobody saw."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.evidence import SLOWING, Evidence
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.expected import Expected
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.limits import limits
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.verdict import (
    ENVELOPE,
    NOT_MEASURED,
    PASS,
    PLAN,
    SLOW,
    evaluate,
    gate_lines,
    verdict_lines,
    verdict_of,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ideal import ideal_ports

ORDER = {SLOW: 0, NOT_MEASURED: 1, PASS: 2}
RANGES = {"output_tokens_per_s": (800.0, 1500.0), "tpot_ms.50": (10.0, 20.0)}
ENVELOPES = [
    {
        "name": "others",
        "whose": "somebody",
        "streams": 16,
        "metric": "output_tokens_per_s",
        "low": 1000,
        "high": 2000,
        "input": {"most": 4096},
    },
    {"name": "target", "whose": "a customer", "rate": 200, "metric": "ttft_ms.95", "low": None, "high": 800},
]
RUN: dict[str, Any] = {
    "seed": 1,
    "requests": 160,
    "completed": 160,
    "failed": 0,
    "failures": {},
    "prefix_hit_rate": 0.0,
    "client_load": 0.3,
    "problem": None,
}


def point(
    rate: float = 1200.0, each: float = 15.0, first: float = 300.0, spread: float = 0.0, **own: Any
) -> dict[str, Any]:
    """A point that was measured three times."""
    summary: dict[str, Any] = {
        "runs": 3,
        "output_tokens_per_s": rate,
        "tpot_ms": {"mean": each, "50": each, "95": each, "99": each},
        "ttft_ms": {"mean": first, "50": first, "95": first, "99": first},
        "prefix_hit_rate": 0.0,
        "client_load": 0.3,
        "spread": {"output_tokens_per_s": spread, "ttft_ms": spread, "tpot_ms": spread},
    }
    return {"streams": 16, "rate": None, "runs": [dict(RUN)] * 3, "summary": summary, **own}


def document(*points: Mapping[str, Any], **own: Any) -> dict[str, Any]:
    workload = {"name": "chat", "input": 1024, "output": 256, "prompts": "random", "points": [*points]}
    client = {"host": "spark1", "through": "endpoint", "on_head": False}
    return {"format": 1, "client": client, "workloads": [workload | own]}


def evaluated(found: Mapping[str, Any], ranges: Any = None, envelopes: Any = (), **more: Any) -> dict[str, Any]:
    wanted = Expected(RANGES if ranges is None else ranges, more.pop("share", None), more.pop("why", ""))
    return evaluate(found, lambda *_: wanted, envelopes, **more)


def notes(verdict: Mapping[str, Any]) -> str:
    return " ".join(line["note"] for line in verdict["lines"])


def test_within_the_range_is_a_pass_with_every_comparison() -> None:
    found = evaluated(document(point()), envelopes=ENVELOPES)
    assert (found["verdict"], found["look_at"]) == (PASS, [])
    assert [(one["metric"], one["of"], one["source"]) for one in found["lines"]] == [
        ("output_tokens_per_s", PLAN, "the plan's estimate"),
        ("tpot_ms.50", PLAN, "the plan's estimate"),
        ("output_tokens_per_s", ENVELOPE, "somebody"),
    ]
    first = found["lines"][0]
    assert {key: first[key] for key in ("workload", "streams", "rate", "measured", "low", "high", "verdict")} == {
        "workload": "chat",
        "streams": 16,
        "rate": None,
        "measured": 1200.0,
        "low": 800.0,
        "high": 1500.0,
        "verdict": PASS,
    }


def test_faster_is_a_pass_and_noted() -> None:
    found = evaluated(document(point(rate=3000, each=5)))
    assert found["verdict"] == PASS
    assert [one["note"] for one in found["lines"]] == ["faster than expected"] * 2


@pytest.mark.parametrize("slow", [point(rate=400), point(each=40)])
def test_one_figure_outside_is_slow(slow: dict[str, Any]) -> None:
    found = evaluated(document(slow))
    assert found["verdict"] == SLOW
    assert sorted(one["verdict"] for one in found["lines"]) == [PASS, SLOW]
    assert notes(found).strip() in ("50% below its range", "100% above its range")


def test_slow_for_others_is_slow_where_the_plan_is_content() -> None:
    found = evaluated(document(point(rate=900)), envelopes=ENVELOPES)
    assert {one["of"]: one["verdict"] for one in found["lines"]} == {PLAN: PASS, ENVELOPE: SLOW}
    assert found["verdict"] == SLOW


def test_an_envelope_counts_only_for_what_it_speaks_of() -> None:
    found = evaluated(document(point(rate=900, first=5000), point(streams=4)), envelopes=ENVELOPES)
    assert [one["streams"] for one in found["lines"] if one["of"] == ENVELOPE] == [16]
    assert not [
        one for one in evaluated(document(point(), input=8192), envelopes=ENVELOPES)["lines"] if one["of"] == ENVELOPE
    ]
    at_rate = evaluated(document(point(first=900) | {"streams": None, "rate": 200}), {}, ENVELOPES)
    assert [(one["metric"], one["verdict"]) for one in at_rate["lines"]] == [("ttft_ms.95", SLOW)]
    assert "at most 800 (a customer)" in verdict_lines(at_rate)[1]


def test_the_spread_of_the_runs_counts() -> None:
    assert evaluated(document(point(rate=760, spread=0.1)))["verdict"] == PASS
    assert evaluated(document(point(rate=700, spread=0.1)))["verdict"] == SLOW
    unsteady = evaluated(document(point(rate=700, spread=0.4)))
    assert unsteady["verdict"] == NOT_MEASURED
    assert "differ by 40%" in notes(unsteady)
    assert evaluated(document(point(rate=300, spread=0.4)))["verdict"] == SLOW


def test_figures_that_say_nothing_of_the_server_are_no_verdict() -> None:
    fast = point(rate=9000)
    fast["summary"]["prefix_hit_rate"] = 0.8
    found = evaluated(document(fast))
    assert (found["verdict"], len(found["lines"])) == (NOT_MEASURED, 1)
    assert "80% of the tokens of random prompts were in the prefix cache, expected at most 10%" in notes(found)


def test_a_warm_cache_is_what_conversations_are_for() -> None:
    warm = point()
    warm["summary"]["prefix_hit_rate"] = 0.7
    assert evaluated(document(warm, prompts="conversations"))["verdict"] == PASS
    assert evaluated(document(warm, prefix=800))["verdict"] == PASS


def test_a_point_without_a_run_that_counts_says_why() -> None:
    broken = {**RUN, "problem": "the server answered nothing for 300 s"}
    found = evaluated(document(point(runs=[broken, broken], summary=None)))
    assert found["verdict"] == NOT_MEASURED
    assert notes(found) == "the server answered nothing for 300 s"
    assert notes(evaluated(document(point(runs=[], summary=None)))) == "no run was finished"


def test_nothing_to_compare_with_is_no_verdict_by_itself() -> None:
    alone = evaluated(document(point()), {}, why="hardware mine lacks tflops")
    assert alone["verdict"] == NOT_MEASURED
    assert alone["lines"][0]["measured"] == 1200.0
    assert "hardware mine lacks tflops" in notes(alone)
    beside = [*evaluated(document(point()))["lines"], *alone["lines"]]
    assert verdict_of(beside) == PASS
    assert verdict_of([]) == NOT_MEASURED


def test_a_gate_fails_by_slow_and_by_not_measured_and_by_what_is_not_there() -> None:
    found = evaluated(document(point(rate=400)))
    assert gate_lines(found, ()) == []
    assert gate_lines(evaluated(document(point())), ("chat",)) == []
    told = gate_lines(found, ("chat",))
    assert told[0].startswith("chat, 16 streams: slow: tokens/s 400, expected 800 to 1500 (the plan's estimate)")
    assert told[1:] == found["look_at"]
    assert gate_lines(found, ("batch",))[0] == "batch: not measured: it is not among the results"
    warm = point()
    warm["summary"]["prefix_hit_rate"] = 0.8
    assert "it is warm" in gate_lines(evaluated(document(warm)), ("chat",))[0]


_rate = st.floats(1, 1e5)
_spread = st.sampled_from([0.0, 0.05, limits()["spread"], 0.6, 3.0])


@given(_rate, _rate, _spread)
def test_fewer_tokens_never_get_a_better_verdict(one: float, other: float, spread: float) -> None:
    slow, fast = sorted((one, other))
    ranges = {"output_tokens_per_s": (800.0, 1500.0)}
    worse, better = (evaluated(document(point(rate=rate, spread=spread)), ranges)["verdict"] for rate in (slow, fast))
    assert ORDER[worse] <= ORDER[better]


@given(_rate, _rate, _spread)
def test_more_time_never_gets_a_better_verdict(one: float, other: float, spread: float) -> None:
    fast, slow = sorted((one, other))
    ranges = {"ttft_ms.50": (80.0, 120.0), "tpot_ms.50": (10.0, 20.0)}
    worse, better = (
        evaluated(document(point(each=time / 10, first=time, spread=spread)), ranges)["verdict"]
        for time in (slow, fast)
    )
    assert ORDER[worse] <= ORDER[better]


# What to look at first.

PORTS = ("enp1s0f1np1", "enP2p1s0f1np1")


def plan(rails: int = 2) -> dict[str, Any]:
    fabric = [{"port": name, "address": f"192.168.{100 + at}.10/24", "mtu": 9000} for at, name in enumerate(PORTS)]
    return {"host": {"fabric": fabric[:rails]}, "fabric": {"speed_mbit": 200000}}


def observation(speed: int | None = 200000, carrier: bool = True, **failed: str) -> dict[str, Any]:
    rails = {name: {"port": name, "mtu": 9000, "cage": 1, "half": half} for half, name in enumerate(PORTS)}
    ports = {name: one | {"carrier": carrier, "speed_mbit": speed} for name, one in ideal_ports(rails, {}).items()}
    checks = [{"id": "gpu.throttle", "verdict": "pass", "expected": "no", "observed": "none", "remedy": ""}]
    checks += [
        {"id": name.replace("_", ".", 1), "verdict": "fail", "expected": "right", "observed": seen, "remedy": "fix it"}
        for name, seen in failed.items()
    ]
    return {"fabric": ports, "gpu_health": {"checks": checks}}


def looks(seen: Mapping[str, Any], *, plans: Any = None, share: float | None = None, **run: Any) -> list[str]:
    """What is listed for a slow benchmark of two hosts."""
    own = {**RUN, "preemptions": 0, "kv_cache_used": 0.5, **run}
    found = document(point(rate=400, runs=[own] * 3))
    if run.get("on_head"):
        found["client"]["on_head"] = True
    hosts = plans or {"spark0": plan(), "spark1": plan()}
    return list(evaluated(found, share=share, evidence=Evidence(hosts, seen, 2))["look_at"])


WELL = {"spark0": observation(), "spark1": observation()}


def test_a_cluster_that_shows_nothing_has_nothing_to_look_at() -> None:
    assert looks(WELL) == []


SIGNS: dict[str, tuple[dict[str, Any], str]] = {
    "half": (
        {"seen": {**WELL, "spark1": observation(100000)}},
        "spark1: enp1s0f1np1 and enP2p1s0f1np1 at 100 of 200 Gb/s (half its rate)",
    ),
    "down": ({"seen": {**WELL, "spark0": observation(carrier=False)}}, "carrier"),
    "rail": ({"plans": {"spark0": plan(1), "spark1": plan(1)}}, "the plan uses 1 rail of the 2 ports"),
    "hot": ({"seen": {**WELL, "spark1": observation(gpu_throttle="held down")}}, "spark1: gpu.throttle is held down"),
    "power": ({"seen": {**WELL, "spark1": observation(gpu_power_limit="300 W")}}, "gpu.power_limit is 300 W"),
    "preempted": ({"preemptions": 40}, "120 preemptions in 480 requests"),
    "full": ({"kv_cache_used": 0.99}, "the KV cache was 99% full"),
    "communication": ({"share": 0.4}, "by the estimate, all-reduces take 40% of a step"),
    "client": ({"on_head": True}, "the client ran on the head (spark1)"),
    "failures": ({"failed": 1, "failures": {"timeout": 1}}, "3 of 480 requests failed (timeout)"),
}
LIKELIEST = ("half", "down", "rail", "hot", "power", "preempted", "full", "communication", "client", "failures")


@pytest.mark.parametrize("name", SIGNS)
def test_each_sign_is_listed_with_its_evidence_and_alone(name: str) -> None:
    change, words = SIGNS[name]
    told = [one for one in looks(**{"seen": WELL, **change}) if not one.startswith("not known")]
    assert told
    assert all(words in one for one in told)
    for other, (_, foreign) in SIGNS.items():
        assert other == name or not any(foreign in one for one in told)


@given(st.sets(st.sampled_from([name for name in SIGNS if name not in ("half", "down", "hot", "power")])))
def test_signs_come_in_one_order_and_none_without_its_evidence(names: set[str]) -> None:
    changes: dict[str, Any] = {"seen": WELL}
    for name in names:
        changes |= SIGNS[name][0]
    told = [one for one in looks(**changes) if not one.startswith("not known")]
    shown = [name for one in told for name in LIKELIEST if SIGNS[name][1] in one]
    # A full cache is told by what it cost, where that is known.
    assert shown == [name for name in LIKELIEST if name in names and not (name == "full" and "preempted" in names)]
    assert len(told) == len(shown)


def test_what_nobody_looked_at_is_not_known() -> None:
    told = looks({"spark0": observation()}, preemptions=None, kv_cache_used=None)
    (line,) = told
    assert line == (
        "not known: the speed of the links of spark1; what limits the clocks of the GPUs on spark1; "
        "how full the KV cache was, and whether requests were preempted"
    )
    nowhere = evaluated(document(point(rate=400)))["look_at"]
    assert len(nowhere) == 1
    assert "no host was observed" in nowhere[0]


def test_one_host_has_no_fabric_to_look_at() -> None:
    told = looks({"h100": {"gpu_health": {"checks": []}}}, plans={"h100": {"host": {"fabric": []}}})
    assert told == ["not known: what limits the clocks of the GPUs on h100"]


@pytest.mark.parametrize(
    "rubbish",
    [
        None,
        [],
        "no",
        {"fabric": [], "gpu_health": "no"},
        {"fabric": {}, "gpu_health": {}},
        {"fabric": {PORTS[0]: 1}, "gpu_health": {"checks": [1, {}]}},
    ],
)
def test_a_host_that_tells_rubbish_is_no_evidence(rubbish: Any) -> None:
    told = looks({**WELL, "spark1": rubbish})
    assert all(one.startswith(("not known", "spark1: rail")) for one in told)
    assert "what limits the clocks of the GPUs on spark1" in told[-1]


def test_a_slow_verdict_changes_nothing_that_it_is_given() -> None:
    given_document = document(point(rate=400))
    before = copy.deepcopy(given_document)
    evaluated(given_document, evidence=Evidence({"spark0": plan()}, dict(itertools.islice(WELL.items(), 1)), 2))
    assert given_document == before
    assert SLOWING[0] == "gpu.throttle"
