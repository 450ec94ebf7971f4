# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.modules import observe as module
from ansible_collections.firstlight.cluster.plugins.modules import plan as plan_module

pytestmark = pytest.mark.slow  # the module in a process of its own, as on a host

ROOT = Path(__file__).parents[4]


def run(check: bool = False, **arguments: Any) -> subprocess.CompletedProcess[str]:
    """The module as a program of its own, the way a target runs it."""
    return subprocess.run(
        [sys.executable, "-m", "ansible_collections.firstlight.cluster.plugins.modules.observe"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_check_mode": check}}),
        env={**os.environ, "PYTHONPATH": str(ROOT / "collections")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("check", [False, True])
def test_a_real_host_is_read_and_nothing_changes(tmp_path: Path, check: bool) -> None:
    path = tmp_path / "file"
    path.write_text("text")
    path.chmod(0o640)
    done = run(
        check,
        desired={"a": {"files": {str(path): {"content": "text"}}, "sysctl": {"kernel.ostype": "Linux"}}},
    )
    result = json.loads(done.stdout)
    assert result["changed"] is False
    observation = result["observation"]
    assert observation["files"][str(path)]["mode"] == "0640"
    assert observation["sysctl"] == {"kernel.ostype": "Linux"}
    assert observation["errors"] == {}
    assert observation["facts"]["memory_bytes"] > 0
    assert "text" not in json.dumps(observation["files"])


@pytest.mark.parametrize("check", [False, True])
def test_the_logs_are_read_where_that_is_asked_for(tmp_path: Path, check: bool) -> None:
    asked = {"packages": {"no-such-package": None}, "paths": [str(tmp_path)], "sysctl": ["no.such"]}
    result = json.loads(run(check, history=asked).stdout)
    assert result["changed"] is False
    assert result["history"]["packages"] == {}
    assert result["history"]["boot"].endswith("Z")
    assert result["history"]["paths"][str(tmp_path)]["changed"].endswith("Z")
    assert result["history"]["sysctl"] == {}


def test_a_misspelt_state_fails_with_the_known_words() -> None:
    done = run(desired={"a": {"sysctls": {}}})
    result = json.loads(done.stdout)
    assert result["failed"] is True
    assert "unknown keys sysctls" in result["msg"]


@pytest.mark.parametrize("documented", [module, plan_module])
def test_documentation_is_complete(documented: Any) -> None:
    documentation = yaml.safe_load(documented.DOCUMENTATION)
    assert documentation["attributes"]["check_mode"]["support"] == "full"
    assert {"check_mode", "diff_mode"} <= set(documentation["attributes"])
    assert yaml.safe_load(documented.EXAMPLES)
    assert yaml.safe_load(documented.RETURN)


def test_the_documented_options_are_the_real_ones() -> None:
    done = run(desired={}, wrong=1)
    message = json.loads(done.stdout)["msg"]
    assert all(option in message for option in yaml.safe_load(module.DOCUMENTATION)["options"])


def test_ports_on_their_way_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    desired = {"fabric_network": {"links": {"eth1": {"mtu": 9000, "addresses": [], "up": True}}}}
    link = {"exists": True, "addresses": [], "up": True}
    seen = [{"links": {"eth1": {**link, "mtu": mtu}}} for mtu in (1500, 1500, 9000, 1500)]
    assert module.settled(lambda: seen.pop(0), desired, 60) == {"links": {"eth1": {**link, "mtu": 9000}}}
    assert module.settled(lambda: seen[0], desired, 0) == seen[0]


def test_gpus_that_are_still_being_joined_are_waited_for_and_broken_ones_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    desired = {"gpu_verify": {"gpu_health": {"profile": "x", "hardware": {"gpus": 8, "gpu_name": "H"}}}}
    looks: list[dict[str, str]] = [
        {"fabric_manager.state": "fail", "gpu.count": "pass"},
        {"fabric_manager.state": "pass", "gpu.count": "pass"},
        {"fabric_manager.state": "fail", "gpu.count": "fail"},
        {"fabric_manager.state": "pass", "gpu.count": "pass"},
    ]

    def look() -> dict[str, Any]:
        checks = [
            {"id": name, "verdict": verdict, "expected": 1, "observed": 2} for name, verdict in looks.pop(0).items()
        ]
        return {"gpu_health": {"checks": checks}}

    def verdicts() -> list[str]:
        found = module.settled(look, desired, 60)
        return [one["verdict"] for one in found["gpu_health"]["checks"]]

    assert verdicts() == ["pass", "pass"]
    assert verdicts() == ["fail", "fail"]
