# SPDX-License-Identifier: Apache-2.0
"""Hosts are prepared by one set of plays, in one cluster and in several racks; they differ in whom a bad host stops."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.phases import STEPS

from tests.unit.ansible_runs import run_playbook

PHASES = (
    "preflight",
    "prepare",
    "engine",
    "image",
    "burn_in",
    "weights",
    "launch",
    "endpoint",
    "monitoring",
    "clients",
)
ROOT = Path(__file__).resolve().parents[2]
IMPORT = "ansible.builtin.import_playbook"
IMPORT_TASKS = "ansible.builtin.import_tasks"
CHECK = "tasks/require_all_hosts.yml"
PLAYS: list[dict[str, Any]] = yaml.safe_load((ROOT / "playbooks/prepare.yml").read_text(encoding="utf-8"))
PLAN, OBSERVE, *LATER = PLAYS
LAST = LATER[-1]


def check_of(play: dict[str, Any]) -> dict[str, Any]:
    (found,) = (task for task in play["tasks"] if task.get(IMPORT_TASKS) == CHECK)
    return dict(found)


def test_every_play_after_the_observation_begins_with_the_check() -> None:
    assert (PLAN["name"], OBSERVE["name"], LAST["name"]) == ("Plan", "Observe", "Require all hosts")
    before = [task["name"] for play in LATER for task in play["tasks"][: play["tasks"].index(check_of(play))]]
    assert before == ["Fail if the driver is in use"], "then nobody's driver is changed"
    assert not any("any_errors_fatal" in play for play in PLAYS), "with it a host would stop the others of its phase"


def test_what_fails_for_everybody_is_the_lease_and_what_nobody_can_fail_alone() -> None:
    once = [task["name"] for play in LATER for task in play["tasks"] if task.get("run_once")]
    assert once == ["Determine whether any host's fabric was changed or never tested"]


def with_check(play: dict[str, Any]) -> dict[str, Any]:
    """A play of prepare.yml in another directory: it and its check, and nothing that would act."""
    check = {**check_of(play), IMPORT_TASKS: str(ROOT / "playbooks" / CHECK)}
    kept = {key: value for key, value in play.items() if key not in ("become", "vars")}
    return {**kept, "hosts": "cluster", "tasks": [check]}


def say(words: str, **keywords: Any) -> dict[str, Any]:
    return {"name": "Say", "ansible.builtin.debug": {"msg": words}, **keywords}


FAILING = {"name": "Try", "ansible.builtin.fail": {"msg": "no"}, "when": "inventory_hostname == 'b'"}
SILENT = {"name": "Try", "ansible.builtin.raw": "true", "when": "inventory_hostname == 'b'"}
WELL = say("well")
SINGLE: dict[str, Any] = {"hosts": {"a": {}, "b": {}, "c": {}}}
RACKS: dict[str, Any] = {"children": {"rack_a": {"hosts": {"a": {}}}, "rack_b": {"hosts": {"b": {}, "c": {}}}}}


def bring_up(
    directory: Path, cluster: dict[str, Any], trouble: dict[str, Any], where: str = "Observe"
) -> subprocess.CompletedProcess[str]:
    """A run over three hosts on this machine, with the checks of prepare.yml; b is in trouble."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    silent = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    hosts = {"a": local, "b": silent if trouble is SILENT else local, "c": local}
    (directory / "hosts.yml").write_text(json.dumps({"all": {"hosts": hosts}, "cluster": cluster}))
    driver, runtime = (with_check(play) for play in LATER if play["name"] in ("Driver", "Container runtime"))
    observe: dict[str, Any] = {"name": "Observe", "hosts": "cluster", "gather_facts": False, "tasks": []}
    engine = {**observe, "name": "Engine", "any_errors_fatal": True, "tasks": [say("it serves")]}
    plays = [observe, driver, runtime, with_check(LAST), engine]
    for play in plays:
        if play["name"] == where:
            play["tasks"].append(trouble)
        if play is not engine:
            play["tasks"].append(say(f"came through {play['name']}"))
    (directory / "site.yml").write_text(json.dumps(plays))
    return run_playbook("-i", str(directory / "hosts.yml"), str(directory / "site.yml"))


def headings(done: subprocess.CompletedProcess[str]) -> list[str]:
    return re.findall(r"(?m)^==> (\w[\w ]*?)  \(", done.stdout)


