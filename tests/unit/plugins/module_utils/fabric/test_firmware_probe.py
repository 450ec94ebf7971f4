# SPDX-License-Identifier: Apache-2.0
"""Firmware is read from files where the kernel has it, and never makes a host fail that does not tell it."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.firmware import record_text
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.firmware_probe import (
    read_firmware,
    read_versions,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.observe.probes import observe

from tests.unit.fake_host import FakeHost, failure, not_installed

PATH = "/var/lib/firstlight/fabric.firmware"
NOTHING = {"/": None}


def test_a_nic_without_rdma_is_asked_by_ethtool() -> None:
    host = FakeHost({"ethtool -i fab0": "driver: ice\nfirmware-version: 4.40 0x8001c7d4 1.3534.0\n"}, NOTHING)
    assert read_versions(host, ["fab0"]) == {"nic.fab0": "4.40 0x8001c7d4 1.3534.0"}


def test_a_nic_with_rdma_starts_no_program() -> None:
    files = {"/sys/class/net/fab0/device/infiniband/rocep1s0f1/fw_ver": "28.45.4028\n", **NOTHING}
    host = FakeHost({"ethtool": failure()}, files)
    assert read_versions(host, ["fab0"]) == {"nic.fab0": "28.45.4028"}
    assert host.ran == []


def test_a_host_that_tells_nothing_has_no_versions() -> None:
    assert read_versions(FakeHost({"ethtool": failure("no such device")}, NOTHING), ["fab0"]) == {}
    assert read_versions(FakeHost({"ethtool": not_installed}, NOTHING), ["fab0"]) == {}


def test_what_the_record_names_is_read_again() -> None:
    files = {PATH: record_text({"bios": "1", "nic.fab0": "2"}, "2026-11-18T10:00:00Z"), **NOTHING}
    files["/sys/class/dmi/id/bios_version"] = "1.1\n"
    host = FakeHost({"ethtool -i fab0": "firmware-version: 2\n"}, files)
    assert read_firmware(host, PATH, 5.0) == {
        "exists": True,
        "at": "2026-11-18T10:00:00Z",
        "recorded": {"bios": "1", "nic.fab0": "2"},
        "now": {"bios": "1.1", "nic.fab0": "2"},
        "error": None,
    }


def test_a_host_without_a_record_is_not_looked_at() -> None:
    host = FakeHost({"ethtool": failure()}, NOTHING)
    assert read_firmware(host, PATH, 5.0)["exists"] is False
    assert host.ran == []


def test_an_observation_has_it() -> None:
    files = {PATH: record_text({"bios": "1"}, "2026-11-18T10:00:00Z"), "/sys/class/dmi/id/bios_version": "2", **NOTHING}
    seen = observe(FakeHost(files=files), {"fabric_network": {"firmware": {PATH: {}}}})
    assert seen["firmware"][PATH]["now"] == {"bios": "2"}
    assert seen["errors"] == {}
