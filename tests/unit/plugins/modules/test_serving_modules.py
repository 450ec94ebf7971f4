# SPDX-License-Identifier: Apache-2.0
"""What the modules of day two tell, and that check mode changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.phase import (
    DONE,
    HOPELESS,
    OUT,
    WAITING,
    Standing,
)
from ansible_collections.firstlight.cluster.plugins.modules.serving_state import change
from ansible_collections.firstlight.cluster.plugins.modules.serving_status import idle_result, serving_result

from tests.unit.fake_host import FakeHost

PARAMETERS = {"by": "alice", "reason": "a new cable", "stop_timeout": 5}


def machine_with(marker: str | None, units: dict[str, str] | None = None) -> FakeHost:
    """A host that is out of service, or not, with these units (name: ActiveState); it can only be looked at."""
    shown = "\n\n".join(f"Id={name}\nLoadState=loaded\nActiveState={one}" for name, one in (units or {}).items())
    commands = {"systemctl show": shown, "docker ps": "", "nvidia-smi": ""}
    return FakeHost(commands, {"/": None, "/var/lib/firstlight/drained": marker})


def test_rest_is_told_and_what_is_left_fails() -> None:
    assert "msg" not in idle_result([], 3.0)
    told = idle_result(["something listens on port 8000"], 300.0)
    assert "port 8000" in told["msg"]
    assert "run again" in told["msg"]


@pytest.mark.parametrize(("verdict", "fails"), [(DONE, False), (OUT, False), (WAITING, True), (HOPELESS, True)])
def test_only_what_does_not_serve_fails(verdict: str, fails: bool) -> None:
    told = serving_result(Standing(verdict, "server is warming", {"server": "a"}), 9.0)
    assert ("msg" in told) is fails
    assert told["outcome"] == verdict
    assert told["epochs"] == {"server": "a"}


@pytest.mark.parametrize(
    ("state", "marker", "expected"),
    [
        ("drained", None, {"changed": True, "was": "", "message": "alice at T: a new cable"}),
        ("drained", "", {"changed": True, "was": "somebody by hand", "message": "alice at T: a new cable"}),
        ("uncordoned", '{"by": "bob"}', {"changed": True, "was": "bob", "message": ""}),
        ("uncordoned", None, {"changed": False, "was": "", "message": ""}),
    ],
)
def test_check_mode_tells_what_would_change(state: str, marker: str | None, expected: dict[str, Any]) -> None:
    told = change(machine_with(marker), {**PARAMETERS, "state": state}, check_mode=True)
    if told["drained"] is not None:
        told["message"] = told["message"].replace(told["drained"]["at"], "T")
    assert {key: told[key] for key in expected} == expected
    assert told["stopped"] == told["started"] == []


def test_check_mode_tells_which_units_would_stop_and_start() -> None:
    ray, supervisor = "firstlight-ray.service", "firstlight-supervisor.service"
    dead = machine_with(None, {supervisor: "failed", ray: "active"})
    told = change(dead, {**PARAMETERS, "state": "drained"}, check_mode=True)
    assert told["stopped"] == [ray], "nobody else would stop it"
    told = change(dead, {**PARAMETERS, "state": "uncordoned"}, check_mode=True)
    assert (told["changed"], told["started"]) == (True, [supervisor])


@pytest.mark.parametrize(("active", "changed"), [("inactive", True), ("active", False)])
def test_a_supervisor_that_does_not_run_would_be_started(active: str, changed: bool) -> None:
    machine = machine_with(None, {"firstlight-supervisor.service": active})
    assert change(machine, {"state": "started"}, check_mode=True)["changed"] is changed
    assert change(machine, {"state": "restarted"}, check_mode=True)["changed"]
