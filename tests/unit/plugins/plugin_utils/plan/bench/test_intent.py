# SPDX-License-Identifier: Apache-2.0
"""What is measured by an intent, and what is refused of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import USUAL, Workload
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.bench.intent import ERRORS, Bench, read_bench

KNOWN = {
    name: Workload(name, input=tokens - 256, output=256, streams=(1,))
    for name, tokens in (("latency", 1280), ("chat", 1280), ("batch", 2304), ("long-context", 30_512))
}


def read(value: Any, now: Any = None, context: int | None = 32_768) -> tuple[Bench | None, PlanErrors]:
    errors = PlanErrors()
    intent = {"firstlight_bench": value, "firstlight_bench_now": now}
    return read_bench({key: one for key, one in intent.items() if one is not None}, KNOWN, context, errors), errors


def names(found: Bench | None) -> list[str]:
    return [one.name for one in found.workloads] if found else []


def test_nothing_said_is_nothing_measured() -> None:
    assert read(None)[0] is None
    assert read(None, now="false")[0] is None


def test_what_is_measured_where_only_a_part_is_said() -> None:
    assert names(read({})[0]) == [*USUAL]
    assert names(read({"gate": ["batch"]})[0]) == ["batch"]
    found, errors = read({"workloads": ["batch", "chat", "batch"], "gate": ["chat"], "repeats": 5})
    assert (names(found), errors.found) == (["batch", "chat"], [])
    assert found is not None
    assert (found.gate, found.repeats, found.after_bring_up) == (("chat",), 5, False)


@pytest.mark.parametrize("now", [True, "true", "yes"])
def test_one_run_may_be_asked_for(now: Any) -> None:
    for value in (None, {}, {"after_bring_up": False}):
        found, _ = read(value, now)
        assert found is not None
        assert found.after_bring_up
        assert found.gate == ()


@pytest.mark.parametrize(
    ("value", "identifier", "remedy"),
    [
        ([], "intent.type", "write firstlight_bench as a mapping"),
        ({"workload": ["chat"]}, "intent.unknown-key", "did you mean workloads?"),
        ({"workloads": "chat"}, "intent.type", "workloads: [latency, chat]"),
        ({"workloads": [1]}, "intent.type", "workloads: [latency, chat]"),
        ({"workloads": ["chta"]}, "bench.workload", "did you mean chat?"),
        ({"gate": ["long_context"]}, "bench.workload", "did you mean long-context?"),
        ({"workloads": ["chat"], "gate": ["batch"]}, "bench.gate", "add it to workloads"),
        ({"repeats": 0}, "bench.repeats", "write 3"),
        ({"repeats": True}, "bench.repeats", "write 3"),
        ({"repeats": "3"}, "bench.repeats", "without quotes"),
        ({"after_bring_up": "yes"}, "intent.type", "write true"),
    ],
)
def test_what_cannot_be_is_refused(value: Any, identifier: str, remedy: str) -> None:
    _, errors = read(value)
    assert [one["id"] for one in errors.found] == [identifier]
    assert remedy in errors.found[0]["remedy"]
    assert identifier in {*ERRORS, "intent.type", "intent.unknown-key"}


def test_what_the_context_cannot_hold_is_refused_on_paper() -> None:
    _, errors = read({"workloads": ["long-context", "chat"]}, context=8192)
    assert [(one["id"], "30512 tokens" in one["found"]) for one in errors.found] == [("bench.workload", True)]
    assert read({"workloads": ["long-context"]}, context=None)[1].found == []
