# SPDX-License-Identifier: Apache-2.0
"""roce_qos on a host whose dcb and systemctl are played: what is set, kept, changed and given back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.qos import UNIT, Qos
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.qos_host import QosError, QosHost
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.fabric_network import qos_unit

from tests.unit.fake_host import Answer, Call, FakeHost, Reply, failure, not_installed

QOS = Qos(3, 26)
PORT = "enp1s0f1np1"
UNIT_OF_PORT = f"firstlight-roce-qos@{PORT}.service"


class Played(FakeHost):
    """Ports with DCB, and a systemd that runs the template's dcb commands."""

    def __init__(self, root: Path, ports: Sequence[str]) -> None:
        super().__init__({"dcb": self._dcb, "systemctl": self._systemctl, "systemctl is-active": self._is_active})
        self.units = root / "etc/systemd/system"
        self.units.mkdir(parents=True)
        self.ports: dict[str, dict[str, Any]] = {port: {"pfc": [False] * 8, "dscp": {}} for port in ports}
        self.active: set[str] = set()
        self.changes: list[str] = []
        self.deaf = False
        self.dcbx = '{"host":true,"ieee":true}'

    def _is_active(self, call: Call) -> int:
        return 0 if call.argv[-1] in self.active else 3

    def _systemctl(self, call: Call) -> Reply:
        verb, *units = call.argv[1:]
        self.changes.append(" ".join(call.argv[1:]))
        if verb == "stop" and not (self.units / UNIT).exists():
            return failure(f"Failed to stop {units[0]}: Unit {units[0]} not loaded.\n", 5)
        if units:
            self._unit(verb, units[0])
        return 0

    def _dcb(self, call: Call) -> Reply:
        port = call.argv[-1]
        if port not in self.ports:
            return failure("Attribute read: Operation not supported\n")
        shown = {
            "pfc": json.dumps({"pfc_cap": 8, "prio_pfc": self.ports[port]["pfc"]}),
            "app": json.dumps({"dscp_prio": [[key, value, " "] for key, value in self.ports[port]["dscp"].items()]}),
            "dcbx": self.dcbx,
        }
        return shown[call.argv[2]]

    def _unit(self, verb: str, unit: str) -> None:
        port = unit.partition("@")[2].removesuffix(".service")
        wants = self.units / f"sys-subsystem-net-devices-{port}.device.wants"
        if verb == "enable":
            wants.mkdir(exist_ok=True)
            (wants / unit).write_text("")
        elif verb == "disable":
            (wants / unit).unlink()
        elif verb in ("restart", "stop"):
            prefix = "ExecStart=" if verb == "restart" else "ExecStop=-"
            for line in (self.units / UNIT).read_text().splitlines():
                if line.startswith(f"{prefix}dcb") and not self.deaf:
                    self._set(port, line.removeprefix(prefix).split())
            (self.active.add if verb == "restart" else self.active.discard)(unit)

    def _set(self, port: str, words: list[str]) -> None:
        if words[1] == "pfc":
            on = {int(word.removesuffix(":on")) for word in words if word.endswith(":on")}
            self.ports[port]["pfc"] = [number in on for number in range(8)]
        else:
            dscp, priority = map(int, words[-1].split(":"))
            self.ports[port]["dscp"].pop(dscp, None)
            if words[2] == "replace":
                self.ports[port]["dscp"][dscp] = priority


def converge(host: Played, root: Path, ports: Sequence[str], qos: Qos | None, check: bool = False) -> dict[str, Any]:
    return QosHost(host, check_mode=check, root=str(root)).converge(ports, qos, qos_unit(qos) if qos else None)


def test_set_keep_and_leave_it_then(tmp_path: Path) -> None:
    host = Played(tmp_path, [PORT])
    result = converge(host, tmp_path, [PORT], QOS, check=True)
    assert result["changed"]
    assert host.changes == []
    assert result["problems"] == [
        f"{PORT}: PFC is on for no priority, expected priority 3",
        f"{PORT}: DSCP 26 has no priority, expected priority 3",
    ]
    assert f"{PORT} prio-pfc on none, dscp-prio none" in result["diff"]["before"]
    assert f"{PORT} prio-pfc on 3, dscp-prio 26:3" in result["diff"]["after"]
    assert converge(host, tmp_path, [PORT], QOS)["changed"]
    assert host.ports[PORT] == {"pfc": list(QOS.pfc), "dscp": {26: 3}}
    assert (host.units / UNIT).stat().st_mode & 0o777 == 0o644
    assert host.changes == ["daemon-reload", f"enable {UNIT_OF_PORT}", f"restart {UNIT_OF_PORT}"]
    again = converge(host, tmp_path, [PORT], QOS)
    assert not again["changed"]
    assert again["diff"]["before"] == again["diff"]["after"]


