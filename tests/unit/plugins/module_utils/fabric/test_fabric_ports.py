# SPDX-License-Identifier: Apache-2.0
"""Ports out of sysfs: machines of several kinds, and files that say nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.fabric_ports import rdma_ports, read_ports
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.ports import cages
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

DEVINFO = """\
hca_id:	rocep1s0f1
	transport:			InfiniBand (0)
	fw_ver:				28.45.4028
	phys_port_cnt:			1
		port:	1
			state:			PORT_ACTIVE (4)
			max_mtu:		4096 (5)
			active_mtu:		1024 (3)
			sm_lid:			0
			link_layer:		Ethernet
"""
CAGES = {0: {0: "enp1s0f0np0", 1: "enP2p1s0f0np0"}, 1: {0: "enp1s0f1np1", 1: "enP2p1s0f1np1"}}


def test_the_ports_of_rdma_devices_are_known_without_a_plan(tmp_path: Path) -> None:
    assert rdma_ports(str(tmp_path)) == []
    for device, port in (("mlx5_1", "ibp12s0"), ("mlx5_0", "enp1s0f0np0"), ("mlx5_2", "enp1s0f0np0")):
        (tmp_path / "sys/class/infiniband" / device / "device/net" / port).mkdir(parents=True)
    (tmp_path / "sys/class/infiniband/rxe0").mkdir()
    assert rdma_ports(str(tmp_path)) == ["enp1s0f0np0", "ibp12s0"]


def test_a_spark_with_one_cable(sysfs: Any) -> None:
    ports = sysfs.read(sysfs.spark(addresses=["192.168.100.10", "192.168.101.10"]), devinfo=DEVINFO)
    assert ports["enp1s0f1np1"] == {
        "port": "enp1s0f1np1",
        "driver": "mlx5_core",
        "pci": "0000:01:00.1",
        "vendor": "0x15b3",
        "device": "0x1021",
        "mac": "4c:bb:47:2f:91:11",
        "mtu": 1500,
        "carrier": True,
        "speed_mbit": 200000,
        "virtual_function": False,
        "master": None,
        "members": [],
        "rdma_device": "rocep1s0f1",
        "rdma_port": 1,
        "rdma_state": "ACTIVE",
        "rdma_phys_state": "LINK_UP",
        "link_layer": "Ethernet",
        "rate_gbit": 200,
        "active_mtu": 1024,
        "firmware": "28.45.4028",
        "gids": [{"index": 3, "address": "192.168.100.10", "type": "RoCE v2"}],
        "cage": 1,
        "half": 0,
        "twin": "enP2p1s0f1np1",
    }
    other = ports["enP2p1s0f0np0"]
    assert (other["carrier"], other["speed_mbit"], other["rdma_state"], other["cage"]) == (False, None, "DOWN", 0)
    assert (other["twin"], other["half"], other["active_mtu"]) == ("enp1s0f0np0", 1, None)
    assert cages(ports) == CAGES
    assert ports["enP7s7"]["rdma_device"] is None
    assert (ports["wlP9s9"]["carrier"], ports["wlP9s9"]["cage"]) == (None, None)


def test_devices_by_other_names_are_found(sysfs: Any) -> None:
    ports = sysfs.read(sysfs.spark(mlx5=True))
    assert [ports[name]["rdma_device"] for name in ("enp1s0f1np1", "enP2p1s0f1np1")] == ["mlx5_1", "mlx5_3"]
    assert cages(ports) == CAGES


def test_a_device_is_found_by_its_function_where_the_kernel_names_no_port(sysfs: Any) -> None:
    nics = [dataclasses.replace(nic, netdev=False) for nic in sysfs.spark()]
    assert sysfs.read(nics)["enP2p1s0f1np1"]["rdma_device"] == "roceP2p1s0f1"


@pytest.mark.parametrize("told", ["guid", "switch", "mac"])
def test_the_chip_is_known_by_what_it_tells(sysfs: Any, told: str) -> None:
    nics = sysfs.spark()
    if told != "guid":
        nics = [dataclasses.replace(nic, rdma=None) for nic in nics]
    if told == "switch":
        nics = [dataclasses.replace(nic, phys_switch_id="aa", mac=f"00:00:00:0{i}:00:00") for i, nic in enumerate(nics)]
    assert cages(sysfs.read(nics)) == CAGES


@pytest.mark.parametrize("told", ["guid", "switch", "mac", "nothing"])
def test_two_cards_at_the_same_place_of_two_domains_are_no_cage(sysfs: Any, told: str) -> None:
    """As a server with one PCI domain a slot has them."""
    nics = sysfs.spark()[:4]
    described: dict[str, dict[str, Any]] = {
        "guid": {"guid": "ffff:ffff:ffff:0000"},
        "switch": {"rdma": None, "phys_switch_id": "bb"},
        "mac": {"rdma": None, "mac": "a0:88:c2:00:00:00"},
        "nothing": {"rdma": None, "mac": ""},
    }
    other = described[told]
    first = {key: "aa" if key == "phys_switch_id" else None for key in other if key in ("rdma", "phys_switch_id")}
    nics = [dataclasses.replace(nic, **(first if nic.pci.startswith("0000") else other)) for nic in nics]
    ports = sysfs.read(nics)
    assert cages(ports) == {}
    assert {port["twin"] for port in ports.values()} == {None}


def test_a_chip_that_looks_like_two_cards_has_its_places_by_the_profile(sysfs: Any) -> None:
    nics = [
        dataclasses.replace(nic, guid="ffff:ffff:ffff:0000") if nic.pci.startswith("0002") else nic
        for nic in sysfs.spark()[:4]
    ]
    known = {name: {"cage": cage, "half": half} for cage, names in CAGES.items() for half, name in names.items()}
    ports = sysfs.read(nics, named=known)
    assert cages(ports) == CAGES
    assert ports["enp1s0f1np1"]["twin"] == "enP2p1s0f1np1"


def test_two_such_chips_have_no_numbers_that_anybody_could_know(sysfs: Any) -> None:
    more = [
        dataclasses.replace(
            nic, name=f"x{nic.name}"[:15], pci=nic.pci.replace(":01:", ":03:"), rdma=f"x{nic.rdma}", guid="1:2:3:4"
        )
        for nic in sysfs.spark()[:4]
    ]
    assert cages(sysfs.read([*sysfs.spark(), *more])) == {}


def test_a_half_that_is_missing_leaves_the_other_its_cage(sysfs: Any) -> None:
    nics = [nic for nic in sysfs.spark() if nic.name != "enP2p1s0f1np1"]
    ports = sysfs.read(nics)
    assert cages(ports) == {0: CAGES[0], 1: {0: "enp1s0f1np1"}}
    assert (ports["enp1s0f1np1"]["cage"], ports["enp1s0f1np1"]["twin"]) == (1, None)


def test_an_hgx_with_roce_has_no_cages(sysfs: Any) -> None:
    ports = sysfs.read(sysfs.hgx())
    assert cages(ports) == {}
    assert ports["enp24s0np0"]["rdma_device"] == "mlx5_0"
    assert (ports["enp220s0np0"]["speed_mbit"], ports["enp220s0np0"]["rate_gbit"]) == (400000, 400)
    assert (ports["enp41s0f1np1"]["rdma_device"], ports["enp41s0f1np1"]["carrier"]) == ("mlx5_9", False)
    assert ports["eno1"]["rdma_device"] is None


def test_an_hgx_with_infiniband(sysfs: Any) -> None:
    ports = sysfs.read(sysfs.hgx("InfiniBand"))
    assert ports["ibp24s0"]["link_layer"] == "InfiniBand"
    assert (ports["ibp24s0"]["rdma_device"], ports["ibp24s0"]["speed_mbit"]) == ("mlx5_0", None)
    assert sum(port["link_layer"] == "InfiniBand" for port in ports.values()) == 8


def test_a_device_without_a_network_port_stands_for_itself(sysfs: Any) -> None:
    ports = sysfs.read(sysfs.hgx("InfiniBand", netdevs=False))
    assert (ports["mlx5_0"]["port"], ports["mlx5_0"]["rdma_device"]) == (None, "mlx5_0")
    assert (ports["mlx5_0"]["rdma_state"], ports["mlx5_0"]["pci"]) == ("ACTIVE", "0000:18:00.0")


def test_a_machine_without_rdma(sysfs: Any) -> None:
    ports = sysfs.read([sysfs.Nic("eno1", "0000:01:00.0", "i40e", speed="1000")])
    assert {name: port["rdma_device"] for name, port in ports.items()} == {"eno1": None}
    assert read_ports(Host(), "/nonexistent") == {}


def test_usb_and_virtual_ports_are_read_only_by_name(sysfs: Any) -> None:
    nics = [
        sysfs.Nic("enx001122334455", "0000:00:14.0", "cdc_ncm", bus="usb"),
        sysfs.Nic("enp1s0f1np1", None, speed="10000"),
        sysfs.Nic("ens5", "0000:00:05.0", "virtio_net", bus="virtio", speed="-1"),
    ]
    assert list(sysfs.read(nics)) == ["ens5"]
    ports = sysfs.read(nics, named={"enx001122334455": {}, "enp1s0f1np1": {"cage": 1, "half": 0}, "none": {}})
    assert sorted(ports) == ["enp1s0f1np1", "ens5", "enx001122334455"]
    assert (ports["ens5"]["pci"], ports["ens5"]["driver"]) == ("0000:00:05.0", "virtio_net")
    assert ports["enx001122334455"]["pci"] is None
    # The profile knows its place, and the port cannot tell another.
    assert (ports["enp1s0f1np1"]["cage"], ports["enp1s0f1np1"]["speed_mbit"]) == (1, 10000)


def test_a_port_with_a_function_is_believed_more_than_its_profile(sysfs: Any) -> None:
    ports = sysfs.read(sysfs.spark(), named={"enp1s0f1np1": {"cage": 7, "half": 0}, "enP7s7": {"cage": 1, "half": 0}})
    assert (ports["enp1s0f1np1"]["cage"], ports["enP7s7"]["cage"]) == (1, None)


def test_bonds_and_virtual_functions(sysfs: Any) -> None:
    nics = sysfs.hgx()
    member = "sys/devices/pci0000:00/0000:00:00.0/0000:29:00.0/net/enp41s0f0np0"
    vf = sysfs.Nic("enp1s0f1v0", "0000:01:00.2", rdma="rocep1s0f1v0", physfn="0000:01:00.1")
    ports = sysfs.read(
        [*nics, sysfs.Nic("bond0", None)],
        {
            f"{member}/master": sysfs.Link("../../../../../virtual/11/net/bond0"),
            "sys/devices/virtual/11/net/bond0/bonding/slaves": "enp41s0f0np0 enp41s0f1np1",
        },
    )
    # Nobody named the bond: it is read because a port that could be a rail's is a member of it.
    assert ports["enp41s0f0np0"]["master"] == "bond0"
    assert (ports["bond0"]["driver"], ports["bond0"]["members"]) == ("bonding", ["enp41s0f0np0", "enp41s0f1np1"])
    spark = sysfs.read([*sysfs.spark(), vf])
    assert (spark["enp1s0f1v0"]["virtual_function"], spark["enp1s0f1v0"]["cage"]) == (True, None)
    assert cages(spark) == CAGES


@pytest.mark.parametrize(("speed", "expected"), [("-1", None), ("4294967295", None), ("65535", None), ("", None)])
def test_what_is_no_speed_is_not_known(sysfs: Any, speed: str, expected: int | None) -> None:
    assert sysfs.read([sysfs.Nic("eth0", "0000:01:00.0", speed=speed)])["eth0"]["speed_mbit"] is expected


def test_files_that_say_nothing_are_not_known(sysfs: Any) -> None:
    nic = sysfs.Nic("eth0", "0000:01:00.0", rdma="mlx5_0", mac="", carrier="", speed=None, rate="", link_layer="")
    port = sysfs.read([nic])["eth0"]
    assert {port[field] for field in ("mac", "carrier", "speed_mbit", "rate_gbit", "link_layer", "cage")} == {None}
    assert port["rdma_device"] == "mlx5_0"


NAMES = st.text(alphabet="abcdefnpsP0123456789_", min_size=1, max_size=15)


@examples(25)
@given(names=st.lists(NAMES, min_size=8, max_size=8, unique=True), cabled=st.sets(st.sampled_from([0, 1])))
def test_names_do_not_decide_anything(sysfs: Any, names: list[str], cabled: set[int]) -> None:
    """Whatever ports and devices are called, a Spark's cages and the devices behind its ports are the same."""
    plain = sysfs.read(sysfs.spark(sorted(cabled)))
    renamed = [
        dataclasses.replace(nic, name=names[at], rdma=names[at + 4] if nic.rdma else None)
        for at, nic in enumerate(sysfs.spark(sorted(cabled))[:4])
    ]
    ports = sysfs.read(renamed)
    new = {nic.name: names[at] for at, nic in enumerate(sysfs.spark()[:4])}
    assert cages(ports) == {
        cage: {half: new[name] for half, name in halves.items()} for cage, halves in cages(plain).items()
    }
    for at, nic in enumerate(sysfs.spark()[:4]):
        port, was = ports[names[at]], plain[nic.name]
        assert port["rdma_device"] == names[at + 4]
        assert port["twin"] == new[was["twin"]]
        same = {key for key in was if key not in ("port", "rdma_device", "twin")}
        assert {key: port[key] for key in same} == {key: was[key] for key in same}
