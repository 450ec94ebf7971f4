# SPDX-License-Identifier: Apache-2.0
"""The fabric manager evaluated: a state is believed only with the service and the versions."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.fabric_manager import check_fabric_manager
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.fabric_manager import parse_fabric_manager
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import Reading

SWITCHED = Expected("eight", 8, "NVIDIA H100 80GB HBM3", links_per_gpu=18, nvswitch=True)
GB10 = Expected("gb10", 1, "NVIDIA GB10", unified=True)
RUNNING = (
    "Loaded: loaded (/x.service; enabled; preset: enabled)\nActive: active (running) since Tue\nMain PID: 12 (nv)\n"
)
DEAD = "Loaded: loaded (/x.service; enabled)\nActive: failed (Result: signal) since Tue\nMain PID: 12 (code=killed)\n"
VERSION = "Fabric Manager version is : 580.95.05\n"
STARTED = "node1 systemd[1]: Started NVIDIA fabric manager service.\n"


def manager(text: str, source: str = "fm.txt") -> Reading:
    data, problems = parse_fabric_manager(text)
    return Reading("fabricmanager", data, tuple(problems), source)


def gpus(
    state: str | None = "Completed", status: str | None = "Success", count: int = 8, driver: str | None = "580.95.05"
) -> Reading:
    listed: list[dict[str, Any]] = [
        {"index": index, "fabric.state": state, "fabric.status": status} for index in range(count)
    ]
    return Reading("query-gpu", {"gpus": listed, "driver": driver, "complete": True}, (), "query.txt")


def checks(*readings: Reading, expected: Expected = SWITCHED) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in check_fabric_manager(readings, expected):
        found.setdefault(one["id"].removeprefix("fabric_manager."), one)
    return found


def verdicts(*readings: Reading, expected: Expected = SWITCHED) -> dict[str, str]:
    return {name: one["verdict"] for name, one in checks(*readings, expected=expected).items()}


def test_all_is_well() -> None:
    right = {"service": "pass", "version": "pass", "state": "pass"}
    assert verdicts(manager(RUNNING + VERSION), gpus()) == right
    assert verdicts(manager(RUNNING), manager(VERSION, "version.txt"), gpus()) == right
    assert verdicts(manager("active\n" + VERSION), gpus()) == right


def test_a_dead_service_and_the_memory_of_it() -> None:
    found = checks(manager(DEAD + VERSION), gpus())
    assert {name: one["verdict"] for name, one in found.items()} == {
        "service": "fail",
        "version": "pass",
        "state": "fail",
    }
    assert "memory of a fabric manager that died" in found["state"]["observed"]
    assert found["service"]["command"] == "systemctl restart nvidia-fabricmanager"


def test_a_state_alone_is_not_believed() -> None:
    assert verdicts(gpus()) == {"state": "could_not_check"}
    assert verdicts(manager(RUNNING), gpus())["state"] == "could_not_check"
    assert verdicts(manager(VERSION), gpus())["state"] == "could_not_check"
    assert verdicts(manager(RUNNING + VERSION), gpus(driver=None))["state"] == "could_not_check"


def test_other_versions() -> None:
    found = checks(manager(RUNNING + VERSION), gpus(driver="580.120"))
    assert found["version"]["verdict"] == "fail"
    assert found["state"]["verdict"] == "fail"
    assert "580.120" in found["version"]["observed"]
    refused = "nv-fabricmanager[1]: driver interface version 580.127.05 doesn't match with driver version 580.120\n"
    alone = checks(manager(refused))
    assert {name: one["verdict"] for name, one in alone.items()} == {"service": "fail", "version": "fail"}
    assert alone["service"]["command"] is None


def test_a_pin_where_the_driver_is_not_told() -> None:
    pinned = Expected("eight", 8, "x", nvswitch=True, driver="580.120")
    assert verdicts(manager(VERSION), expected=pinned) == {"version": "fail"}
    assert verdicts(manager(VERSION)) == {"version": "could_not_check"}


@pytest.mark.parametrize(
    ("reading", "verdict"),
    [
        (gpus("In Progress"), "fail"),
        (gpus("Not Started"), "fail"),
        (gpus("Completed", "Insufficient Resources"), "fail"),
        (gpus(None), "could_not_check"),
        (gpus("Completed", None), "could_not_check"),
        (gpus(count=5), "could_not_check"),
    ],
)
def test_states(reading: Reading, verdict: str) -> None:
    assert verdicts(manager(RUNNING + VERSION), reading)["state"] == verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (RUNNING, "pass"),
        (RUNNING.replace("enabled;", "disabled;"), "pass"),
        (RUNNING.replace("(running)", "(exited)"), "fail"),
        ("inactive\n", "fail"),
        ("Active: activating (start) since Tue\n", "fail"),
        ("Unit nvidia-fabricmanager.service could not be found.\n", "fail"),
        ("Loaded: masked (Reason: x)\nActive: inactive (dead)\n", "fail"),
        ("node1 systemd[1]: Stopped NVIDIA fabric manager service.\n", "fail"),
        (STARTED, "could_not_check"),
        ("Active: active (runn", "could_not_check"),
        ("active\nfailed\n", "could_not_check"),
        ("hello\n", "could_not_check"),
        ("nv-fabricmanager[4]: failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n", "fail"),
    ],
)
def test_services(text: str, verdict: str) -> None:
    assert verdicts(manager(text))["service"] == verdict


def test_logs() -> None:
    configured = (
        "node1 nv-fabricmanager[5183]: Successfully configured all the available NVSwitches to route traffic.\n"
    )
    assert verdicts(manager(configured)) == {"service": "could_not_check", "version": "could_not_check", "log": "pass"}
    error = "[Feb 27 2025 15:10:03] [ERROR] [tid 12727] failed to enable access links\n"
    assert verdicts(manager(configured + error))["log"] == "fail"
    assert verdicts(manager(error + configured))["log"] == "pass"
    assert "log" not in verdicts(manager(RUNNING))


def test_the_state_in_a_text_of_its_own() -> None:
    text = "    Fabric\n        State       : Completed\n        Status      : Success\n" * 8
    assert verdicts(manager(text))["state"] == "could_not_check"
    assert verdicts(manager(text.replace("Completed", "In Progress")))["state"] == "fail"
    assert verdicts(manager(text, "state.txt"), manager(DEAD))["state"] == "fail"
    assert verdicts(manager(text, "state.txt"), manager(RUNNING + VERSION), gpus())["state"] == "pass"


def test_systemd_s_word_outweighs_a_log() -> None:
    failed = "node1 systemd[1]: nvidia-fabricmanager.service: Failed with result 'signal'.\n"
    found = check_fabric_manager([manager(RUNNING + VERSION), manager(failed, "log.txt"), gpus()], SWITCHED)
    assert "fail" not in {one["verdict"] for one in found}
    assert [one["verdict"] for one in found if one["id"] == "fabric_manager.state"] == ["pass"]


def test_a_fatal_fault_of_a_switch_in_its_log() -> None:
    line = "[Feb 27 2025 15:10:02] [ERROR] [tid 1] detected NVSwitch fatal error 20034 on NodeId 0\n"
    assert verdicts(manager(RUNNING + line))["kernel.sxid"] == "fail"
    assert "kernel.sxid" not in verdicts(manager(RUNNING + line.replace("fatal", "non-fatal")))


@pytest.mark.parametrize(
    "text", [RUNNING, DEAD, "Unit nvidia-fabricmanager.service could not be found.\n", "inactive\n", STARTED]
)
def test_hardware_without_switches_needs_none(text: str) -> None:
    assert verdicts(manager(text), gpus(None, None, 1), expected=GB10) == {"service": "not_applicable"}


def test_a_program_that_the_shell_does_not_find() -> None:
    missing = manager("bash: nv-fabricmanager: command not found\n", "version.txt")
    assert verdicts(missing)["service"] == "fail"
    assert verdicts(manager(RUNNING), missing) == {"service": "pass", "version": "could_not_check"}
    assert verdicts(missing, expected=GB10) == {"service": "not_applicable"}


def test_the_empty_log_of_a_service_that_is_not_there() -> None:
    both = check_fabric_manager([manager("inactive\n"), manager("", "log.txt")], GB10)
    assert {one["verdict"] for one in both} == {"not_applicable"}


def test_text_that_says_nothing() -> None:
    assert verdicts(manager("hello\n"), expected=GB10) == {"service": "could_not_check"}
    assert verdicts(gpus(None, None, 1), expected=GB10) == {}


def test_switches_that_are_missing_are_not_mended_by_a_restart() -> None:
    said = "detected number of NVSwitches don't match with any supported system topology, aborting fabric manager\n"
    for text in (DEAD + f"Sep 08 23:21:50 node nv-fabricmanager[19]: {said}", f"[Sep 08 2025 23:21:50] [ERROR] {said}"):
        found = checks(manager(text))["service"]
        assert (found["verdict"], found["command"]) == ("fail", None)
        assert "lspci" in found["remedy"]


def test_a_log_of_requests_is_that_of_a_fabric_manager_at_work() -> None:
    serves = "[Feb 25 2025 14:01:18] [INFO] [tid 18] multicast group 0 is allocated.\n"
    minor = "[Feb 27 2025 15:10:02] [ERROR] [tid 12] detected NVSwitch non-fatal error 12028 on fid 0 port 61\n"
    found = checks(manager(serves + minor))
    assert (found["log"]["verdict"], found["service"]["verdict"]) == ("pass", "could_not_check")
    assert "12028" in found["log"]["observed"]
    # No word that all is right beside a fatal fault.
    found = checks(manager(serves + minor.replace("non-fatal", "fatal")))
    assert ("log" in found, found["kernel.sxid"]["verdict"]) == (False, "fail")


def test_a_unit_that_is_not_there_has_no_log() -> None:
    text = "Failed to get unit file state for nvidia-fabricmanager.service: No such file or directory\n"
    found = verdicts(manager(text))
    assert (found["service"], "log" in found) == ("fail", False)


def test_a_state_that_is_not_told_is_not_called_completed() -> None:
    found = checks(gpus(state=None, status=None))["state"]
    assert (found["verdict"], "Completed" in found["observed"]) == ("could_not_check", False)


def test_a_masked_version_hides_no_dead_service() -> None:
    states = "Fabric\nState : Completed\nStatus : Success\n" * 8
    found = checks(manager(states + "Fabric Manager version is : 580.xxx.xx\n" + DEAD))
    assert {name: one["verdict"] for name, one in found.items()} == {
        "service": "fail",
        "version": "could_not_check",
        "state": "fail",
    }
    assert "580.xxx.xx" in found["version"]["observed"]
