# SPDX-License-Identifier: Apache-2.0
"""What an intent may say of the service."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.targets import read_targets


def read(value: Any) -> tuple[dict[str, float], list[dict[str, Any]]]:
    errors = PlanErrors()
    found = read_targets({} if value is None else {"firstlight_targets": value}, errors)
    return found, [dict(one) for one in errors.found]


def test_there_are_no_targets_but_those_that_are_set() -> None:
    assert read(None) == ({}, [])
    assert read({}) == ({}, [])
    given = {"ttft_p95_ms": 800, "tpot_p95_ms": 37.5, "e2e_p95_ms": 20000, "queue": 0, "prefix_hit_rate": 0.3}
    assert read(given) == (given, [])
    assert read({"ttft_p95_ms": 800, "queue": None}) == ({"ttft_p95_ms": 800}, [])


@pytest.mark.parametrize(
    ("targets", "identifier", "words"),
    [
        (800, "intent.type", "a mapping"),
        ([], "intent.type", "a mapping"),
        ({"ttft_p95": 800}, "intent.unknown-key", "did you mean ttft_p95_ms?"),
        ({"ttft_p95_ms": "800 ms"}, "targets.value", "without quotes and unit"),
        ({"ttft_p95_ms": "800"}, "targets.value", "without quotes"),
        ({"ttft_p95_ms": 0}, "targets.value", "from 1 to"),
        ({"tpot_p95_ms": -1}, "targets.value", "from 1 to"),
        ({"tpot_p95_ms": True}, "targets.value", "from 1 to"),
        ({"e2e_p95_ms": float("nan")}, "targets.value", "from 1 to"),
        ({"e2e_p95_ms": float("inf")}, "targets.value", "from 1 to"),
        ({"queue": 1.5}, "targets.value", "a whole number"),
        ({"queue": -1}, "targets.value", "a whole number"),
        ({"prefix_hit_rate": 30}, "targets.value", "write 30 % as prefix_hit_rate: 0.3"),
        ({"prefix_hit_rate": "30%"}, "targets.value", "from 0 to 1"),
    ],
)
def test_what_is_no_target_is_refused(targets: Any, identifier: str, words: str) -> None:
    found, refused = read(targets)
    assert found == {}
    assert [one["id"] for one in refused] == [identifier]
    assert words in " ".join(map(str, refused[0].values()))
