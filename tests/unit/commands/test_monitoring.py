# SPDX-License-Identifier: Apache-2.0
"""`firstlight monitoring` on inventories: three files, or why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.panels import ROWS

from firstlight.cli import main

INVENTORY: dict[str, Any] = {
    "cluster": {
        "vars": {"firstlight_monitoring": {"hosts": ["10.0.0.5"]}},
        "children": {
            "head": {"hosts": {"spark0": {"ansible_host": "10.0.0.1"}}},
            "workers": {"hosts": {"spark1": {"ansible_host": "spark1.local", "monitoring_listen": "10.0.0.2"}}},
        },
    }
}


def write(tmp_path: Path, inventory: Any) -> tuple[list[str], Path]:
    source, out = tmp_path / "rack7.yml", tmp_path / "made" / "out"
    source.write_text(yaml.safe_dump(inventory))
    return ["monitoring", "-i", str(source), "--cluster", "rack7", "--output", str(out)], out


def test_three_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, out = write(tmp_path, INVENTORY)
    assert main(arguments) == 0
    assert sorted(path.name for path in out.iterdir()) == ["dashboard.json", "firstlight-rules.yml", "prometheus.yml"]
    assert str(out / "prometheus.yml") in capsys.readouterr().out
    scrape = yaml.safe_load((out / "prometheus.yml").read_text())
    static = scrape["scrape_configs"][0]["static_configs"]
    assert [one["targets"][0] for one in static] == ["10.0.0.1:9410", "10.0.0.2:9410"]
    assert static[0]["labels"] == {"cluster": "rack7", "host": "spark0", "role": "head"}


def test_the_dashboard_has_every_panel_and_asks_the_chosen_source(tmp_path: Path) -> None:
    arguments, out = write(tmp_path, INVENTORY)
    main(arguments)
    board = json.loads((out / "dashboard.json").read_text())
    panels = [one for one in board["panels"] if one["type"] != "row"]
    wanted = [panel for row in ROWS for panel in row.panels]
    assert [one["title"] for one in panels] == [one.title for one in wanted]
    assert [one["targets"][0]["expr"] for one in panels] == [one.question for one in wanted]
    assert {one["datasource"]["uid"] for one in panels} == {"${source}"}
    assert {"cluster", "host", "source"} == {one["name"] for one in board["templating"]["list"]}


def test_targets_are_lines_and_alerts(tmp_path: Path) -> None:
    inventory = yaml.safe_load(yaml.safe_dump(INVENTORY))
    inventory["cluster"]["vars"]["firstlight_targets"] = {"ttft_p95_ms": 800, "prefix_hit_rate": 0.3}
    arguments, out = write(tmp_path, inventory)
    assert main(arguments) == 0
    rules = yaml.safe_load((out / "firstlight-rules.yml").read_text())["groups"][0]["rules"]
    assert [one["alert"] for one in rules[-2:]] == ["FirstlightFirstTokenSlow", "FirstlightPrefixHitsLow"]
    assert 'cluster="rack7"' in rules[-1]["expr"]
    panels = {one["title"]: one for one in json.loads((out / "dashboard.json").read_text())["panels"]}
    steps = {
        title: one["fieldConfig"]["defaults"]["thresholds"]["steps"]
        for title, one in panels.items()
        if (one.get("fieldConfig") or {}).get("defaults", {}).get("thresholds")
    }
    assert steps == {
        "Time to first token, p95": [{"color": "green", "value": None}, {"color": "red", "value": 0.8}],
        "Prefix cache hits": [{"color": "red", "value": None}, {"color": "green", "value": 0.3}],
    }
    assert panels["Time to first token, p95"]["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"] == {
        "mode": "dashed"
    }
    assert "Goodput" in panels


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"firstlight_monitoring": {"hosts": ["10.0.0.5"]}, "firstlight_targets": {"queue": "x"}}, "queue is 'x'"),
        ({"firstlight_monitoring": {}}, "firstlight_monitoring.hosts is not set"),
        ({"firstlight_monitoring": {"hosts": ["monitor"]}}, "has 'monitor'"),
        ({"firstlight_monitoring": {"hosts": ["10.0.0.5"], "prot": 1}}, "did you mean port?"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], words: str
) -> None:
    arguments, out = write(tmp_path, {"cluster": {**INVENTORY["cluster"], "vars": change}})
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
    assert not out.exists()


def test_a_program_gets_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, out = write(tmp_path, INVENTORY)
    assert main([*arguments, "--json"]) == 0
    assert sorted(json.loads(capsys.readouterr().out)["files"]) == sorted(str(path) for path in out.iterdir())


def test_an_inventory_that_is_not_there_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["monitoring", "-i", str(tmp_path / "none"), "--output", str(tmp_path)]) == 2
    assert "does not exist" in capsys.readouterr().err
