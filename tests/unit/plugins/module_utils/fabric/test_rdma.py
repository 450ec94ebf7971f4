# SPDX-License-Identifier: Apache-2.0
"""RDMA devices that are not as they should be, in words, in records, and in the environment of the ranks."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.qos import nccl_traffic_class
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.rdma import roce_mtu
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import subjects
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences, explain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import records
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.fabric_environment import (
    device_words,
    fabric_environment,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ideal import ideal

DEVINFO = "hca_id:\trocep1s0f1\n\t\tport:\t1\n\t\t\tstate:\tPORT_ACTIVE (4)\n\t\t\tactive_mtu:\t{} (5)\n"
WANT = {"speed_mbit": 200000, "active_mtu": 4096, "address": "192.168.100.10", "link_layer": "Ethernet"}
STATE = {"rdma": {"enp1s0f1np1": WANT}}


def port(sysfs: Any, mtu: int = 4096, **changes: Any) -> dict[str, Any]:
    """What a Spark's first rail shows, with these changes."""
    nics = [
        dataclasses.replace(nic, **changes) if nic.name == "enp1s0f1np1" else nic
        for nic in sysfs.spark(addresses=["192.168.100.10", "192.168.101.10"])
    ]
    return {"fabric": sysfs.read(nics, devinfo=DEVINFO.format(mtu))}


@pytest.mark.parametrize(
    ("mtu", "expected"),
    [(1280, 1024), (1500, 1024), (2144, 2048), (4191, 2048), (4192, 4096), (4200, 4096), (9000, 4096), (9216, 4096)],
)
def test_the_mtu_of_rdma_follows_the_ports(mtu: int, expected: int) -> None:
    assert roce_mtu(mtu) == expected


@given(st.integers(1280, 9216))
def test_the_mtu_of_rdma_always_fits(mtu: int) -> None:
    assert roce_mtu(mtu) < mtu
    assert roce_mtu(mtu) in (1024, 2048, 4096)


def test_a_port_that_is_right(sysfs: Any) -> None:
    assert differences(STATE, port(sysfs)) == []
    assert differences({"rdma": {"enp1s0f1np1": {}}}, port(sysfs)) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"speed": "100000"},
            (
                "RDMA of port enp1s0f1np1 (rocep1s0f1) has speed (Mb/s) 100000, expected speed (Mb/s) 200000: the "
                "switch port negotiated 100G: set it to 200G (200G-baseCR4), autonegotiation and FEC on the switch, or "
                "write speed_gbit: 100 in firstlight_fabric where the switch supports no more"
            ),
        ),
        (
            {"speed": None, "rate": "100 Gb/sec (4X EDR)"},
            "has speed (Mb/s) 100000, expected speed (Mb/s) 200000: the switch port negotiated 100G",
        ),
        (
            {"speed": None, "rate": ""},
            "has speed (Mb/s) unknown, expected speed (Mb/s) 200000: look at `ethtool enp1s0f1np1`",
        ),
        (
            {"mtu": 1024},
            "has active MTU 1024, expected active MTU 4096: it follows the MTU of enp1s0f1np1: run site.yml",
        ),
        ({"gids": {}}, "has GID none, expected GID RoCE v2 of 192.168.100.10: it follows the address of enp1s0f1np1"),
        ({"carrier": "0"}, "has state DOWN, expected state ACTIVE: look at the cable"),
        (
            {"rdma": None},
            "RDMA of port enp1s0f1np1 has device none, expected device an RDMA device: look at `ls /sys/class",
        ),
        ({"link_layer": "InfiniBand"}, "has link layer InfiniBand, expected link layer Ethernet: set the card's port"),
        ({"name": "other"}, "has device none, the port is missing, expected device an RDMA device"),
    ],
)
def test_each_fault_is_one_line(sysfs: Any, changes: dict[str, Any], sentence: str) -> None:
    mtu = changes.pop("mtu", 4096) if "mtu" in changes else 4096
    found = differences(STATE, port(sysfs, mtu, **changes))
    assert len(found) == 1
    assert sentence in explain(found)[0]


def test_infiniband_is_no_fault_where_nobody_asks_for_ethernet(sysfs: Any) -> None:
    ports = {"fabric": sysfs.read(sysfs.hgx("InfiniBand"))}
    assert differences({"rdma": {"ibp24s0": {"speed_mbit": 400000}}}, ports) == []


def test_what_could_not_be_read_is_unknown_and_never_right(sysfs: Any) -> None:
    seen = port(sysfs)
    seen["fabric"]["enp1s0f1np1"]["active_mtu"] = None
    (record,) = records("spark0", {"fabric_network": STATE}, seen)
    assert (record["id"], record["verdict"]) == ("rdma.enp1s0f1np1", "could_not_check")
    assert "does not report active_mtu" in record["observed"]
    (record,) = records("spark0", {"fabric_network": STATE}, {"errors": {"fabric": "no answer within 30 s"}})
    assert (record["verdict"], record["observed"]) == ("could_not_check", "could not be checked: no answer within 30 s")


