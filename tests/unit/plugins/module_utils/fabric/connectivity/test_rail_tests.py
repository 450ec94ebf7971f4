# SPDX-License-Identifier: Apache-2.0
"""Two hosts test their rail to each other on loopback addresses, with stand-ins for iperf3 and ib_write_bw on PATH."""

from __future__ import annotations

import dataclasses
import json
import random
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity import facts, rendezvous
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.bandwidth import Meter
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.pings import Pinger
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.rail_tests import RailTest, Task
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result

from tests.unit.fake_host import Call, FakeHost, not_installed

pytestmark = pytest.mark.slow  # real programs that talk to each other

ADDRESSES = {"spark0": "127.0.0.20", "spark1": "127.0.0.21"}
TOOL = """#!{python}
import socket, sys
words = sys.argv[1:]
if "--help" in words:
    print("--bind-dev")
    sys.exit(0)
port = int(words[words.index("--port") + 1])
if "--server" in words:
    listener = socket.create_server((words[words.index("--bind") + 1], port))
    listener.accept()
    sys.exit(0)
assert "--bind-dev" in words and "--json" in words
socket.create_connection((words[words.index("--client") + 1], port), 5)
print('{{"end": {{"sum_received": {{"bits_per_second": 9.4e9}}}}}}')
"""
# Serves as long as it is let, and needs neither a device nor a GID.
RDMA_TOOL = """#!{python}
import sys, time
words = sys.argv[1:]
if "--help" in words:
    sys.exit(0)
assert "--rdma_cm" in words and "-x" not in words and "--gid-index" not in words
assert words[words.index("--ib-dev") + 1] == "rocep1s0f1"
if words[-1].startswith("127."):
    print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
    print(" 65536      100              99.00              97.50             0.18")
    sys.exit(0)
time.sleep(60)
"""


