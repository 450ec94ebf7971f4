# SPDX-License-Identifier: Apache-2.0
"""The lossless class: its values, its unit, and the state a host must show."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.qos import (
    UNIT,
    Qos,
    checked_qos,
    escape_instance,
    instance,
    nccl_traffic_class,
    qos_problems,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import check_vocabulary
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.fabric_environment import rdma_environment
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.fabric_network import (
    desired,
    qos_state,
    qos_unit,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(("dscp", "value"), [(26, 106), (0, 2), (63, 254), (24, 98)])
def test_traffic_class(dscp: int, value: int) -> None:
    assert nccl_traffic_class(dscp) == value


@pytest.mark.parametrize("dscp", [-1, 64, 106, True])
def test_no_dscp(dscp: int) -> None:
    with pytest.raises(ValueError, match="expected 0 to 63"):
        nccl_traffic_class(dscp)


def test_nccl_is_told_the_same() -> None:
    environment = rdma_environment(["rocep1s0f1"], {"priority": 3, "dscp": 26})
    assert environment["NCCL_IB_TC"] == str(nccl_traffic_class(26))


def test_checked() -> None:
    assert checked_qos({}) is None
    assert checked_qos({"priority": 3, "dscp": 26}) == Qos(3, 26)
    assert checked_qos({"priority": "3", "dscp": "26"}) == Qos(3, 26)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"priority": 3}, "has priority, expected priority and dscp"),
        ({"priority": 3, "dscp": 26, "x": 1}, "has dscp, priority, x, expected"),
        ({"priority": 8, "dscp": 26}, "priority is '8', expected a number from 0 to 7"),
        ({"priority": 3, "dscp": 64}, "dscp is '64', expected a number from 0 to 63"),
        ({"priority": -1, "dscp": 26}, "priority is '-1'"),
        ({"priority": 3, "dscp": None}, "dscp is 'None'"),
        ({"priority": True, "dscp": 1}, "priority is 'True'"),
    ],
)
def test_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        checked_qos(values)


def test_problems() -> None:
    qos = Qos(3, 26)
    assert qos_problems(qos, qos.pfc, {26: 3, 0: 0}) == []
    assert qos_problems(qos, (False,) * 8, {}) == [
        "PFC is on for no priority, expected priority 3",
        "DSCP 26 has no priority, expected priority 3",
    ]
    assert qos_problems(qos, (True, *qos.pfc[1:]), {26: 0}) == [
        "PFC is on for priority 0, 3, expected priority 3",
        "DSCP 26 has priority 0, expected priority 3",
    ]
    assert qos_problems(qos, None, {26: 3}) == ["PFC is on for unknown priorities, expected priority 3"]


def test_unit() -> None:
    text = qos_unit(Qos(3, 26))
    assert "ExecStart=dcb pfc set dev %I prio-pfc all:off 3:on\n" in text
    assert "ExecStart=dcb app replace dev %I dscp-prio 26:3\n" in text
    assert "echo 106 >" in text
    assert "BindsTo=sys-subsystem-net-devices-%i.device\n" in text
    assert text.endswith("[Install]\nWantedBy=sys-subsystem-net-devices-%i.device\n")
    assert [
        line for line in text.splitlines() if line.startswith("ExecStop=") and not line.startswith("ExecStop=-")
    ] == []


@pytest.mark.parametrize(
    ("port", "escaped"),
    [
        ("enp1s0f1np1", "enp1s0f1np1"),
        ("fab-0", r"fab\x2d0"),
        ("a@b+c", r"a\x40b\x2bc"),
        (".x", r"\x2ex"),
        ("a.1", "a.1"),
    ],
)
def test_instance_names(port: str, escaped: str) -> None:
    assert escape_instance(port) == escaped
    assert instance(port) == f"firstlight-roce-qos@{escaped}.service"


def test_state_is_of_the_vocabulary() -> None:
    wanted = qos_state(["enp1s0f1np1"], {"priority": 3, "dscp": 26})
    assert wanted["units"] == {"firstlight-roce-qos@enp1s0f1np1.service": {"enabled": True, "active": True}}
    assert list(wanted["files"]) == [f"/etc/systemd/system/{UNIT}"]
    none = qos_state(["enp1s0f1np1"], {})
    assert none == {
        "units": {"firstlight-roce-qos@enp1s0f1np1.service": {"enabled": False, "active": False, "if_present": True}}
    }
    for state in (wanted, none):
        check_vocabulary(state)


@given(st.integers(0, 7), st.integers(0, 63))
def test_every_class_is_written_and_evaluated(priority: int, dscp: int) -> None:
    qos = Qos(priority, dscp)
    assert f"all:off {priority}:on" in qos_unit(qos)
    assert qos_problems(qos, qos.pfc, {dscp: priority}) == []
    assert nccl_traffic_class(dscp) >> 2 == dscp


def role_state(**more: Any) -> dict[str, Any]:
    ports = [{"port": "enp1s0f1np1", "address": "192.168.100.10/24", "mtu": 9000}]
    return desired({"fabric_network_ports": ports, **more})


def test_the_role_has_it_among_its_own() -> None:
    wanted = role_state(fabric_network_qos={"priority": 3, "dscp": 26})
    assert f"/etc/systemd/system/{UNIT}" in wanted["files"]
    assert f"/etc/systemd/system/{UNIT}" not in role_state()["files"]
    assert wanted["units"][instance("enp1s0f1np1")] == {"enabled": True, "active": True}
    assert "units" not in role_state()


def test_what_is_left_of_a_class_is_found() -> None:
    wanted = role_state(fabric_network_qos={})["units"]
    unit = instance("enp1s0f1np1")
    gone = {"units": {unit: {"load": "not-found", "enabled": False, "active": False, "sub": "dead"}}}
    left = {"units": {unit: {"load": "loaded", "enabled": True, "active": True, "sub": "exited"}}}
    assert differences({"units": wanted}, gone) == []
    assert [one["key"] for one in differences({"units": wanted}, left)] == [unit]
