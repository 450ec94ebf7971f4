# SPDX-License-Identifier: Apache-2.0
"""Recipe 003's ladder as it was measured on an H200: what is kept follows from the figures, by today's rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.decision import by_speed

RECORD: dict[str, Any] = json.loads(
    (Path(__file__).parents[5] / "tests/fixtures/performance/h200-ladder-vllm-0.26.0.json").read_text(encoding="utf-8")
)["tune"]


def test_each_rung_is_decided_again_as_it_was() -> None:
    last: dict[str, Any] = RECORD["baseline"]
    kept: list[str] = []
    for rung in RECORD["rungs"]:
        decision = by_speed(last, rung["summary"], RECORD["workload"]["targets"])
        assert (rung["decision"] == "kept") == decision.kept, rung["name"]
        assert decision.reason in rung["reason"]
        if decision.kept:
            last, kept = rung["summary"], [*kept, rung["name"]]
    assert kept == ["prefix-caching", "weights-fp8"]


def test_the_shared_prompt_is_found_in_the_cache() -> None:
    """800 of 1024 tokens are the same in every prompt; the recipe tells of 71 %."""
    assert RECORD["baseline"]["prefix_hit_rate"] is None, "nothing is looked up while caching is off"
    assert all(0.77 <= rung["summary"]["prefix_hit_rate"] <= 0.79 for rung in RECORD["rungs"])