class Machine(FakeHost):
    """A host with one rail that answers every ping up to its MTU; the tools are run for real."""

    def __init__(self, mtu: int = 9000) -> None:
        super().__init__({"ping": self._ping, "ip": "[]", "": lambda call: Host().run(*dataclasses.astuple(call))})
        self.mtu = mtu

    def has(self, program: str) -> bool:
        return Host().has(program)

    def _ping(self, call: Call) -> str:
        received = 2 if int(call.argv[call.argv.index("-s") + 1]) + 28 <= self.mtu else 0
        return f"2 packets transmitted, {received} received, 0% packet loss, time 1ms\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "SILENT_SECONDS", 2.0)
    monkeypatch.setattr(rendezvous, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(
        "ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.pings.time.sleep",
        lambda _: None,
    )


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("ansible_collections.firstlight.cluster.plugins.module_utils.host.SEARCH_PATH", "/nonexistent")
    return tmp_path


def install(tools: Path, name: str, text: str) -> None:
    path = tools / name
    path.write_text(text.format(python=sys.executable))
    path.chmod(0o755)


def part(
    host: str, machine: Machine, port: int, absent: Sequence[str] = (), start: float = 10.0, rdma: bool = False
) -> dict[str, Any]:
    other = next(name for name in ADDRESSES if name != host)
    peers = [{"host": other, "port": "lo", "address": ADDRESSES[other], "mtu": 9000}]
    ports = [{"port": "lo", "address": f"{ADDRESSES[host]}/8", "mtu": 9000}]
    task = Task(host, "1", list(ADDRESSES), frozenset(absent), ports, peers, True, port, start, 30, rdma)
    report = RailTest(machine, task, Pinger(machine, 2, 1, 0.0), Meter(machine, port + 1, 1, 0, 1))
    return report.run()


def both(port: int, rdma: bool = False, **machines: Machine) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    threads = [
        threading.Thread(target=lambda name=name: found.update({name: part(name, machines[name], port, rdma=rdma)}))
        for name in ADDRESSES
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


@pytest.fixture
def port() -> int:
    """One whose next one is free as well, below those that the kernel gives to connections of others."""
    for tried in random.sample(range(12000, 30000), 50):
        try:
            for address in ADDRESSES.values():
                for number in (tried, tried + 1):
                    socket.create_server((address, number)).close()
        except OSError:
            continue
        return tried
    raise AssertionError("no two free ports")


def test_both_directions_are_measured(port: int, tools: Path) -> None:
    install(tools, "iperf3", TOOL)
    found = both(port, spark0=Machine(), spark1=Machine())
    for host, other in (("spark0", "spark1"), ("spark1", "spark0")):
        (path,) = found[host]["paths"]
        assert (path["peer"], path["port"], path["ping"]["ok"]) == (other, "lo", True)
        assert path["tcp"] == {"gbit": 9.4, "problem": ""}
        assert path["rdma"] is None
        json.dumps(found[host])


@pytest.mark.parametrize(("rdma", "measured"), [(True, {97.5}), (False, {None})])
def test_rdma_is_measured_where_it_is_planned_and_both_have_a_device(
    port: int, tools: Path, monkeypatch: pytest.MonkeyPatch, rdma: bool, measured: set[float | None]
) -> None:
    install(tools, "iperf3", TOOL)
    install(tools, "ib_write_bw", RDMA_TOOL)
    ports = {"lo": {"mac": "", "addresses": [], "ethernet": False, "rdma_device": "rocep1s0f1"}}
    monkeypatch.setattr(
        "ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.rail_tests.read_ports",
        lambda _host: (ports, ""),
    )
    found = both(port, rdma, spark0=Machine(), spark1=Machine())
    assert {found[host]["paths"][0]["tcp"]["gbit"] for host in ADDRESSES} == {9.4}
    assert {(found[host]["paths"][0]["rdma"] or {}).get("gbit") for host in ADDRESSES} == measured


def test_a_tool_that_is_missing_is_said(port: int, tools: Path) -> None:
    found = both(port, spark0=Machine(), spark1=Machine())
    for host in ADDRESSES:
        (path,) = found[host]["paths"]
        assert path["tcp"] == {"gbit": None, "problem": "iperf3 is not installed, install the package iperf3"}


def test_nothing_is_measured_where_full_packets_do_not_pass(port: int, tools: Path) -> None:
    install(tools, "iperf3", TOOL)
    found = both(port, spark0=Machine(mtu=1500), spark1=Machine())
    for host in ADDRESSES:
        assert "do not pass" in found[host]["paths"][0]["tcp"]["problem"]
    assert found["spark0"]["paths"][0]["ping"]["largest"] == 1500


def test_a_partner_that_does_not_come_is_pinged_all_the_same(port: int, tools: Path) -> None:
    (path,) = part("spark0", Machine(), port, start=0.2)["paths"]
    assert path["ping"]["ok"]
    assert "spark1 did not connect: nobody listens" in path["tcp"]["problem"]


def test_nobody_waits_for_a_host_that_takes_no_part(port: int, tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wait in ("call", "await_call"):
        monkeypatch.setattr(rendezvous.Meetings, wait, lambda *_: pytest.fail("it waited"))
    found = part("spark0", Machine(), port, absent=["spark1"])
    assert found["paths"][0]["tcp"] is None


def test_ports_are_read_with_speed_and_rdma_device(tmp_path: Path) -> None:
    place = tmp_path / "sys/class/net/fab0"
    (place / "device/infiniband/mlx5_3").mkdir(parents=True)
    (place / "speed").write_text("100000\n")
    link = {"ifname": "fab0", "link_type": "ether", "address": "02:00:00:00:00:0A", "mtu": 9000, "operstate": "UP"}
    text = json.dumps([{**link, "flags": ["BROADCAST", "UP", "LOWER_UP"], "addr_info": []}])
    ports, problem = facts.read_ports(FakeHost({"ip": text}), str(tmp_path))
    assert problem == ""
    assert (ports["fab0"]["speed_mbit"], ports["fab0"]["rdma_device"]) == (100000, "mlx5_3")
    assert (ports["fab0"]["mac"], ports["fab0"]["carrier"]) == ("02:00:00:00:00:0a", True)


def test_ports_that_cannot_be_read_are_a_problem() -> None:
    assert facts.read_ports(FakeHost({"ip": not_installed})) == ({}, "ip is not installed")


def test_routes_are_asked_in_one_call() -> None:
    answers = '[{"dst":"192.168.100.11","from":"192.168.100.10","dev":"eth0","gateway":"10.0.0.1"}]\n'
    complaint = "RTNETLINK answers: Network is unreachable\nCommand failed -:2\n"
    router = FakeHost({"ip": Result((), 2, answers, complaint)})
    rails = [{"port": "fab0", "address": "192.168.100.10/24"}]
    peers = [{"host": f"spark{one}", "port": "fab0", "address": f"192.168.100.1{one}"} for one in (1, 2)]
    ways = facts.read_routes(router, rails, peers)
    assert [len((call.stdin or "").splitlines()) for call in router.calls] == [2]
    assert (ways[0]["dev"], ways[0]["gateway"], ways[0]["problem"]) == ("eth0", "10.0.0.1", "")
    assert (ways[1]["dev"], ways[1]["problem"]) == (None, "Network is unreachable")
    assert facts.read_routes(router, [], peers) == []


def test_a_port_that_is_not_there_has_no_arp() -> None:
    found = facts.claimants("no-such-port", "192.168.100.10", {}, wait=0.01)
    assert found["claimants"] == []
    assert "no ARP on no-such-port" in found["problem"]
