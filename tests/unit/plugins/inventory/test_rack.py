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
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import inventory_loader

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


def graph(inventory: Path, cluster: str = "") -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    return subprocess.run(
        [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(inventory), "--graph"],
        cwd=ROOT,
        env=environment | ({"FIRSTLIGHT_CLUSTER": cluster} if cluster else {}),
        check=False,
        capture_output=True,
        text=True,
    )


def planned(capsys: pytest.CaptureFixture[str], inventory: Path) -> dict[str, Any]:
    status = main(["plan", "-i", str(inventory), "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert status == (2 if document["errors"] else 0)
    return document


@pytest.mark.parametrize("name", ["rack.yml", "racks.yaml", "spark.rack.yml"])
def test_ansible_reads_a_rack_file(tmp_path: Path, name: str) -> None:
    found = InventoryManager(loader=DataLoader(), sources=[str(written(tmp_path, RACK, name=name))])
    assert [host.name for host in found.groups["head"].get_hosts()] == ["spark-a1"]
    hosts = found.groups["rack_a"].get_hosts()
    assert [host.name for host in hosts] == ["spark-a1", "spark-a2", "spark-a3", "spark-a4"]
    assert hosts[1].vars["firstlight_fabric_number"] == 1


@pytest.mark.parametrize(
    ("name", "ours"),
    [("rack.yml", True), ("row2.racks.yaml", True), ("hosts.yml", False), ("track.yml", False), ("rack.json", False)],
)
def test_only_a_file_that_is_called_so_is_read(tmp_path: Path, name: str, ours: bool) -> None:
    inventory = written(tmp_path, RACK, name=name)
    assert inventory_loader.get("firstlight.cluster.rack").verify_file(str(inventory / name)) is ours


@pytest.mark.slow  # three times Ansible's own program
def test_ansible_shows_the_chosen_cluster_or_all_that_is_wrong(tmp_path: Path) -> None:
    inventory = written(tmp_path / "two", RACK | {"cluster": "chat"}, OTHER | {"cluster": "batch"})
    both = graph(inventory)
    assert both.returncode == 0
    assert "@cluster:" not in both.stdout
    assert {"@cluster_chat:", "@cluster_batch:"} <= {line.strip(" |-") for line in both.stdout.splitlines()}
    assert "FIRSTLIGHT_CLUSTER=chat" in " ".join(both.stderr.split())
    chosen = graph(inventory, "batch")
    assert "@head:\n  |  |  |--spark-b2" in chosen.stdout
    wrong = graph(written(tmp_path / "wrong", RACK | {"prefix": "X", "head": 9}))
    assert wrong.returncode != 0
    for words in ("[rack.prefix]", "[rack.head]", "fix: "):
        assert words in wrong.stderr


def test_the_plan_has_the_addresses_of_the_racks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    racks = [RACK | {"count": 2}, {**OTHER, "count": 3, "absent": [2]}]
    del racks[1]["head"]
    document = planned(capsys, written(tmp_path, *racks))
    assert document["errors"] == []
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
    assert [one["id"] for one in document["errors"]] == ["rack.limit", "rack.range-small"]


def test_the_plan_knows_the_hardware_and_the_power(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = planned(capsys, written(tmp_path / "unknown", RACK | {"hardware": "gb11"}))
    assert [one["id"] for one in document["errors"]] == ["hardware.unknown"]
    document = planned(capsys, written(tmp_path / "power", RACK | {"power_w": 900}))
    (error,) = document["errors"]
    assert error["id"] == "power.rack"
    assert error["found"] == "rack a has 4 hosts gb10, which draw 4 x 240 W = 960 W at most; it can give 900 W"
    assert error["remedy"].startswith("keep 3 of them in it (3 x 240 W = 720 W), or correct power_w")


def test_without_a_choice_there_is_nothing_to_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = written(tmp_path, RACK | {"cluster": "chat"}, OTHER | {"cluster": "batch"})
    (error,) = planned(capsys, inventory)["errors"]
    assert error["id"] == "inventory.empty"
    assert "FIRSTLIGHT_CLUSTER" in error["remedy"]
    monkeypatch.setenv("FIRSTLIGHT_CLUSTER", "batch")
    document = planned(capsys, inventory)
    assert document["errors"] == []
    assert document["cluster"]["hosts"] == ["spark-b2", "spark-b1", "spark-b3", "spark-b4"]
