# SPDX-License-Identifier: Apache-2.0
"""What a monitoring host is given: every series that is asked for exists, and every alert says what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.panels import (
    GOODPUT,
    ROWS,
    questions,
    rows,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.rules import (
    ALERTS,
    rules_document,
    target_alerts,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.scrape import (
    Target,
    render,
    scrape_document,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.monitoring import (
    DCGM_NAMES,
    ENGINE_NAMES,
    NODE_NAMES,
    RAY_NAMES,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.targets import TARGET_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import program
from ansible_collections.firstlight.cluster.roles.monitoring.program.page import rendered, taken_over

from tests.unit.service_pages import sglang_page

ROOT = Path(__file__).resolve().parents[4]
NAME = re.compile(r"\b((?:firstlight|node|ray)_\w+|(?:vllm|sglang):\w+|DCGM_\w+)")
TARGETS = {"ttft_p95_ms": 800, "tpot_p95_ms": 50, "e2e_p95_ms": 20000, "queue": 16, "prefix_hit_rate": 0.3}
EVERY = (*ALERTS, *target_alerts(TARGETS, "lab"))
PASSED_ON = (*ENGINE_NAMES, *NODE_NAMES, *RAY_NAMES, *DCGM_NAMES)


def asked() -> set[str]:
    texts = [*questions().values(), GOODPUT.question, *(one.expression for one in EVERY)]
    return {name for text in texts for name in NAME.findall(text)}


def test_every_series_that_is_asked_for_is_told_or_passed_on() -> None:
    told = set(re.findall(r"firstlight_\w+", program("monitoring").decode("latin-1")))
    assert {name for name in asked() if not name.startswith(PASSED_ON) and name not in told} == set()


@pytest.mark.parametrize(("page", "names"), [("engine.txt", ENGINE_NAMES), ("ray.txt", RAY_NAMES)])
def test_what_is_asked_of_engine_and_ray_is_on_their_own_pages(page: str, names: tuple[str, ...]) -> None:
    captured = (ROOT / "molecule/monitoring/files" / page).read_text()
    passed_on = rendered(taken_over(captured, names))
    there = {re.split(r"[{ ]", line, maxsplit=1)[0] for line in passed_on.splitlines() if not line.startswith("#")}
    assert {name for name in asked() if name.startswith(names) and not name.startswith("sglang:")} - there == set()


def test_what_is_asked_of_sglang_is_on_its_page() -> None:
    page = sglang_page([0.1], [0.1], [0.1], prompts=10, cached=5)
    there = {re.split(r"[{ ]", line, maxsplit=1)[0] for line in page.splitlines()}
    assert {name for name in asked() if name.startswith("sglang:")} - there == set()


@pytest.mark.parametrize("alert", EVERY, ids=lambda one: one.name)
def test_an_alert_says_where_and_what_to_do(alert: object) -> None:
    one = next(found for found in EVERY if found is alert)
    assert one.severity in ("critical", "warning")
    assert "{{ $labels." in one.summary
    assert len(one.remedy) > 20
    assert re.fullmatch(r"\d+[smh]", one.lasts)


def test_every_alert_has_a_test_of_promtool() -> None:
    files = (ROOT / "molecule" / "monitoring" / "files").glob("*_test.yml")
    tests = "".join(path.read_text() for path in files)
    assert [one.name for one in EVERY if one.name not in tests] == []


def test_names_are_unique() -> None:
    rules = rules_document(TARGETS, "lab")["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules) == len(EVERY)


def test_nothing_alerts_on_a_target_that_is_not_set() -> None:
    assert len(rules_document({}, "lab")["groups"][0]["rules"]) == len(ALERTS)
    assert [one.name for one in target_alerts({"queue": 3}, "lab")] == ["FirstlightQueueLong"]
    assert len(EVERY) == len(ALERTS) + len(TARGET_KEYS)


def test_a_target_is_that_of_its_own_cluster() -> None:
    for one in target_alerts(TARGETS, 'rack "7"'):
        assert one.expression.count(r'cluster="rack \"7\""') >= 2
        assert "rate(" not in one.expression or "{cluster=" in one.expression
    first = target_alerts(TARGETS, "lab")[0]
    assert first.expression.endswith("> 0.8")
    assert first.summary.endswith("to the first token, target 800 ms")


def test_panels_have_the_lines_of_the_targets_that_are_set() -> None:
    assert rows({}) == ROWS
    found = {one.target: one for row in rows(TARGETS) for one in row.panels if one.target}
    assert {name: one.line for name, one in found.items()} == {
        "ttft_p95_ms": 0.8,
        "tpot_p95_ms": 0.05,
        "e2e_p95_ms": 20.0,
        "queue": 16,
        "prefix_hit_rate": 0.3,
    }
    assert [one.title for one in found.values() if one.least] == ["Prefix cache hits"]
    shown = [one for row in rows({"queue": 3}) for one in row.panels]
    assert [one.title for one in shown if one.line is not None] == ["Queue"]
    assert GOODPUT not in shown
    assert GOODPUT in [one for row in rows({"ttft_p95_ms": 800}) for one in row.panels]


def test_every_node_is_scraped_under_its_name() -> None:
    targets = [Target("a", "10.0.0.1", 9410, "head"), Target("b", "fd00::2", 9411, "worker")]
    document = yaml.safe_load(render(scrape_document(targets, "lab", "r.yml"), "Words."))
    assert document["rule_files"] == ["r.yml"]
    static = document["scrape_configs"][0]["static_configs"]
    assert [one["targets"] for one in static] == [["10.0.0.1:9410"], ["[fd00::2]:9411"]]
    assert static[1]["labels"] == {"cluster": "lab", "host": "b", "role": "worker"}
