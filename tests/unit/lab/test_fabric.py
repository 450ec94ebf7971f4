# SPDX-License-Identifier: Apache-2.0
"""The fabric's switch: what it is told, what it keeps, and what it does to its links."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from firstlight_lab import cluster
from firstlight_lab.cache import Cache
from firstlight_lab.cluster import Lab
from firstlight_lab.fabric import change_fabric
from firstlight_lab.images import equipment
from firstlight_lab.shell import LabError
from firstlight_lab.spec import SPARK_PORTS

CAGE_0, CAGE_1 = SPARK_PORTS[:2], SPARK_PORTS[2:]


class Switch:
    """The switch's program, with the commands that it runs written down."""

    def __init__(self, directory: Path) -> None:
        self.module = ModuleType("switch")
        exec(compile(equipment("switch.py"), "switch.py", "exec"), self.module.__dict__)
        self.module.__dict__["STATE"] = directory / "fabric.json"
        self.module.__dict__["subprocess"] = self
        self.commands: list[str] = []
        self.state = self.module.initial_state({"spark0": SPARK_PORTS, "spark1": SPARK_PORTS}, 9000, 1)

    def run(self, argv: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(" ".join(argv))
        return subprocess.CompletedProcess(argv, 0, "", "")

    def change(self, *nodes: str, ports: tuple[str, ...] = (), **settings: Any) -> None:
        self.state = self.module.changed_state(self.state, {"nodes": nodes, "ports": ports, **settings})

    def carriers(self, node: str) -> list[str]:
        return [port for port in SPARK_PORTS if self.module.has_carrier(self.state[node], port)]


@pytest.fixture
def switch(tmp_path: Path) -> Switch:
    return Switch(tmp_path)


def test_one_cage_is_cabled(switch: Switch) -> None:
    assert switch.carriers("spark0") == list(CAGE_1)


def test_a_cable_moves_into_the_other_cage_of_one_node(switch: Switch) -> None:
    switch.change("spark1", cage=0)
    assert switch.module.linked(switch.state) == {"spark0": list(CAGE_1), "spark1": list(CAGE_0)}


def test_a_port_that_is_switched_on_again_needs_its_cable_all_the_same(switch: Switch) -> None:
    switch.change(down=True)
    assert switch.carriers("spark0") == []
    switch.change(down=False)
    assert switch.carriers("spark0") == list(CAGE_1)


def test_a_change_is_for_the_port_that_was_named(switch: Switch) -> None:
    switch.change("spark0", ports=(CAGE_1[0],), mtu=1500, rate="200mbit")
    changed = {
        (node, port)
        for node, entry in switch.state.items()
        for port, settings in entry["ports"].items()
        if settings != {"mtu": 9000, "down": False, "rate": None}
    }
    assert changed == {("spark0", CAGE_1[0])}


def test_a_node_that_comes_back_is_plugged_in_as_it_was(switch: Switch) -> None:
    switch.change("spark1", ports=(CAGE_1[1],), mtu=1500, rate="50mbit")
    assert switch.module.plug(switch.state, "spark1", 4711)
    made = [
        f"ip link add n1p{number} type veth peer name {port} address {switch.module.mac('spark1', port)} "
        "mtu 1500 netns 4711"
        for number, port in enumerate(SPARK_PORTS)
    ]
    assert [command for command in switch.commands if command.startswith("ip link add")] == made
    assert "ip link set n1p3 mtu 1500" in switch.commands
    assert "tc qdisc add dev n1p3 root tbf rate 50mbit burst 256kb latency 50ms" in switch.commands
    ends = [command.split()[3:] for command in switch.commands if command.endswith((" up", " down"))]
    assert ends == [["n1p0", "down"], ["n1p1", "down"], ["n1p2", "up"], ["n1p3", "up"]]


def test_every_port_has_an_address_of_its_own(switch: Switch) -> None:
    addresses = {switch.module.mac(node, port) for node in ("spark0", "spark1") for port in SPARK_PORTS}
    assert len(addresses) == 8
    assert all(re.fullmatch("02(:[0-9a-f]{2}){5}", address) for address in addresses)


def test_a_change_is_kept_and_reaches_the_links_that_are_there(
    switch: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fabric.json").write_text(json.dumps(switch.state))
    monkeypatch.setattr("os.listdir", lambda _: ["lo", "fabric", "n1p2"])
    assert switch.module.change_links({"nodes": [], "ports": [], "mtu": 1500})
    assert {command.split()[3] for command in switch.commands if command.startswith("ip link")} == {"n1p2"}
    kept = json.loads((tmp_path / "fabric.json").read_text())
    assert {settings["mtu"] for node in kept.values() for settings in node["ports"].values()} == {1500}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab of one Spark, as its record tells."""
    made = Lab(Cache(tmp_path), "net", lambda _: None)
    made.directory.mkdir(parents=True)
    (made.directory / "lab.json").write_text(
        json.dumps({"nodes": [{"name": "spark0", "address": "172.29.0.10", "ports": SPARK_PORTS}]})
    )
    return made


def test_the_status_names_the_ports_that_are_there_and_have_a_cable(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    class Engine:
        def docker(self, *argv: str, **_: Any) -> str:
            if argv[-1] == "links":
                return json.dumps({"firstlight-net-spark0": CAGE_1})
            return f"lo\n{CAGE_0[0]}\n{CAGE_1[0]}\n" if argv[-1] == "/sys/class/net" else "running\n"

    monkeypatch.setattr(cluster, "find_engine", lambda _: Engine())
    (row,) = lab.status()
    assert (row["state"], row["ports"]) == ("running", [CAGE_1[0]])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"mtu": 1500}, {"nodes": [], "ports": [], "mtu": 1500}),
        ({"node": "spark0", "cage": 0}, {"nodes": ["firstlight-net-spark0"], "ports": [], "cage": 0}),
        ({"port": "enp1s0f1np1", "down": True}, {"nodes": [], "ports": ["enp1s0f1np1"], "down": True}),
        ({"rate": "none", "down": False}, {"nodes": [], "ports": [], "rate": None, "down": False}),
        ({"rate": "200mbit"}, {"nodes": [], "ports": [], "rate": "200mbit"}),
    ],
)
def test_the_switch_is_told_what_was_asked(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], told: dict[str, Any]
) -> None:
    calls: list[tuple[str, ...]] = []

    class Engine:
        def docker(self, *argv: str) -> None:
            calls.append(argv)

    monkeypatch.setattr(cluster, "find_engine", lambda _: Engine())
    change_fabric(lab, **asked)
    ((*_, what),) = calls
    assert calls[0][:2] == ("exec", "firstlight-net-switch")
    assert json.loads(what) == told


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "at least one of --mtu, --down, --up, --rate and --cage"),
        ({"node": "spark9", "down": True}, "no node 'spark9' in the lab net; its nodes are spark0"),
        ({"port": "eth0", "down": True}, "no port 'eth0' in the lab net; its ports are enp1s0f0np0"),
        ({"mtu": 70000}, "expected 1280 to 9216"),
        ({"rate": "fast"}, "expected a number with kbit, mbit or gbit"),
        ({"cage": 0, "port": "enp1s0f1np1"}, "omit --port"),
    ],
)
def test_what_the_switch_cannot_do_is_refused(lab: Lab, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(LabError, match=words):
        change_fabric(lab, **asked)
