# SPDX-License-Identifier: Apache-2.0
"""Rails and the ports they are on: each fault ends in one line that says what to do."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.rails import find_port
from hypothesis import given
from hypothesis import strategies as st

SUBNET = "192.168.100.0/24"


def rail(**values: Any) -> dict[str, Any]:
    return {"port": None, "cage": None, "half": 0, "mtu": 9000, **values}


def said(ports: Any, **values: Any) -> str:
    problem = find_port(SUBNET, rail(**values), ports)[1]
    assert problem is not None
    return problem.sentence


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"port": "enp1s0f1np1"}, "enp1s0f1np1"),
        ({"cage": 1, "half": 0}, "enp1s0f1np1"),
        ({"cage": 1, "half": 1}, "enP2p1s0f1np1"),
        ({"half": 0}, "enp1s0f1np1"),
        ({"half": 1}, "enP2p1s0f1np1"),
    ],
)
def test_a_rail_is_found_by_name_by_cage_and_by_its_cable(sysfs: Any, values: dict[str, Any], name: str) -> None:
    assert find_port(SUBNET, rail(**values), sysfs.read(sysfs.spark())) == (name, None)


@pytest.mark.parametrize("values", [{"port": "enp1s0f1np1"}, {"cage": 1}])
def test_a_cable_in_the_other_cage(sysfs: Any, values: dict[str, Any]) -> None:
    assert said(sysfs.read(sysfs.spark([0])), **values) == (
        "rail 192.168.100.0/24 is planned on enp1s0f1np1 (cage 1), which has no carrier; enp1s0f0np0 (cage 0) has one: "
        "move the cable to the other cage, or write port: cage 0"
    )


def test_without_a_port_in_the_plan_the_cable_may_be_in_either_cage(sysfs: Any) -> None:
    assert find_port(SUBNET, rail(), sysfs.read(sysfs.spark([0])))[0] == "enp1s0f0np0"


def test_no_cable(sysfs: Any) -> None:
    ports = sysfs.read(sysfs.spark([]))
    assert said(ports, port="enp1s0f1np1") == (
        "rail 192.168.100.0/24 is planned on enp1s0f1np1 (cage 1), which has no carrier: plug its cable in and enable "
        "its port of the switch"
    )
    assert said(ports) == (
        "rail 192.168.100.0/24 has no port in the plan, and no cage has a carrier (enp1s0f0np0 (cage 0) no carrier, "
        "enP2p1s0f0np0 (cage 0) no carrier, enp1s0f1np1 (cage 1) no carrier, enP2p1s0f1np1 (cage 1) no carrier): plug "
        "the cable in and enable its port of the switch, or write port: cage 0 or port: cage 1"
    )


def test_ports_that_are_switched_off_are_to_be_switched_on(sysfs: Any) -> None:
    ports = sysfs.read(sysfs.spark([]))
    for name in ("enp1s0f1np1", "enP2p1s0f1np1"):
        ports[name]["carrier"] = None
    assert said(ports).endswith(
        "bring them up to see which has a cable (`ip link set enp1s0f1np1 up`), or write port: cage 0 or port: cage 1"
    )


def test_two_cables_and_no_port_in_the_plan(sysfs: Any) -> None:
    words = said(sysfs.read(sysfs.spark([0, 1])))
    assert "more than one cage has a carrier" in words
    assert words.endswith("write port: cage 0 or port: cage 1")


def test_a_port_that_the_host_does_not_have(sysfs: Any) -> None:
    words = said(sysfs.read(sysfs.spark()), port="enp9s0")
    assert words.startswith(
        "rail 192.168.100.0/24 is planned on enp9s0, which the host does not have; it has enP2p1s0f0np0"
    )
    assert "wlP9s9 down, so its carrier is unknown" in words
    assert words.endswith("correct enp9s0 in firstlight_fabric.rails, or fit the network card it belongs to")


def test_a_port_that_is_down_does_not_know_its_carrier(sysfs: Any) -> None:
    nics = [dataclasses.replace(nic, carrier=None, speed=None) for nic in sysfs.spark()]
    ports = sysfs.read(nics)
    assert find_port(SUBNET, rail(cage=1), ports) == ("enp1s0f1np1", None)
    assert "no cage has a carrier" in said(ports)


def test_one_half_without_a_carrier(sysfs: Any) -> None:
    nics = [dataclasses.replace(nic, carrier="0") if nic.name == "enp1s0f1np1" else nic for nic in sysfs.spark()]
    assert "enP2p1s0f1np1, the other half of the cage, has one: bring enp1s0f1np1 up" in said(sysfs.read(nics), cage=1)


def test_one_half_that_is_missing(sysfs: Any) -> None:
    ports = sysfs.read([nic for nic in sysfs.spark() if nic.name != "enP2p1s0f1np1"])
    assert "half 1 of cage 1, but the host shows only enp1s0f1np1" in said(ports, cage=1, half=1)
    assert "half 1 of cage 1" in said(ports, half=1)


@pytest.mark.parametrize("values", [{"cage": 1}, {}])
def test_a_machine_without_cages(sysfs: Any, values: dict[str, Any]) -> None:
    words = said(sysfs.read(sysfs.hgx()), **values)
    assert words.endswith("name the port of every rail in firstlight_fabric.rails")
    assert "enp24s0np0 carrier" in words
    assert find_port(SUBNET, rail(port="enp24s0np0"), sysfs.read(sysfs.hgx())) == ("enp24s0np0", None)


def test_a_rail_on_infiniband(sysfs: Any) -> None:
    ports = sysfs.read(sysfs.hgx("InfiniBand"))
    words = said(ports, port="ibp24s0")
    assert "with an MTU of 9000, and ibp24s0 is InfiniBand, where IP allows at most 4092" in words
    assert words.endswith("or remove the rail: RDMA over InfiniBand needs none")
    assert find_port(SUBNET, rail(port="ibp24s0", mtu=4092), ports) == ("ibp24s0", None)
    bare = sysfs.read(sysfs.hgx("InfiniBand", netdevs=False))
    assert "which the host does not have" in said(bare, port="mlx5_0")


def test_a_rail_on_a_member_of_a_bond(sysfs: Any) -> None:
    ports = sysfs.read(sysfs.hgx())
    ports["enp41s0f0np0"]["master"] = "bond0"
    ports["bond0"] = {**ports["eno1"], "port": "bond0"}
    assert "is a member of bond0: write port: bond0" in said(ports, port="enp41s0f0np0")
    assert find_port(SUBNET, rail(port="bond0"), ports) == ("bond0", None)


def test_virtual_ports_have_the_places_that_their_profile_gives_them(sysfs: Any) -> None:
    """A port without a PCI function is diagnosed as well, by the hardware's profile."""
    nics = [dataclasses.replace(nic, pci=None, rdma=None) for nic in sysfs.spark([0])[:4]]
    named = {nic.name: {"cage": int(nic.name[-1]), "half": int("P2" in nic.name)} for nic in nics}
    ports = sysfs.read(nics, named=named)
    assert "enp1s0f0np0 (cage 0) has one: move the cable" in said(ports, port="enp1s0f1np1")
    assert find_port(SUBNET, rail(half=1), ports) == ("enP2p1s0f0np0", None)


