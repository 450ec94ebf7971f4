# SPDX-License-Identifier: Apache-2.0
"""Both ways to prepare hosts do the same; they differ in whom a bad host stops."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.callback.progress import SPEAKS_FOR_OTHERS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.phases import STEPS

from tests.unit.ansible_runs import run_playbook

PHASES = (
    "preflight",
    "prepare_hosts",
    "engine",
    "image",
    "accept",
    "weights",
    "launch",
    "endpoint",
    "monitoring",
    "clients",
)
ROOT = Path(__file__).resolve().parents[2]
IMPORT = "ansible.builtin.import_playbook"


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
        assert one["tasks"] == other["tasks"]
        assert one["hosts"] == other["hosts"]
        assert "firstlight.cluster.require_hosts" in one["hosts"]
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
    assert "'roll_call'" in task["vars"]["__roll_call"]
    assert task["vars"][SPEAKS_FOR_OTHERS] is True


@pytest.mark.slow  # a run of Ansible each
@pytest.mark.parametrize(
    ("inventory", "last"), [("inventory/spark4", "Fabric"), ("src/firstlight/scaffold/spark-racks", "Roll call")]
)
def test_the_inventory_decides(inventory: str, last: str) -> None:
    done = run_playbook("-i", inventory, "--list-tasks", "playbooks/prepare.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"(?m)^  play #\d+ \(\w+\): (.+?)\t", done.stdout)[-1] == last


def steps_that_tasks_ask_for(path: Path) -> set[str]:
    return set(re.findall(r"'(\w+)' in firstlight_steps", path.read_text(encoding="utf-8")))


def test_every_step_has_its_task_and_every_task_its_step() -> None:
    asked = {step for path in (ROOT / "playbooks").rglob("*.yml") for step in steps_that_tasks_ask_for(path)}
    assert asked == {step for steps in STEPS.values() for step in steps}


@pytest.mark.slow  # a run of Ansible
def test_a_phase_is_run_where_any_host_has_something_to_do_and_else_is_not_seen(tmp_path: Path) -> None:
    """The first play keeps what the plan and the observation come to; the tasks that would act are left out by it."""
    plan = {"cluster": {"head": "a"}, "roles": {}, "client_help": ["Ask it."]}
    facts = {"firstlight_plan": plan, "firstlight_pending": {}, "firstlight_steps": "{{ steps | default([]) }}"}
    play = {
        "name": "Observe",
        "hosts": "cluster",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.set_fact": facts}],
    }
    phases = [{"name": name, IMPORT: str(ROOT / f"playbooks/{name}.yml")} for name in PHASES]
    (tmp_path / "play.yml").write_text(json.dumps([play, *phases]))
    members = {"head": {"hosts": {"a": {"steps": ["client_help"]}}}, "workers": {"hosts": {"b": {}}}}
    groups = {"cluster": {"children": members}}
    (tmp_path / "hosts.yml").write_text(json.dumps(groups))
    done = run_playbook("-i", str(tmp_path / "hosts.yml"), "--skip-tags", "serve", str(tmp_path / "play.yml"))
    shown = re.findall(r"(?m)^==> (\w[\w ]*?)  \(", done.stdout)
    assert shown == ["Observe", "Gate", "Clients"], done.stdout + done.stderr
