# SPDX-License-Identifier: Apache-2.0
"""Taking out of service, giving back, restarting and waiting, on a host that answers from lists."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.serving import service
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import REMEMBERED_PATH, STATE_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.look import look
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.phase import DONE, HOPELESS, OUT, WAITING
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.service import (
    ServiceError,
    drained_by,
    remove_marker,
    restart_group,
    set_marker,
    start_service,
    stop_group,
    wait_idle,
    wait_serving,
)

from tests.unit.fake_host import Call, FakeHost, failure, not_installed

NOW = datetime.datetime(2026, 11, 15, 9, 0, 0, tzinfo=datetime.UTC)
MEMINFO = "MemTotal:  100000 kB\nMemFree:  10 kB\nMemAvailable:  90000 kB\n"


class Machine(FakeHost):
    """A host with these units (name: ActiveState) and files; what is stopped is inactive at once."""

    def __init__(self, units: Mapping[str, str] | None = None, files: Mapping[str, Any] | None = None) -> None:
        texts = {path: one if isinstance(one, str) else json.dumps(one) for path, one in (files or {}).items()}
        super().__init__(
            {
                "systemctl": "",
                "systemctl show": lambda call: "\n\n".join(self._show(name) for name in call.argv[3:]),
                "systemctl start": lambda call: self._become(call, "active"),
                "systemctl stop": lambda call: self._become(call, "inactive"),
                "docker": "",
                "nvidia-smi": not_installed,
            },
            {"/": None, "/proc/meminfo": MEMINFO, **texts},
        )
        self.units = dict(units or {})

    def _become(self, call: Call, state: str) -> str:
        self.units[call.argv[2]] = state
        return ""

    def _show(self, name: str) -> str:
        active = self.units.get(name)
        sub = {"active": "running", "failed": "failed"}.get(active or "", "dead")
        return (
            f"Id={name}\nLoadState={'loaded' if active else 'not-found'}\nActiveState={active or 'inactive'}\n"
            f"SubState={sub}\nResult=success"
        )


def state(phase: str, epoch: str = "b", **more: Any) -> dict[str, Any]:
    return {"written_at": NOW.isoformat(), "groups": {"server": {"phase": phase, "epoch": epoch, **more}}}


# --- the marker ---------------------------------------------------------------------------------------------


def test_the_marker_is_written_once_and_a_new_reason_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "drained"
    first = {"by": "alice", "reason": "a new cable", "at": "now"}
    assert set_marker(Host(), first, check_mode=True, path=str(path))
    assert not path.exists()
    assert set_marker(Host(), first, check_mode=False, path=str(path))
    assert json.loads(path.read_text()) == first
    assert path.stat().st_mode & 0o777 == 0o644
    assert not set_marker(Host(), {**first, "at": "later"}, check_mode=False, path=str(path))
    assert not set_marker(Host(), {"by": "bob", "reason": "", "at": "later"}, check_mode=False, path=str(path))
    assert set_marker(Host(), {"by": "bob", "reason": "memory", "at": "later"}, check_mode=False, path=str(path))
    assert drained_by(json.loads(path.read_text())) == "bob at later: memory"


def test_the_marker_of_a_repin_is_never_changed(tmp_path: Path) -> None:
    path = tmp_path / "drained"
    path.write_text('{"by": "firstlight repin", "id": "x"}')
    assert not set_marker(Host(), {"by": "bob", "reason": "memory", "at": ""}, check_mode=False, path=str(path))
    (tmp_path / "journal.json").write_text("{}")
    with pytest.raises(ServiceError, match=r"repin\.yml"):
        remove_marker(Host(), check_mode=False, path=str(path), repin=str(tmp_path / "journal.json"))
    assert path.exists()


def test_a_marker_made_by_hand_is_removed_too(tmp_path: Path) -> None:
    path = tmp_path / "drained"
    path.touch()
    nowhere = str(tmp_path / "nothing")
    assert drained_by({}) == "somebody by hand"
    assert remove_marker(Host(), check_mode=True, path=str(path), repin=nowhere)
    assert path.exists()
    assert remove_marker(Host(), check_mode=False, path=str(path), repin=nowhere)
    assert not path.exists()
    assert not remove_marker(Host(), check_mode=False, path=str(path), repin=nowhere)


# --- units --------------------------------------------------------------------------------------------------


def test_a_supervisor_stops_its_own_units_and_only_the_balancer_is_stopped_for_it() -> None:
    names = ("firstlight-supervisor.service", "firstlight-server-0.service", "firstlight-balancer.service")
    machine = Machine(dict.fromkeys(names, "active"))
    assert stop_group(machine, 10) == ["firstlight-balancer.service"]


def test_without_a_supervisor_everything_is_stopped_servers_first() -> None:
    machine = Machine(
        {
            "firstlight-supervisor.service": "failed",
            "firstlight-ray.service": "active",
            "firstlight-server.service": "active",
        }
    )
    assert stop_group(machine, 10) == ["firstlight-server.service", "firstlight-ray.service"]


def test_a_unit_that_does_not_stop_is_named() -> None:
    machine = Machine({"firstlight-ray.service": "active"})
    machine.commands["systemctl stop"] = failure("Job failed")
    with pytest.raises(ServiceError, match=r"firstlight-ray\.service cannot be stopped"):
        stop_group(machine, 10)


def test_only_what_is_installed_is_started() -> None:
    machine = Machine({"firstlight-supervisor.service": "inactive"})
    assert start_service(machine) == ["firstlight-supervisor.service"]
    assert start_service(machine) == []


def test_who_gives_a_host_back_begins_anew_though_its_supervisor_had_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []
    monkeypatch.setattr(service, "remove_durable", removed.append)
    start_service(Machine({"firstlight-supervisor.service": "failed"}, {REMEMBERED_PATH: {"given_up": True}}))
    assert removed == [REMEMBERED_PATH]
    removed.clear()
    start_service(Machine({"firstlight-supervisor.service": "active"}, {REMEMBERED_PATH: {"attempts": 1}}))
    assert removed == [], "one that runs knows best"


def test_a_supervisor_that_runs_is_told_and_one_that_has_given_up_is_started() -> None:
    machine = Machine({"firstlight-supervisor.service": "active"}, {STATE_PATH: state("serving", "a")})
    assert restart_group(machine) == {"server": "a"}
    changes = [argv for argv in machine.ran if argv[0] == "systemctl" and argv[1] != "show"]
    assert changes == [("systemctl", "reload", "firstlight-supervisor.service")]
    machine = Machine({"firstlight-supervisor.service": "failed"}, {STATE_PATH: state("failed", "a")})
    assert restart_group(machine) == {"server": "a"}
    assert machine.lines[-1] == "systemctl start firstlight-supervisor.service"


def test_without_a_supervisor_nothing_can_be_restarted() -> None:
    for check_mode in (False, True):
        with pytest.raises(ServiceError, match=r"serve\.yml"):
            restart_group(Machine(), check_mode=check_mode)


# --- waiting ------------------------------------------------------------------------------------------------


def test_waiting_for_rest_ends_as_soon_as_nothing_is_left() -> None:
    machine = Machine({"firstlight-ray.service": "active"})
    stop = machine.pause

    def pause(seconds: float) -> None:
        stop(seconds)
        if machine.now >= 3:
            machine.units["firstlight-ray.service"] = "inactive"

    assert wait_idle(machine, [], 60, machine.clock, pause) == ([], 3.0)


def test_waiting_for_rest_ends_with_what_is_left() -> None:
    machine = Machine()
    machine.commands["docker"] = "firstlight-ray\tUp 2 hours\n"
    left, seconds = wait_idle(machine, [], 5, machine.clock, machine.pause)
    assert left == ["container firstlight-ray is still there (Up 2 hours)"]
    assert seconds == 5.0


def serving(machine: Machine, **more: Any) -> tuple[str, float]:
    found, seconds = wait_serving(machine, 60, clock=machine.clock, pause=machine.pause, now=lambda: NOW, **more)
    return found.verdict, seconds


def test_waiting_for_serving() -> None:
    supervisor = {"firstlight-supervisor.service": "active"}
    assert serving(Machine(supervisor, {STATE_PATH: state("serving")})) == (DONE, 0.0)
    assert serving(Machine(supervisor, {STATE_PATH: state("warming")})) == (WAITING, 60.0)
    assert serving(Machine(supervisor, {STATE_PATH: state("serving", "a")}), former={"server": "a"})[0] == WAITING


def test_what_cannot_come_is_not_waited_for_long() -> None:
    failed = Machine({"firstlight-supervisor.service": "failed"}, {STATE_PATH: state("failed", why="weights")})
    verdict, seconds = serving(failed)
    assert verdict == HOPELESS
    assert seconds <= 10
    verdict, seconds = serving(Machine({"firstlight-supervisor.service": "active"}, {STATE_PATH: state("drained")}))
    assert verdict == OUT
    assert 20 <= seconds <= 30


# --- one look -----------------------------------------------------------------------------------------------


def test_a_look_has_what_is_there_and_why_something_could_not_be_read() -> None:
    config = {"node": "spark0", "head": {"name": "spark0"}, "groups": [{"name": "server", "head": "spark0"}]}
    machine = Machine(
        {"firstlight-supervisor.service": "active"},
        {
            "/etc/firstlight/supervisor.json": config,
            STATE_PATH: "{broken",
            "/var/lib/firstlight/drained": '{"by": "alice", "reason": "cable"}',
        },
    )
    seen = look(machine)
    assert seen["supervisor"] == "active (running)"
    assert seen["drained"] == {"by": "alice", "reason": "cable"}
    assert seen["config"]["head"] == "spark0"
    assert list(seen["problems"]) == [STATE_PATH]
    assert seen["memory"]["machine"] == {"name": "the memory", "total": 102400000, "free": 92160000}
