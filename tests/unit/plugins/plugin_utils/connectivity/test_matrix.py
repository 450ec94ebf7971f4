# SPDX-License-Identifier: Apache-2.0
"""Any single fault of a fabric of any size is one line, and the line names who is to blame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.connectivity.matrix import evaluate
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

Fabric = Any  # the model of conftest.py
Fault = Callable[[Fabric, str, int], list[str]]

MTU = 9000
PORTS = ("enp1s0f1np1", "enP2p1s0f1np1")
OTHER_CAGE = {"enp1s0f1np1": "enp1s0f0np0", "enP2p1s0f1np1": "enP2p1s0f0np0"}
MINIMUM_BANDWIDTHS = {"tcp_gbit": 50}


def verdict(fabric: Fabric) -> dict[str, Any]:
    return evaluate(fabric.hosts, fabric.parts(), MINIMUM_BANDWIDTHS)


def wrong(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for listed in result["records"].values() for one in listed if one["verdict"] != "pass"]


def own_mtu(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.ports[host][rail].mtu = 1500
    return [f"{host} has MTU 1500 on {PORTS[rail]}, 9000 is planned"]


def switch_port(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.ports[host][rail].switch_mtu = 1500
    return [f"to and from {host} on {PORTS[rail]}", "1500-byte", f"set the switch port MTU of {host} to >= 9216"]


def switch(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.switch_mtu[rail] = 1500
    return [
        f"between all hosts on {PORTS[rail]}",
        "does not pass jumbo frames",
        "9216",
        "firstlight_fabric.mtu to 1500",
    ]


def no_carrier(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.ports[host][rail].carrier = False
    return [f"{host} has no carrier on {PORTS[rail]}", "cable", OTHER_CAGE[PORTS[rail]]]


def other_cage(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.ports[host][rail].carrier = False
    fabric.ports[host][rail].other_cage = True
    return [
        f"{host} has no carrier on {PORTS[rail]}",
        f"but on {OTHER_CAGE[PORTS[rail]]}: the cable is in the other cage",
    ]


def switched_off(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.ports[host][rail].up = False
    return [f"{host} has {PORTS[rail]} switched off"]


def no_port(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.ports[host][rail].there = False
    return [f"{host} has no port {PORTS[rail]}"]


def wrong_mask(fabric: Fabric, host: str, rail: int) -> list[str]:
    port = fabric.ports[host][rail]
    port.addresses = [port.planned.replace("/24", "/30")]
    return [f"{host} has the wrong subnet mask", f"on {PORTS[rail]} instead of {port.planned}"]


def no_address(fabric: Fabric, host: str, rail: int) -> list[str]:
    port = fabric.ports[host][rail]
    port.addresses = []
    return [f"{host} has no address on {PORTS[rail]} instead of {port.planned}"]


def taken_address(fabric: Fabric, host: str, rail: int) -> list[str]:
    """The host has the address of its neighbour instead of its own."""
    other = fabric.hosts[fabric.hosts.index(host) - 1]
    port, victim = fabric.ports[host][rail], fabric.ports[other][rail]
    port.addresses = [victim.planned]
    address = victim.planned.partition("/")[0]
    return [
        f"{address} is assigned twice",
        f"{other} ({PORTS[rail]})",
        f"{host} ({PORTS[rail]}, planned {port.planned})",
    ]


def second_address(fabric: Fabric, host: str, rail: int) -> list[str]:
    """The host has the address of its neighbour beside its own."""
    other = fabric.hosts[fabric.hosts.index(host) - 1]
    fabric.ports[host][rail].addresses.append(fabric.ports[other][rail].planned)
    return ["is assigned twice", f"{other} ({PORTS[rail]})", f"{host} ({PORTS[rail]}, planned"]


def stranger(fabric: Fabric, host: str, rail: int) -> list[str]:
    address = fabric.ports[host][rail].planned.partition("/")[0]
    fabric.strangers[address] = "52:54:00:12:34:56"
    return [f"{address} is assigned twice", f"{host} ({PORTS[rail]})", "52:54:00:12:34:56"]


def other_route(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.ports[host][rail].route = "eth0"
    return [f"{host} would send to", f"by eth0 instead of {PORTS[rail]}"]


def twin_answers(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.answering[host] = {PORTS[rail]: [PORTS[1 - rail]]}
    return [f"ports of {host} answer ARP for each other's addresses", "arp_ignore"]


def isolated(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.ports[host][rail].isolated = True
    return [f"to and from {host} on {PORTS[rail]} nothing arrives", f"VLAN of {host}'s switch port"]


def absent(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.silent[host] = "Connection timed out"
    return [f"{host} did not take part (Connection timed out)"]


def slow(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.bandwidth = True
    fabric.ports[host][rail].gbit = 9.5
    return [f"every path of {host} on {PORTS[rail]} is slow", "TCP 9.5 Gb/s where 50 is the minimum"]


def slow_link(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.bandwidth = True
    fabric.ports[host][rail].gbit = 9.5
    fabric.ports[host][rail].speed_mbit = 100000
    return [f"every path of {host}", f"{PORTS[rail]} on {host} is 100000 Mb/s, the others' 200000", "switch port"]


def no_iperf3(fabric: Fabric, host: str, rail: int) -> list[str]:
    fabric.bandwidth = True
    fabric.without_iperf3.add(host)
    return [
        f"not measured, {host}: iperf3 is not installed",
        "install the package iperf3 there, or set fabric_network_bandwidth to false",
    ]


FAULTS: list[Fault] = [
    own_mtu,
    switch_port,
    switch,
    no_carrier,
    other_cage,
    switched_off,
    no_port,
    wrong_mask,
    no_address,
    taken_address,
    second_address,
    stranger,
    other_route,
    twin_answers,
    isolated,
    absent,
    slow,
    slow_link,
    no_iperf3,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@examples(25)
@given(data=st.data())
def test_any_single_fault_is_one_line_that_names_the_culprit(
    new_fabric: Fabric, fault: Fault, data: st.DataObject
) -> None:
    fabric = new_fabric(data.draw(st.integers(3, 16), "hosts"), data.draw(st.integers(1, 2), "rails"))
    fabric.bandwidth = data.draw(st.booleans(), "bandwidth")
    host = data.draw(st.sampled_from(fabric.hosts), "culprit")
    words = fault(fabric, host, data.draw(st.integers(0, fabric.rails - 1), "rail"))
    result = verdict(fabric)
    assert len(result["diagnoses"]) == 1, result["diagnoses"]
    for word in words:
        assert word in result["diagnoses"][0]
    assert not result["passed"]
    assert wrong(result)
    assert {one["remedy"] for one in wrong(result)} - {""} == {one["remedy"] for one in wrong(result)}
    assert all(one["remedy"] in result["diagnoses"][0] for one in wrong(result))


@examples(25)
@given(size=st.integers(2, 16), rails=st.integers(1, 2), bandwidth=st.booleans())
def test_a_fabric_that_is_right(new_fabric: Fabric, size: int, rails: int, bandwidth: bool) -> None:
    fabric = new_fabric(size, rails, bandwidth=bandwidth)
    result = verdict(fabric)
    assert result["passed"]
    assert result["diagnoses"] == []
    cells = [cell for line in result["lines"][1:] for cell in line.split()]
    assert cells.count("95G" if bandwidth else "ok") == size * (size - 1)


@pytest.mark.parametrize("fault", [own_mtu, switch_port, no_carrier, isolated], ids=lambda fault: fault.__name__)
@examples(25)
@given(size=st.integers(3, 16), data=st.data())
def test_a_fault_of_both_rails_of_a_host_is_one_line(
    new_fabric: Fabric, fault: Fault, size: int, data: st.DataObject
) -> None:
    fabric = new_fabric(size)
    host = data.draw(st.sampled_from(fabric.hosts))
    for rail in range(2):
        fault(fabric, host, rail)
    (line,) = verdict(fabric)["diagnoses"]
    assert f"{PORTS[0]} and {PORTS[1]}" in line
    assert host in line


@examples(25)
@given(size=st.integers(5, 16), data=st.data())
def test_two_faults_are_two_lines(new_fabric: Fabric, size: int, data: st.DataObject) -> None:
    fabric = new_fabric(size)
    one, other = data.draw(st.permutations(fabric.hosts).map(lambda names: names[:2]))
    words = [*switch_port(fabric, one, 0)[:1], *own_mtu(fabric, other, 0)]
    told = " | ".join(verdict(fabric)["diagnoses"])
    assert told.count(" | ") == 1
    assert all(word in told for word in words)


def test_two_hosts_cannot_tell_whose_switch_port_it_is(new_fabric: Fabric) -> None:
    fabric = new_fabric(2, 1)
    fabric.ports["spark1"][0].switch_mtu = 1500
    (line,) = verdict(fabric)["diagnoses"]
    assert "between spark0 and spark1 on enp1s0f1np1 at most 1500-byte packets arrive" in line
    assert "jumbo" in line
    assert ">= 9216" in line


def test_a_pair_that_is_dead_is_told_as_a_pair(new_fabric: Fabric) -> None:
    fabric = new_fabric(5, 1)
    fabric.dead_pairs.add(frozenset({"spark1", "spark3"}))
    (line,) = verdict(fabric)["diagnoses"]
    assert line.startswith("between spark1 and spark3 on enp1s0f1np1 nothing arrives")


def test_a_slow_pair_is_told_as_a_pair(new_fabric: Fabric) -> None:
    fabric = new_fabric(4, 1, bandwidth=True)
    fabric.slow_pairs[frozenset({"spark1", "spark3"})] = 12.0
    (line,) = verdict(fabric)["diagnoses"]
    assert line.startswith("between spark1 and spark3 on enp1s0f1np1 it is slow, TCP 12 Gb/s where 50 is the minimum")


def test_everything_slow_is_one_line(new_fabric: Fabric) -> None:
    fabric = new_fabric(6, bandwidth=True)
    for ports in fabric.ports.values():
        for port in ports:
            port.gbit = 20.0
    (line,) = verdict(fabric)["diagnoses"]
    assert "every path on enp1s0f1np1 and enP2p1s0f1np1 is slow" in line


def test_the_matrix_has_a_word_for_each_rail(new_fabric: Fabric) -> None:
    fabric = new_fabric(4)
    fabric.ports["spark2"][1].switch_mtu = 1500
    fabric.ports["spark3"][0].carrier = False
    assert verdict(fabric)["lines"] == [
        "from \\ to  spark0   spark1   spark2     spark3",
        "spark0     -        ok       ok/1500    dead/ok",
        "spark1     ok       -        ok/1500    dead/ok",
        "spark2     ok/1500  ok/1500  -          dead/1500",
        "spark3     dead/ok  dead/ok  dead/1500  -",
    ]


def test_a_large_matrix_numbers_its_columns(new_fabric: Fabric) -> None:
    fabric = new_fabric(16)
    fabric.silent["spark5"] = "no answer"
    lines = verdict(fabric)["lines"]
    assert lines[0].split()[:4] == ["from", "\\", "to", "0"]
    assert lines[6].split() == ["5", "spark5", *["?"] * 5, "-", *["?"] * 10]
    assert max(map(len, lines)) < 110


def test_the_matrix_of_many_racks_is_one_line(new_fabric: Fabric) -> None:
    fabric = new_fabric(24)
    assert verdict(fabric)["lines"] == ["24 hosts, 552 pairs of sender and receiver: 552 ok"]
    fabric.ports["spark7"][0].carrier = False
    result = verdict(fabric)
    assert result["lines"] == ["24 hosts, 552 pairs of sender and receiver: 506 ok, 46 dead/ok"]
    assert len(result["diagnoses"]) == 1


def test_hosts_that_were_not_asked_are_left_out(new_fabric: Fabric) -> None:
    """A run with --limit: the others were pinged, but nobody expects a word of them."""
    fabric = new_fabric(3)
    parts = {"spark1": fabric.parts()["spark1"]}
    result = evaluate(fabric.hosts, parts, MINIMUM_BANDWIDTHS)
    assert result["passed"]
    assert list(result["records"]) == ["spark1"]
    assert result["lines"][1].split() == ["spark0", "-", ".", "."]


def test_without_a_plan_the_ports_towards_the_peers_are_the_rails(new_fabric: Fabric) -> None:
    fabric = new_fabric(2)
    parts = fabric.parts()
    for part in parts.values():
        part["ports"] = []
    result = evaluate([], parts)
    assert result["passed"], result["diagnoses"]
    assert result["lines"][0].split()[-2:] == ["spark0", "spark1"]


def test_records_have_names_that_stay(new_fabric: Fabric) -> None:
    records = verdict(new_fabric(2, 1, bandwidth=True))["records"]["spark0"]
    assert [one["id"] for one in records] == [
        "fabric.port.enp1s0f1np1",
        "fabric.duplicate.enp1s0f1np1",
        "fabric.arp.enp1s0f1np1",
        "fabric.route.enp1s0f1np1.spark1",
        "fabric.ping.enp1s0f1np1.spark1",
        "fabric.tcp.enp1s0f1np1.spark1",
    ]
    assert {one["host"] for one in records} == {"spark0"}
    assert records[4]["expected"] == f"{MTU}-byte packets arrive unfragmented"


def test_what_could_not_be_read_could_not_be_checked(new_fabric: Fabric) -> None:
    fabric = new_fabric(3, 1)
    parts = fabric.parts()
    parts["spark1"]["result"]["report"].update(ports={}, problem="ip is not installed")
    result = evaluate(fabric.hosts, parts)
    (line,) = result["diagnoses"]
    assert "spark1 cannot read its ports (ip is not installed)" in line
    assert [one["id"] for one in wrong(result)] == ["fabric.port.enp1s0f1np1"]
    assert wrong(result)[0]["verdict"] == "could_not_check"


def test_a_firewall_is_told_which_ports_to_let_through(new_fabric: Fabric) -> None:
    fabric = new_fabric(2, 1, bandwidth=True)
    parts = fabric.parts()
    for problem in ("spark1 did not connect: nobody listens at 192.168.100.11:27600 (No route to host)", "Timed out"):
        parts["spark0"]["result"]["report"]["paths"][0]["tcp"] = {"gbit": None, "problem": problem}
        (line,) = evaluate(fabric.hosts, parts, MINIMUM_BANDWIDTHS)["diagnoses"]
        assert "let TCP 27600-27602 through the firewall on the fabric" in line


@pytest.mark.parametrize(
    ("ports", "known_absent", "reason"),
    [
        ([], False, "none of its rails has a port"),
        ([], True, "it did not answer before"),
        ([{"port": PORTS[0], "address": "192.168.100.11/24", "mtu": 9000}], False, "it did not answer before"),
    ],
)
def test_a_host_that_was_not_asked_says_why(
    new_fabric: Fabric, ports: list[dict[str, Any]], known_absent: bool, reason: str
) -> None:
    fabric = new_fabric(3, 1)
    skipped = {"ports": ports, "peers": [], "absent": known_absent, "result": {"skipped": True}}
    told = evaluate(fabric.hosts, {**fabric.parts(), "spark1": skipped}, MINIMUM_BANDWIDTHS)["diagnoses"]
    assert any(f"spark1 did not take part ({reason})" in line for line in told), told