NAMES = ["Observe", "Driver", "Container runtime", "Require all hosts", "Engine"]


@pytest.mark.slow  # a run of Ansible each
@pytest.mark.parametrize("cluster", [SINGLE, RACKS], ids=["one cluster", "racks"])
def test_where_all_are_there_everything_is_run(tmp_path: Path, cluster: dict[str, Any]) -> None:
    done = bring_up(tmp_path, cluster, WELL)
    assert (done.returncode, headings(done)) == (0, NAMES), done.stdout + done.stderr


@pytest.mark.slow  # a run of Ansible each
@pytest.mark.parametrize(
    ("trouble", "status", "reason", "counted"),
    [
        (FAILING, 2, "b: no", "unreachable=0 failed=1"),
        (SILENT, 4, "b: does not answer SSH", "unreachable=1 failed=0"),
    ],
    ids=["failed", "unreachable"],
)
@pytest.mark.parametrize(("where", "following"), [("Observe", "Driver"), ("Driver", "Container runtime")])
def test_in_one_cluster_the_others_finish_the_phase_and_nothing_else_begins(
    tmp_path: Path, trouble: dict[str, Any], status: int, reason: str, counted: str, where: str, following: str
) -> None:
    done = bring_up(tmp_path, SINGLE, trouble, where)
    assert done.returncode == status, done.stdout + done.stderr
    assert headings(done) == NAMES[: NAMES.index(following) + 1]
    assert sorted(re.findall(rf"(?m)^  (\w)  came through {where}$", done.stdout)) == ["a", "c"]
    assert f"came through {following}" not in done.stdout
    told = f"{reason} ({where})\n    1 of 3 hosts is out (b), expected all of them"
    assert f"\nSTOPPED  before what needs every host\n    {told}" in done.stdout
    assert f"{following} was not started on the other 2." in done.stdout
    assert re.search(rf"(?m)^b : .* {counted} ", done.stdout)
    assert re.search(r"(?m)^a : .* unreachable=0 failed=0 ", done.stdout), "it only said so"
    assert done.stdout.endswith(f"\nFailed in {where}: Try on b\n")
    assert done.stderr == ""


@pytest.mark.slow  # a run of Ansible each
@pytest.mark.parametrize("trouble", [FAILING, SILENT], ids=["failed", "unreachable"])
def test_in_racks_the_others_go_on_until_something_serves(tmp_path: Path, trouble: dict[str, Any]) -> None:
    done = bring_up(tmp_path, RACKS, trouble)
    assert done.returncode != 0
    assert headings(done) == NAMES[:-1], done.stdout + done.stderr
    for phase in NAMES[:3]:
        assert sorted(re.findall(rf"(?m)^  (\w)  came through {phase}$", done.stdout)) == ["a", "c"]
    assert "\nSTOPPED  before what needs every host\n    rack_b: 1 of 2, b: " in done.stdout
    assert "The other 2 are prepared." in done.stdout


@pytest.mark.slow  # a run of Ansible
def test_what_serves_does_not_begin_where_the_last_phase_lost_a_host(tmp_path: Path) -> None:
    done = bring_up(tmp_path, SINGLE, FAILING, "Container runtime")
    assert (done.returncode, headings(done)) == (2, NAMES[:-1]), done.stdout + done.stderr
    assert "nothing of it was started. The other 2 are prepared." in done.stdout


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
    phases: list[dict[str, Any]] = [
        {"name": name, IMPORT: str(ROOT / f"playbooks/{name}.yml"), "vars": {"prepare_observed": True}}
        for name in PHASES
    ]
    (tmp_path / "play.yml").write_text(json.dumps([play, *phases]))
    members = {"head": {"hosts": {"a": {"steps": ["client_help"]}}}, "workers": {"hosts": {"b": {}}}}
    groups = {"cluster": {"children": members}}
    (tmp_path / "hosts.yml").write_text(json.dumps(groups))
    done = run_playbook("-i", str(tmp_path / "hosts.yml"), "--skip-tags", "serve", str(tmp_path / "play.yml"))
    shown = re.findall(r"(?m)^==> (\w[\w ]*?)  \(", done.stdout)
    assert shown == ["Observe", "Require all hosts", "Gate", "Clients"], done.stdout + done.stderr
