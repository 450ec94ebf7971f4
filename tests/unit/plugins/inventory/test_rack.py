# SPDX-License-Identifier: Apache-2.0
"""The inventory `rack` as Ansible and the plan read it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstlight.cli import main

ROOT = Path(__file__).resolve().parents[4]
SPARK4 = ROOT / "inventory" / "spark4" / "group_vars"

RACK = {"name": "a", "prefix": "spark-a", "count": 4, "head": 1, "hardware": "gb10", "fabric": "10-41"}
OTHER = {**RACK, "name": "b", "prefix": "spark-b", "fabric": "42-73", "head": 2}


def written(tmp_path: Path, *racks: dict[str, Any], name: str = "rack.yml") -> Path:
    """An inventory with the intent of four Sparks and these racks."""
    shutil.copytree(SPARK4, tmp_path / "group_vars")  # makes the directory, too
    given = {"plugin": "firstlight.cluster.rack", "racks": list(racks)}
    (tmp_path / name).write_text(yaml.safe_dump(given))
    return tmp_path


def listed(inventory: Path, question: str = "--list", cluster: str = "") -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    return subprocess.run(
        [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(inventory), question],
        cwd=ROOT,
        env=environment | ({"FIRSTLIGHT_CLUSTER": cluster} if cluster else {}),
        check=False,
        capture_output=True,
        text=True,
    )


def planned(capsys: pytest.CaptureFixture[str], inventory: Path) -> dict[str, Any]:
    status = main(["plan", "-i", str(inventory), "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert status == (2 if document["refusals"] else 0)
    return document


@pytest.mark.parametrize("name", ["rack.yml", "racks.yaml", "spark.rack.yml"])
def test_ansible_reads_a_rack_file(tmp_path: Path, name: str) -> None:
    done = listed(written(tmp_path, RACK, name=name))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["head"]["hosts"] == ["spark-a1"]
    assert found["rack_a"]["hosts"] == ["spark-a1", "spark-a2", "spark-a3", "spark-a4"]
    assert found["_meta"]["hostvars"]["spark-a2"]["firstlight_fabric_number"] == 1


def test_a_file_of_another_name_is_not_read(tmp_path: Path) -> None:
    done = listed(written(tmp_path, RACK, name="hosts.yml"))
    assert done.returncode != 0
    assert "could not be verified by inventory plugin 'firstlight.cluster.rack'" in done.stderr


def test_the_graph_of_two_clusters_follows_the_choice(tmp_path: Path) -> None:
    inventory = written(tmp_path, RACK | {"cluster": "chat"}, OTHER | {"cluster": "batch"})
    both = listed(inventory, "--graph")
    assert "@cluster:" not in both.stdout
    assert {"@cluster_chat:", "@cluster_batch:"} <= {line.strip(" |-") for line in both.stdout.splitlines()}
    assert "FIRSTLIGHT_CLUSTER=chat" in " ".join(both.stderr.split())
    chosen = listed(inventory, "--graph", cluster="batch")
    assert "@head:\n  |  |  |--spark-b2" in chosen.stdout


def test_ansible_says_all_that_is_wrong(tmp_path: Path) -> None:
    done = listed(written(tmp_path, RACK | {"prefix": "X", "head": 9}))
    assert done.returncode != 0
    for words in ("[rack.prefix]", "[rack.head]", "change: "):
        assert words in done.stderr


def test_the_plan_has_the_addresses_of_the_racks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    racks = [RACK | {"count": 2}, {**OTHER, "count": 3, "absent": [2]}]
    del racks[1]["head"]
    document = planned(capsys, written(tmp_path, *racks))
    assert document["refusals"] == []
    assert document["cluster"]["head"] == "spark-a1"
    assert {name: host["fabric"][0]["address"] for name, host in document["hosts"].items()} == {
        "spark-a1": "192.168.100.10/24",
        "spark-a2": "192.168.100.11/24",
        "spark-b1": "192.168.100.42/24",
        "spark-b3": "192.168.100.44/24",
    }


def test_the_plan_refuses_with_what_is_wrong_in_the_rack_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    document = planned(capsys, written(tmp_path, RACK | {"fabric": "10-12", "power_w": "much"}))
    assert [one["id"] for one in document["refusals"]] == ["rack.limit", "rack.range-small"]


def test_the_plan_knows_the_hardware_and_the_power(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = planned(capsys, written(tmp_path / "unknown", RACK | {"hardware": "gb11"}))
    assert [one["id"] for one in document["refusals"]] == ["hardware.unknown"]
    document = planned(capsys, written(tmp_path / "power", RACK | {"power_w": 900}))
    (refusal,) = document["refusals"]
    assert refusal["id"] == "power.rack"
    assert refusal["found"] == "rack a has 4 hosts gb10, which take 4 x 240 W = 960 W at most; it can give 900 W"
    assert refusal["remedy"].startswith("keep 3 of them in it (3 x 240 W = 720 W), or correct power_w")


def test_without_a_choice_there_is_nothing_to_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = written(tmp_path, RACK | {"cluster": "chat"}, OTHER | {"cluster": "batch"})
    (refusal,) = planned(capsys, inventory)["refusals"]
    assert refusal["id"] == "inventory.empty"
    assert "FIRSTLIGHT_CLUSTER" in refusal["remedy"]
    monkeypatch.setenv("FIRSTLIGHT_CLUSTER", "batch")
    document = planned(capsys, inventory)
    assert document["refusals"] == []
    assert document["cluster"]["hosts"] == ["spark-b2", "spark-b1", "spark-b3", "spark-b4"]