CARRIERS = st.lists(st.sampled_from(["0", "1", None]), min_size=4, max_size=4)
PLACES = st.one_of(
    st.fixed_dictionaries({"port": st.sampled_from(["enp1s0f1np1", "enP2p1s0f0np0", "enP7s7", "gone"])}),
    st.fixed_dictionaries({"cage": st.integers(0, 2), "half": st.integers(0, 1)}),
    st.fixed_dictionaries({"half": st.integers(0, 1)}),
)


@given(carriers=CARRIERS, places=st.lists(PLACES, min_size=1, max_size=3))
def test_a_rail_has_a_port_or_one_line_why_not(sysfs: Any, carriers: list[Any], places: list[dict[str, Any]]) -> None:
    whole = {"cage": None, "half": None, "twin": None, "link_layer": "Ethernet", "master": None, "rdma_device": None}
    ports: dict[str, Any] = {"enP7s7": {**whole, "port": "enP7s7", "carrier": True}}
    for nic, carrier in zip(sysfs.spark()[:4], carriers, strict=True):
        place = {"cage": int(nic.name[-1]), "half": int("P2" in nic.name)}
        ports[nic.name] = {**whole, **place, "port": nic.name, "carrier": {"1": True, "0": False, None: None}[carrier]}
    rails = {f"10.0.{number}.0/24": rail(**place) for number, place in enumerate(places)}
    for subnet, place in rails.items():
        name, problem = find_port(subnet, place, ports)
        if problem is None:
            assert name is not None
            assert ports[name]["carrier"] is not False
        else:
            assert subnet in problem.sentence
            assert "\n" not in problem.sentence
