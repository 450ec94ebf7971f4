# SPDX-License-Identifier: Apache-2.0
"""The fabric manager as systemctl, its logs and its program tell of it."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.fabric_manager import parse_fabric_manager
from hypothesis import given
from hypothesis import strategies as st

RUNNING = """\
\u25cf nvidia-fabricmanager.service - NVIDIA fabric manager service
     Loaded: loaded (/usr/lib/systemd/system/nvidia-fabricmanager.service; enabled; preset: enabled)
     Active: active (running) since Tue 2026-03-03 18:39:19 UTC; 1h 4min ago
   Main PID: 5183 (nv-fabricmanage)

Mar 03 18:38:51 node1 systemd[1]: Starting NVIDIA fabric manager service...
Mar 03 18:39:19 node1 nv-fabricmanager[5183]: Successfully configured all the available NVSwitches.
Mar 03 18:39:19 node1 systemd[1]: Started NVIDIA fabric manager service.
Mar 03 18:39:57 node1 nv-fabricmanager[5183]: detected NVSwitch non-fatal error 22013 on NodeId 0 port 60
"""
KILLED = """\
\u00d7 nvidia-fabricmanager.service - NVIDIA fabric manager service
     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled; vendor preset: enabled)
     Active: failed (Result: signal) since Tue 2026-03-03 18:39:19 UTC; 5 days ago
   Main PID: 5183 (code=killed, signal=KILL)

Mar 03 18:39:19 node1 systemd[1]: nvidia-fabricmanager.service: Main process exited, code=killed, status=9/KILL
Mar 03 18:39:19 node1 systemd[1]: nvidia-fabricmanager.service: Failed with result 'signal'.
"""
MISMATCH = (
    "nv-fabricmanager[104]: fabric manager NVIDIA GPU driver interface version 580.127.05 "
    "doesn't match with driver version 580.120\n"
)


def test_a_running_service() -> None:
    data, problems = parse_fabric_manager(RUNNING)
    assert problems == []
    assert data["unit"] == {"load": "loaded", "enabled": True, "active": "active", "sub": "running", "main_pid": 5183}
    assert data["log_state"] == "started"
    assert data["configured"] is True
    assert [(one["number"], one["fatal"], one["count"]) for one in data["sxids"]] == [(22013, False, 1)]


def test_a_dead_service() -> None:
    data, problems = parse_fabric_manager(KILLED)
    assert problems == []
    assert data["unit"]["active"] == "failed"
    assert data["unit"]["result"] == "signal"
    assert data["unit"]["ended"] == "code=killed, signal=KILL"
    assert data["log_state"] == "failed"


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("active\n", {"active": "active"}),
        ("$ systemctl is-active nvidia-fabricmanager\nfailed\nrc=3\n", {"active": "failed"}),
        ("LoadState=loaded\nActiveState=active\nSubState=running\n",
         {"load": "loaded", "active": "active", "sub": "running"}),
        ("LoadState=not-found\nActiveState=inactive\nSubState=dead\n",
         {"load": "not-found", "active": "inactive", "sub": "dead"}),
        ("UnitFileState=disabled\nMainPID=12\n", {"enabled": False, "main_pid": 12}),
        ("Unit nvidia-fabricmanager.service could not be found.\n", {"load": "not-found"}),
        ("Loaded: masked (Reason: Unit nvidia-fabricmanager.service is masked.)\nActive: inactive (dead)\n",
         {"load": "masked", "active": "inactive", "sub": "dead"}),
        ("Active: activating (auto-restart) (Result: exit-code) since Mon\n",
         {"active": "activating", "sub": "auto-restart", "result": "exit-code"}),
    ],
)  # fmt: skip
def test_units(text: str, unit: dict[str, object]) -> None:
    data, problems = parse_fabric_manager(text)
    assert problems == []
    assert data["unit"] == unit


@pytest.mark.parametrize(
    "text",
    [
        "Fabric Manager version is : 580.95.05\n",
        "\n\n\tFabric Manager version is : 580.95.05\n\n",
        "[Feb 25 2025 13:59:45] [INFO] [tid 1808] Fabric Manager version 580.95.05 is running with these options\n",
    ],
)
def test_versions(text: str) -> None:
    data, problems = parse_fabric_manager(text)
    assert problems == []
    assert data["version"] == "580.95.05"


def test_a_refused_driver() -> None:
    data, _ = parse_fabric_manager(
        MISMATCH + "systemd[1]: nvidia-fabricmanager.service: Control process exited, code=exited, status=1/FAILURE\n"
    )
    assert data["mismatch"] == {"fabric_manager": "580.127.05", "driver": "580.120"}
    assert data["log_state"] == "failed"


def test_a_later_start_has_mended_it() -> None:
    data, _ = parse_fabric_manager(
        MISMATCH + "Mar 03 18:39:19 node1 systemd[1]: Started NVIDIA fabric manager service.\n"
    )
    assert "mismatch" not in data
    assert data["log_state"] == "started"


def test_nothing_to_do() -> None:
    data, _ = parse_fabric_manager(
        "nv-fabricmanager[41]: request to query NVSwitch device information from NVSwitch driver failed with "
        "error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n"
    )
    assert data["nothing_to_do"] is True
    assert data["log_state"] == "failed"


def test_the_state_that_gpus_report() -> None:
    text = "    Fabric\n        State       : Completed\n        Status      : Success\n"
    data, problems = parse_fabric_manager(text + text.replace("Completed", "N/A"))
    assert problems == []
    assert data == {"fabric": [{"state": "Completed", "status": "Success"}, {"state": None, "status": "Success"}]}


def test_its_own_log() -> None:
    data, _ = parse_fabric_manager(
        "[Feb 27 2025 15:10:02] [ERROR] [tid 12727] detected NVSwitch fatal error 20034 on NodeId 0\n"
        "[Feb 27 2025 15:10:03] [ERROR] [tid 12727] failed to enable access links\n"
        "[Feb 27 2025 15:10:04] [INFO] [tid 1808] multicast group 0 is allocated.\n"
    )
    assert [(one["number"], one["fatal"]) for one in data["sxids"]] == [(20034, True)]
    assert len(data["errors"]) == 1


@pytest.mark.parametrize(
    "text",
    ["Active: acti", "Active: active (runn", "Active: active", "active\nfailed\n", "Fabric Manager version is : 58x"],
)
def test_what_is_cut_off_or_contradicts_itself_is_a_problem(text: str) -> None:
    assert len(parse_fabric_manager(text)[1]) == 1


@pytest.mark.parametrize("text", ["", "hello\n"])
def test_other_text(text: str) -> None:
    data, problems = parse_fabric_manager(text)
    assert data == {}
    assert len(problems) == 1


@given(st.one_of(st.text(max_size=300), st.binary(max_size=300).map(lambda raw: raw.decode("latin-1"))))
def test_any_text_is_read_without_an_error(text: str) -> None:
    data, problems = parse_fabric_manager(text)
    assert data or problems