def test_a_fault_is_a_record_with_its_remedy(sysfs: Any) -> None:
    (record,) = records("spark0", {"fabric_network": STATE}, port(sysfs, speed="100000"))
    assert record["verdict"] == "fail"
    assert record["observed"] == {"device": "rocep1s0f1", "speed_mbit": 100000}
    assert record["remedy"].startswith("the switch port negotiated 100G: set it to 200G (200G-baseCR4)")
    (right,) = records("spark0", {"fabric_network": STATE}, port(sysfs))
    assert right["verdict"] == "pass"


def test_a_rail_is_a_record_too(sysfs: Any) -> None:
    state = {"rails": {"192.168.100.0/24": {"port": "enp1s0f1np1", "cage": 1, "half": 0, "mtu": 9000}}}
    (record,) = records("spark0", {"preflight": state}, {"fabric": sysfs.read(sysfs.spark([0]))})
    assert (record["id"], record["verdict"]) == ("rail.192.168.100.0/24", "fail")
    assert record["observed"].endswith("has no carrier; enp1s0f0np0 (cage 0) has one")
    assert record["remedy"] == "move the cable to the other cage, or write port: cage 0"
    (record,) = records("spark0", {"preflight": state}, {"fabric": sysfs.read(sysfs.spark())})
    assert (record["verdict"], record["expected"]) == ("pass", "enp1s0f1np1 with a carrier")
    (record,) = records("spark0", {"preflight": state}, {"errors": {}})
    assert record["verdict"] == "could_not_check"


RAILS = st.one_of(
    st.dictionaries(st.text(min_size=1), st.fixed_dictionaries({"port": st.text("abc", min_size=1)}), max_size=3),
    st.dictionaries(st.text(min_size=1), st.fixed_dictionaries({"cage": st.integers(0, 1), "half": st.integers(0, 1)})),
    st.dictionaries(st.text(min_size=1), st.fixed_dictionaries({"half": st.integers(0, 1)}), max_size=2),
)
DEVICES = st.dictionaries(
    st.text("abc", min_size=1),
    st.fixed_dictionaries(
        {}, optional={"speed_mbit": st.integers(1, 10**6), "active_mtu": st.just(4096), "address": st.just("10.0.0.1")}
    ),
    max_size=3,
)


@given(RAILS, DEVICES)
def test_the_ideal_host_has_no_differences(rails: dict[str, Any], rdma: dict[str, Any]) -> None:
    state = {"rails": rails, "rdma": rdma, "fabric": {"ports": {}}}
    assert differences(state, ideal(state)) == []
    assert len(differences(state, {})) == len(rails) + len(rdma)
    assert set(subjects({"role": state})) == set(state)


class TestEnvironment:
    def test_sockets_are_on_the_first_rail_and_both_devices_are_named(self) -> None:
        assert fabric_environment(["enp1", "enP2"], True, ["mlx5_0:1", "mlx5_2:1"], {"priority": 3, "dscp": 26}) == {
            "NCCL_SOCKET_IFNAME": "=enp1",
            "GLOO_SOCKET_IFNAME": "enp1",
            "TP_SOCKET_IFNAME": "enp1",
            "UCX_NET_DEVICES": "enp1",
            "OMPI_MCA_btl_tcp_if_include": "enp1",
            "MN_IF_NAME": "enp1",
            "NCCL_IB_HCA": "=mlx5_0:1,mlx5_2:1",
            "NCCL_IB_TC": "106",
            "NCCL_NET": "IB",
        }

    def test_without_rdma_or_a_fabric(self) -> None:
        assert not any(name.startswith("NCCL_IB") for name in fabric_environment(["enp1"], False, ["mlx5_0:1"]))
        assert fabric_environment([], True, ["mlx5_0:1"]) == {}

    def test_half_a_list_of_devices_would_hide_a_fault(self) -> None:
        whole = [{"rdma_device": "mlx5_0", "rdma_port": 1}, {"rdma_device": "mlx5_2", "rdma_port": 2}]
        assert device_words(whole) == ["mlx5_0:1", "mlx5_2:2"]
        assert device_words([*whole, {"rdma_device": None}]) == []
        assert fabric_environment(["enp1"], True)["NCCL_NET"] == "IB"

    @given(st.integers(0, 63))
    def test_a_traffic_class_is_a_byte_that_allows_marks(self, dscp: int) -> None:
        assert nccl_traffic_class(dscp) >> 2 == dscp
        assert nccl_traffic_class(dscp) & 3 == 2

    @given(st.lists(st.text("abc", min_size=1), max_size=3), st.booleans(), st.lists(st.just("m:1")))
    def test_nothing_is_pinned_that_moves(self, ports: list[str], rdma: bool, devices: list[str]) -> None:
        told = fabric_environment(ports, rdma, devices, {"priority": 3, "dscp": 26})
        assert not {"NCCL_IB_GID_INDEX", "NCCL_IB_DISABLE"} & told.keys()
