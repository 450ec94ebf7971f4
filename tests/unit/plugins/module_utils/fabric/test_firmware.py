# SPDX-License-Identifier: Apache-2.0
"""Firmware that changed past apt is noticed, named, and explains what it did to a port."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric import firmware
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences, explain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import lines, records, suspects
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.fabric_network import desired
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ideal import ideal

PATH = "/var/lib/firstlight/fabric.firmware"
RECORD = "/var/lib/firstlight/fabric.connectivity"
AT = "2026-08-18T09:12:44Z"
PORT = "enP2p1s0f1np1"
OLD = {
    "bios": "GX10DGX.0104.2026.0326 (03/26/2026)",
    f"nic.{PORT}": "28.45.4028",
    "vbios.000f:01:00.0": "9a.0b.1e.00.00",
}
NEW = {**OLD, "bios": "GX10DGX.0105.2026.0505 (05/05/2026)", f"nic.{PORT}": "28.48.1000"}
"""Versions of BIOS and VBIOS: Entrpi/ds4-on-spark#16, 2026-08-20; of the NIC: NVIDIA/dgx-spark-playbooks#108."""

ETHTOOL = """\
driver: mlx5_core
version: 6.17.0-1029-nvidia
firmware-version: 28.45.4028 (NVD0000000087)
expansion-rom-version:
bus-info: 0002:01:00.1
supports-statistics: yes
"""
INFORMATION = """\
Model: \t\t NVIDIA GB10
IRQ:   \t\t 125
GPU UUID: \t GPU-1b2c3d4e-0000-1111-2222-333344445555
Video BIOS: \t {}
Bus Type: \t PCIe
Bus Location: \t 000f:01:00.0
"""


def seen(now: dict[str, str], **changes: Any) -> dict[str, Any]:
    return {PATH: {"exists": True, "at": AT, "recorded": OLD, "now": now, "error": None, **changes}}


def found(now: dict[str, str], **changes: Any) -> list[dict[str, Any]]:
    return firmware.firmware_differences({PATH: {}}, seen(now, **changes))


@pytest.mark.parametrize(
    ("version", "date", "told"),
    [
        ("5.36_0ACUM018\n", "08/12/2025\n", "5.36_0ACUM018 (08/12/2025)"),
        ("5.36_0ACUM018\n", None, "5.36_0ACUM018"),
        ("\n", "08/12/2025\n", "08/12/2025"),
        (None, None, None),
    ],
)
def test_the_bios_is_told_by_version_and_date(version: str | None, date: str | None, told: str | None) -> None:
    assert firmware.bios_version(version, date) == told


def test_sysfs_and_ethtool_say_the_same_of_a_nic() -> None:
    assert firmware.ethtool_version(ETHTOOL) == firmware.nic_version("28.45.4028\n") == "28.45.4028"
    assert firmware.ethtool_version("driver: veth\nfirmware-version: \nbus-info: \n") is None
    assert firmware.ethtool_version("driver: virtio_net\nfirmware-version: N/A\n") is None
    assert firmware.ethtool_version("firmware-version: 9.20 0x8000d95e 22.0.9\n") == "9.20 0x8000d95e 22.0.9"
    assert firmware.nic_version(None) is None


def test_a_gpu_that_nobody_used_yet_tells_no_vbios() -> None:
    assert firmware.vbios_version(INFORMATION.format("9A.0B.1E.00.00")) == "9a.0b.1e.00.00"
    assert firmware.vbios_version(INFORMATION.format("??.??.??.??.??")) is None
    assert firmware.vbios_version(None) is None


def test_only_what_is_known_is_a_component() -> None:
    told = firmware.components(None, {"a": "1.2", "b": None}, {"0000:01:00.0": None})
    assert told == {"nic.a": "1.2"}
    assert firmware.ports_of(OLD) == [PORT]


def test_the_record_is_beside_that_of_the_test() -> None:
    assert firmware.firmware_path(RECORD) == PATH
    assert firmware.firmware_path("/srv/record") == "/srv/record.firmware"


def test_the_same_firmware_keeps_the_day_of_its_first_test() -> None:
    text = firmware.record_text(OLD, AT)
    assert firmware.kept_text(text, OLD, "2026-09-01T00:00:00Z") == text
    assert json.loads(firmware.kept_text(text, NEW, "2026-09-01T00:00:00Z")) == {
        "at": "2026-09-01T00:00:00Z",
        "versions": NEW,
    }
    assert firmware.kept_text("half a rec", OLD, AT) == text


@given(st.one_of(st.none(), st.text(), st.binary().map(lambda data: data.decode("latin-1"))))
def test_any_text_is_a_record_or_none(text: str | None) -> None:
    record = firmware.read_record(text)
    assert record["exists"] is (text is not None)
    assert text is None or record["error"] or record["at"]


@pytest.mark.parametrize("text", ["[]", "{}", '{"at": "x", "versions": []}', '{"at": "x", "versions": null}', "null"])
def test_a_record_of_another_form_is_said_to_be_none(text: str) -> None:
    assert "not a firmware record" in firmware.read_record(text)["error"]


VERSIONS = st.dictionaries(st.sampled_from(["bios", "nic.a", "nic.b", "vbios.c"]), st.sampled_from(["1", "2"]))


@given(recorded=VERSIONS, now=VERSIONS)
def test_only_what_is_known_then_and_now_can_have_changed(recorded: dict[str, str], now: dict[str, str]) -> None:
    record = firmware.read_record(firmware.record_text(recorded, AT))
    changed = firmware.changes({**record, "now": now})
    assert changed == {
        name: (recorded[name], now[name]) for name in recorded.keys() & now.keys() if recorded[name] != now[name]
    }
    told = firmware.firmware_differences({PATH: {}}, {PATH: {**record, "now": now}})
    assert bool(told) is bool(changed)


