# SPDX-License-Identifier: Apache-2.0
"""What a monitoring host is given: every series that is asked for exists, and every alert says what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired.monitoring import (
    DCGM_NAMES,
    ENGINE_NAMES,
    NODE_NAMES,
    RAY_NAMES,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.metrics.page import rendered, taken_over
from ansible_collections.firstlight.cluster.plugins.module_utils.metrics.bundle import program
from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.panels import questions
from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.rules import ALERTS, rules_document
from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.scrape import (
    Target,
    render,
    scrape_document,
)

ROOT = Path(__file__).resolve().parents[4]
NAME = re.compile(r"\b((?:firstlight|node|ray)_\w+|vllm:\w+|DCGM_\w+)")
PASSED_ON = (*ENGINE_NAMES, *NODE_NAMES, *RAY_NAMES, *DCGM_NAMES)


def asked() -> set[str]:
    texts = [*questions().values(), *(one.expression for one in ALERTS)]
    return {name for text in texts for name in NAME.findall(text)}


def test_every_series_that_is_asked_for_is_told_or_passed_on() -> None:
    told = set(re.findall(r"firstlight_\w+", program()))
    assert {name for name in asked() if not name.startswith(PASSED_ON) and name not in told} == set()


@pytest.mark.parametrize(("page", "names"), [("engine.txt", ENGINE_NAMES), ("ray.txt", RAY_NAMES)])
def test_what_is_asked_of_engine_and_ray_is_on_their_own_pages(page: str, names: tuple[str, ...]) -> None:
    captured = (ROOT / "molecule/monitoring/files" / page).read_text()
    passed_on = rendered(taken_over(captured, names))
    there = {re.split(r"[{ ]", line, maxsplit=1)[0] for line in passed_on.splitlines() if not line.startswith("#")}
    assert {name for name in asked() if name.startswith(names)} - there == set()


@pytest.mark.parametrize("alert", ALERTS, ids=lambda one: one.name)
def test_an_alert_says_where_and_what_to_do(alert: object) -> None:
    one = next(found for found in ALERTS if found is alert)
    assert one.severity in ("critical", "warning")
    assert "{{ $labels." in one.summary
    assert len(one.remedy) > 20
    assert re.fullmatch(r"\d+[smh]", one.lasts)


def test_every_alert_has_a_test_of_promtool() -> None:
    tests = (ROOT / "molecule" / "monitoring" / "files" / "rules_test.yml").read_text()
    assert [one.name for one in ALERTS if one.name not in tests] == []


def test_names_are_unique() -> None:
    rules = rules_document()["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules) == len(ALERTS)


def test_every_node_is_scraped_under_its_name() -> None:
    targets = [Target("a", "10.0.0.1", 9410, "head"), Target("b", "fd00::2", 9411, "worker")]
    document = yaml.safe_load(render(scrape_document(targets, "lab", "r.yml"), "Words."))
    assert document["rule_files"] == ["r.yml"]
    static = document["scrape_configs"][0]["static_configs"]
    assert [one["targets"] for one in static] == [["10.0.0.1:9410"], ["[fd00::2]:9411"]]
    assert static[1]["labels"] == {"cluster": "lab", "host": "b", "role": "worker"}