def test_another_class_leaves_nothing_of_the_former(tmp_path: Path) -> None:
    host = Played(tmp_path, [PORT])
    converge(host, tmp_path, [PORT], QOS)
    assert converge(host, tmp_path, [PORT], Qos(4, 34))["changed"]
    assert host.ports[PORT] == {"pfc": list(Qos(4, 34).pfc), "dscp": {34: 4}}


def test_a_template_that_somebody_removed_does_not_keep_its_links(tmp_path: Path) -> None:
    host = Played(tmp_path, [PORT])
    converge(host, tmp_path, [PORT], QOS)
    (host.units / UNIT).unlink()
    assert converge(host, tmp_path, [], None)["changed"]
    assert not converge(host, tmp_path, [], None)["changed"]


def test_drift_is_mended(tmp_path: Path) -> None:
    host = Played(tmp_path, [PORT])
    converge(host, tmp_path, [PORT], QOS)
    host.ports[PORT]["pfc"] = [False] * 8
    assert converge(host, tmp_path, [PORT], QOS)["problems"] == [
        f"{PORT}: PFC is on for no priority, expected priority 3"
    ]
    assert host.ports[PORT]["pfc"] == list(QOS.pfc)
    host.active.clear()
    assert converge(host, tmp_path, [PORT], QOS)["changed"]


def test_a_port_that_leaves_is_given_back(tmp_path: Path) -> None:
    host = Played(tmp_path, [PORT, "eth9"])
    converge(host, tmp_path, [PORT, "eth9"], QOS)
    assert converge(host, tmp_path, [PORT], QOS)["changed"]
    assert host.ports["eth9"] == {"pfc": [False] * 8, "dscp": {}}
    assert QosHost(host, root=str(tmp_path)).instances() == [UNIT_OF_PORT]
    assert host.ports[PORT]["dscp"] == {26: 3}


def test_absent_gives_all_back(tmp_path: Path) -> None:
    host = Played(tmp_path, [PORT])
    assert not converge(host, tmp_path, [], None)["changed"]
    converge(host, tmp_path, [PORT], QOS)
    assert converge(host, tmp_path, [], None, check=True)["changed"]
    assert (host.units / UNIT).exists()
    assert converge(host, tmp_path, [], None)["changed"]
    assert host.ports[PORT] == {"pfc": [False] * 8, "dscp": {}}
    assert not (host.units / UNIT).exists()
    assert QosHost(host, root=str(tmp_path)).instances() == []
    assert not converge(host, tmp_path, [], None)["changed"]


def test_a_port_without_dcb_changes_nothing(tmp_path: Path) -> None:
    host = Played(tmp_path, [PORT])
    with pytest.raises(QosError, match=r"port veth0 has no DCB .*Operation not supported.*remove fabric_network_qos"):
        converge(host, tmp_path, [PORT, "veth0"], QOS)
    assert host.changes == []
    assert host.ports[PORT]["dscp"] == {}


def test_without_the_tool_and_without_the_port(tmp_path: Path) -> None:
    host = Played(tmp_path, [PORT])
    answers: dict[str, Answer] = {
        "not installed": not_installed,
        "check the port's name": failure("Cannot find device\n"),
    }
    for words, answer in answers.items():
        host.commands["dcb"] = answer
        with pytest.raises(QosError, match=words):
            converge(host, tmp_path, [PORT], QOS)


def test_what_is_not_taken_is_an_error(tmp_path: Path) -> None:
    host = Played(tmp_path, [PORT])
    host.deaf = True
    with pytest.raises(QosError, match=r"expected priority 3, after firstlight-roce-qos@\.service has set it"):
        converge(host, tmp_path, [PORT], QOS)


def test_what_can_only_be_looked_at(tmp_path: Path) -> None:
    host = Played(tmp_path, [PORT])
    assert converge(host, tmp_path, [PORT], QOS)["notes"] == []
    (tmp_path / f"sys/class/net/{PORT}/device/infiniband/rocep1s0f1").mkdir(parents=True)
    host.dcbx = '{"lld_managed":true,"ieee":true}'
    notes = "\n".join(converge(host, tmp_path, [PORT], QOS)["notes"])
    assert "may change the class again" in notes
    assert "rocep1s0f1 has no counters of ECN marks" in notes
    assert "must set 106 themselves, NCCL by NCCL_IB_TC" in notes
    host.dcbx = "{}"
    counters = tmp_path / "sys/class/infiniband/rocep1s0f1/ports/1/hw_counters"
    counters.mkdir(parents=True)
    (counters / "np_ecn_marked_roce_packets").write_text("0\n")
    place = tmp_path / "sys/kernel/config/rdma_cm/rocep1s0f1/ports/1"
    place.mkdir(parents=True)
    (place / "default_roce_tos").write_text("106\n")
    assert converge(host, tmp_path, [PORT], QOS)["notes"] == []
    switch = tmp_path / f"sys/class/net/{PORT}/ecn/roce_rp/enable"
    switch.mkdir(parents=True)
    (switch / "3").write_text("0\n")
    assert "ECN is off for priority 3" in converge(host, tmp_path, [PORT], QOS)["notes"][0]