def test_firmware_that_changed_is_named_with_the_day_of_the_test() -> None:
    assert found(OLD) == []
    sentence = (
        f"the firmware of the NIC behind {PORT} changed from 28.45.4028 to 28.48.1000 since the fabric was tested on "
        f"{AT}, expected a connectivity test with the present firmware"
    )
    assert explain(found({**OLD, f"nic.{PORT}": "28.48.1000"})) == [sentence]
    assert "the BIOS changed from GX10DGX.0104.2026.0326 (03/26/2026) to GX10DGX.0105" in explain(found(NEW))[0]
    assert "the VBIOS of GPU 000f:01:00.0 changed" in explain(found({**OLD, "vbios.000f:01:00.0": "9a.0b.25.00.00"}))[0]


@pytest.mark.parametrize(
    ("observed", "sentence"),
    [
        ({}, "the firmware of the host is unknown, expected versions to compare"),
        (
            seen(OLD, exists=False, recorded={}, at=None),
            "is not on record, expected /var/lib/firstlight/fabric.firmware",
        ),
        (seen({}, error="it is not a firmware record (KeyError)"), "cannot be used (it is not a firmware record"),
    ],
)
def test_a_host_without_a_record_is_not_right(observed: dict[str, Any], sentence: str) -> None:
    assert sentence in explain(firmware.firmware_differences({PATH: {}}, observed))[0]


# --- in a verification -----------------------------------------------------------------------------------------------
VARIABLES = {
    "fabric_network_ports": [{"port": PORT, "address": "192.168.101.10/24", "mtu": 9000}],
    "fabric_network_peers": [{"host": "spark1", "port": PORT, "address": "192.168.101.11", "mtu": 9000}],
}


def verified(now: dict[str, str], history: dict[str, Any] | None = None, mtu: int = 9000) -> dict[str, dict[str, Any]]:
    state = desired(VARIABLES)
    assert state["firmware"] == {PATH: {}}
    observation = ideal(state)
    assert differences(state, observation) == []
    observation["firmware"] = seen(now)
    observation["links"][PORT]["mtu"] = mtu
    return {one["id"]: one for one in records("spark0", {"fabric_network": state}, observation, history=history)}


def test_a_single_node_has_no_such_record() -> None:
    assert "firmware" not in desired({**VARIABLES, "fabric_network_peers": []})


def test_an_mtu_that_a_capsule_reset_is_explained_by_it() -> None:
    told = verified(NEW, mtu=1500)
    assert told[f"firmware.{PATH}"]["verdict"] == "fail"
    assert told[f"firmware.{PATH}"]["remedy"].startswith("run site.yml, which tests the fabric again")
    assert told[f"link.{PORT}"]["by"] == (
        "the BIOS changed from GX10DGX.0104.2026.0326 (03/26/2026) to GX10DGX.0105.2026.0505 (05/05/2026) and the "
        f"firmware of the NIC behind {PORT} changed from 28.45.4028 to 28.48.1000 since the fabric was tested on {AT} "
        f"(see firmware.{PATH}): a firmware update resets a port's MTU and may rewire its PCIe lanes"
    )
    assert f"since the fabric was tested on {AT}" in "\n".join(lines(told.values()))


def test_an_mtu_that_somebody_set_is_not_blamed_on_firmware() -> None:
    assert verified(OLD, mtu=1500)[f"link.{PORT}"]["by"] is None
    other = {**OLD, "vbios.000f:01:00.0": "9a.0b.25.00.00"}
    assert verified(other, mtu=1500)[f"link.{PORT}"]["by"] is None


def test_fwupd_is_asked_only_where_firmware_changed() -> None:
    assert suspects(verified(NEW).values(), {}) == {"fwupd": True}
    assert suspects(verified(OLD).values(), {}) == {}


HISTORY = {"boot": "2026-08-19T20:02:11Z"}
EVENT = {
    "device": "UEFI Device Firmware",
    "before": "0x03000006",
    "after": "0x03000007",
    "at": "2026-08-19T19:58:00Z",
    "state": "success",
}


def test_an_update_by_fwupd_is_named() -> None:
    told = verified(NEW, {**HISTORY, "fwupd": [{**EVENT, "at": "2026-03-01T00:00:00Z", "device": "TPM"}, EVENT]})
    assert told[f"firmware.{PATH}"]["by"] == (
        "fwupd updated UEFI Device Firmware from 0x03000006 to 0x03000007 at 2026-08-19T19:58:00Z (success); the host "
        "booted at 2026-08-19T20:02:11Z"
    )


@pytest.mark.parametrize("events", [[], [{**EVENT, "at": "2026-03-01T00:00:00Z"}], [{**EVENT, "at": None}]])
def test_an_update_that_fwupd_knows_nothing_of_is_said_to_come_past_it(events: list[dict[str, Any]]) -> None:
    by = verified(NEW, {**HISTORY, "fwupd": events})[f"firmware.{PATH}"]["by"]
    assert by.startswith("fwupd's history names no update since then: a capsule,")
    assert by.endswith("the host booted at 2026-08-19T20:02:11Z")


def test_a_record_that_is_missing_has_no_cause() -> None:
    assert firmware.cause({"exists": True}, HISTORY) is None
    assert firmware.cause({"bios": "1", "tested": AT}, None) is None
