# SPDX-License-Identifier: Apache-2.0
"""The records of a connectivity test are written whole or not at all, and the firmware's outlives a failed test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.record import put, wanted

from tests.unit.fake_host import FakeHost

RECORD, FIRMWARE = "/var/lib/firstlight/fabric.connectivity", "/var/lib/firstlight/fabric.firmware"
PEER = {"host": "spark1", "port": "fab0", "address": "192.168.100.11", "mtu": 9000}
MACHINE = {
    "/sys/class/dmi/id/bios_version": "5.36_0ACUM018\n",
    "/sys/class/dmi/id/bios_date": "08/12/2025\n",
    "/sys/class/net/fab0/device/infiniband/rocep1s0f1/fw_ver": "28.45.4028\n",
    "/proc/driver/nvidia/gpus/000f:01:00.0/information": "Model: \t NVIDIA GB10\nVideo BIOS: \t 9a.0b.1e.00.00\n",
    "/": None,
}
VERSIONS = {
    "bios": "5.36_0ACUM018 (08/12/2025)",
    "nic.fab0": "28.45.4028",
    "vbios.000f:01:00.0": "9a.0b.1e.00.00",
}


def test_the_record_is_kept_and_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "firstlight" / "fabric.connectivity"
    put(str(path), "tested\n")
    assert path.read_text() == "tested\n"
    assert path.stat().st_mode & 0o7777 == 0o644
    assert [file.name for file in path.parent.iterdir()] == ["fabric.connectivity"]
    put(str(path), None)
    put(str(path), None)
    assert not path.exists()


def asked(**changes: Any) -> dict[str, Any]:
    return {"path": RECORD, "peers": [PEER], "ports": [{"port": "fab0"}], "state": "tested", "forget": False, **changes}


def test_a_test_keeps_the_firmware_that_it_was_made_with() -> None:
    told = wanted(asked(), FakeHost(files=MACHINE), "2026-11-18T10:00:00Z")
    assert told[RECORD][0] is None
    assert json.loads(str(told[RECORD][1])) == {"tested": [PEER]}
    assert json.loads(str(told[FIRMWARE][1])) == {"at": "2026-11-18T10:00:00Z", "versions": VERSIONS}


def test_a_second_test_with_the_same_firmware_changes_nothing() -> None:
    first = {path: str(after) for path, (_, after) in wanted(asked(), FakeHost(files=MACHINE), "2026-11-18").items()}
    told = wanted(asked(), FakeHost(files={**MACHINE, **first}), "2026-12-01")
    assert all(before == after for before, after in told.values())


@pytest.mark.parametrize("forget", [False, True])
def test_a_test_that_fails_leaves_word_of_the_firmware_of_the_last_that_passed(forget: bool) -> None:
    host = FakeHost(files={**MACHINE, RECORD: "tested\n", FIRMWARE: "kept\n"})
    told = wanted(asked(state="absent", forget=forget, peers=[]), host, "2026-12-01")
    assert told == {RECORD: ("tested\n", None), FIRMWARE: ("kept\n", None if forget else "kept\n")}
