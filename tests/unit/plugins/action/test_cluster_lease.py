# SPDX-License-Identifier: Apache-2.0
"""The lease as a run of Ansible holds it: renewed while it lives, gone when it ends, not taken from one that lives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.action.cluster_lease import ActionModule, Watch
from ansible_collections.firstlight.cluster.plugins.module_utils.lease import LOST, Leases
from ansible_collections.firstlight.cluster.plugins.plugin_utils.operator import Run

from tests.unit.ansible_runs import ROOT, run_playbook

pytestmark = pytest.mark.hostile


class Renewing(ActionModule):
    """The process that is left behind, without leaving one; what the head answers is the test's."""

    def __init__(self, answers: list[Any]) -> None:
        self.said: list[str] = []
        self._display: Any = SimpleNamespace(verbosity=3, error=self.said.append)
        self.answers = answers
        self.asked: list[str] = []

    def _low_level_execute_command(self, cmd: Any, sudoable: Any = False, *_words: Any, **_named: Any) -> Any:
        assert sudoable
        self.asked.append(cmd)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"rc": answer}


class Life:
    """A run that lives for so many heartbeats."""

    def __init__(self, beats: int) -> None:
        self.beats = beats
        self.interrupted = False

    def ended(self, seconds: float) -> bool:
        assert seconds > 0
        self.beats -= 1
        return self.beats < 0

    def interrupt(self) -> None:
        self.interrupted = True


@pytest.fixture
def renew(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, list[Any]], tuple[Renewing, Life]]:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(signal, "alarm", lambda _: 0)
    monkeypatch.setattr(os, "killpg", lambda *_: None)

    def renewed(beats: int, answers: list[Any]) -> tuple[Renewing, Life]:
        action, life = Renewing(answers), Life(beats)
        action._renew(life, "beat", "release")  # type: ignore[arg-type]
        return action, life

    return renewed


def test_it_beats_until_the_run_ends_and_gives_the_lease_back(renew: Any) -> None:
    action, life = renew(2, [0, 0, 0])
    assert (action.asked, life.interrupted, action.said) == (["beat", "beat", "release"], False, [])


def test_a_head_that_boots_or_hangs_is_asked_again(renew: Any) -> None:
    action, life = renew(3, [OSError("unreachable"), TimeoutError(), 0, ConnectionError()])
    assert (action.asked, life.interrupted) == (["beat", "beat", "beat", "release"], False)


def test_a_run_whose_lease_was_broken_is_stopped_and_told(renew: Any) -> None:
    action, life = renew(5, [0, LOST])
    assert (action.asked, life.interrupted) == (["beat", "beat"], True)
    assert "somebody else has broken its lease" in action.said[0]


@pytest.mark.parametrize("described", [True, False])
def test_the_end_of_a_process_is_seen(monkeypatch: pytest.MonkeyPatch, described: bool) -> None:
    if not described:
        monkeypatch.delattr(os, "pidfd_open")
    process = subprocess.Popen(["sleep", "60"])
    watch = Watch(process.pid)
    assert not watch.ended(0.01)
    watch.interrupt()
    process.wait()
    assert watch.ended(30)
    watch.interrupt()


def playbook(root: Path, *tasks: dict[str, Any], **arguments: Any) -> tuple[Path, Path]:
    """A playbook of one host, this one, that takes the lease first; and the lease."""
    path = root / "state" / "lease.json"
    take = {"firstlight.cluster.cluster_lease": {"path": str(path), **arguments}}
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    play = root / "play.yml"
    play.write_text(
        json.dumps([{"hosts": "all", "gather_facts": False, "vars": variables, "tasks": [take, take, *tasks]}])
    )
    return play, path


def wait_for(what: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow  # runs of Ansible
def test_a_run_holds_it_and_a_check_does_not(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    play, path = playbook(tmp_path, {"ansible.builtin.command": f"cp {tmp_path}/state/lease.json {kept}"})
    checked = run_playbook("-i", "node,", "--check", str(play))
    assert checked.returncode == 0, checked.stdout
    assert not path.parent.exists()
    ran = run_playbook("-i", "node,", str(play))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lease = json.loads(kept.read_text())
    assert (lease["owner"], lease["playbook"]) == (Run.of(os.getpid()).owner, "play.yml")
    wait_for(lambda: not path.parent.exists())


@pytest.mark.slow  # runs of Ansible
def test_who_finds_it_held_changes_nothing_until_it_is_free_or_broken_by_name(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    play, path = playbook(tmp_path, {"ansible.builtin.command": f"touch {marker}"})
    holder = subprocess.Popen(["sleep", "300"])
    try:
        run = Run.of(holder.pid)
        held = {"run": run.name, "owner": "bob@laptop", "machine": run.machine, "pid": run.pid, "playbook": "repin.yml"}
        assert Leases(str(path)).take(held)["taken"]
        refused = run_playbook("-i", "node,", str(play))
        assert refused.returncode == 2
        told = " ".join(refused.stdout.split())
        assert f"Nothing was changed: the cluster is being changed by bob@laptop (repin.yml, process {run.pid})" in told
        assert not marker.exists()
        playbook(tmp_path, {"ansible.builtin.command": f"touch {marker}"}, break_owner="bob@laptop")
        broken = run_playbook("-i", "node,", str(play))
        assert broken.returncode == 0, broken.stdout
        assert marker.exists()
        wait_for(lambda: not path.exists())
        Leases(str(path)).take(held)
    finally:
        holder.kill()
        holder.wait()
    playbook(tmp_path)
    again = run_playbook("-i", "node,", str(play))
    assert again.returncode == 0, again.stdout
    assert "left by a run that was killed" in again.stdout + again.stderr


@pytest.mark.slow  # a run of Ansible that is killed
def test_a_killed_run_gives_it_back(tmp_path: Path) -> None:
    play, path = playbook(tmp_path, {"ansible.builtin.command": "sleep 300"})
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "node,", str(play)]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(path.exists)
        assert json.loads(path.read_text())["pid"] == run.pid
    finally:
        run.kill()
        run.wait()
    wait_for(lambda: not path.exists())
