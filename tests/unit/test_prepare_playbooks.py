# SPDX-License-Identifier: Apache-2.0
"""Both ways to prepare hosts do the same; they differ in whom a bad host stops."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.ansible_runs import run_playbook

ROOT = Path(__file__).resolve().parents[2]
IMPORT = "ansible.builtin.import_playbook"
TASKS = "ansible.builtin.import_tasks"
REQUIRED = "{{ lookup('firstlight.cluster.require_hosts', 'cluster') }}"


def plays(name: str) -> list[dict[str, Any]]:
    """The plays of a playbook and of those that it imports."""
    found: list[dict[str, Any]] = []
    for one in yaml.safe_load((ROOT / f"playbooks/{name}.yml").read_text()):
        found += plays(one[IMPORT].rpartition(".")[2]) if IMPORT in one else [one]
    return found


CLUSTER, (*RACKS, ROLL_CALL) = plays("prepare_cluster"), plays("prepare_racks")


def test_both_have_the_same_phases_with_the_same_tasks() -> None:
    assert [play["name"] for play in RACKS] == [play["name"] for play in CLUSTER]
    for one, other in zip(CLUSTER, RACKS, strict=True):
        assert [task.get(TASKS) for task in one["tasks"]] == [task.get(TASKS) for task in other["tasks"]]
        assert one["hosts"] == REQUIRED
        assert other["hosts"] in ("cluster", REQUIRED)
        assert one.get("become") == other.get("become")


def test_in_a_cluster_one_bad_host_stops_all_and_in_racks_itself() -> None:
    assert all(play["any_errors_fatal"] is True for play in CLUSTER)
    assert not any("any_errors_fatal" in play for play in RACKS)
    # What fails in a task with run_once fails for everybody.
    assert not any(task.get("run_once") for play in RACKS for task in play["tasks"])


def test_racks_end_with_a_roll_call() -> None:
    assert ROLL_CALL["any_errors_fatal"] is True
    (task,) = ROLL_CALL["tasks"]
    assert task["run_once"] is True
    assert "firstlight.cluster.roll_call" in task


@pytest.mark.slow  # a run of Ansible each
@pytest.mark.parametrize(
    ("inventory", "last"), [("inventory/spark4", "Fabric"), ("src/firstlight/scaffold/spark-racks", "Roll call")]
)
def test_the_inventory_decides(inventory: str, last: str) -> None:
    done = run_playbook("-i", inventory, "--list-tasks", "playbooks/prepare.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"(?m)^  play #\d+ \(\w+\): (.+?)\t", done.stdout)[-1] == last
