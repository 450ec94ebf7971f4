# SPDX-License-Identifier: Apache-2.0
"""What an operator may write of the fabric, and what is refused on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanError, PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.intent import Fabric, read_fabric
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.variables import check_pins
from hypothesis import given
from hypothesis import strategies as st

HARDWARE = load_catalog([Path(__file__).parents[6] / "catalog"])["hardware"]
HOSTS = [HostIntent(f"spark{number}", number == 0) for number in range(4)]
SUBNETS = ("10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24")
LEFT_OUT = "left out"


def read(*places: Any, hardware: str = "gb10", hosts: int = 4, **fabric: Any) -> tuple[Fabric, list[PlanError]]:
    rails = [
        {"subnet": subnet, **({} if place == LEFT_OUT else {"port": place})}
        for subnet, place in zip(SUBNETS, places, strict=False)
    ]
    errors = PlanErrors()
    intent = {"firstlight_fabric": {"rails": rails, **fabric}}
    return read_fabric(intent, HARDWARE[hardware], None, HOSTS[:hosts], errors), errors.found


def places(fabric: Fabric) -> list[tuple[str | None, int | None, int, str]]:
    return [(rail.port, rail.cage, rail.half, rail.expected) for rail in fabric.rails]


def test_names_have_the_places_of_the_profile() -> None:
    fabric, refused = read("enp1s0f1np1", "enP2p1s0f1np1")
    assert places(fabric) == [
        ("enp1s0f1np1", 1, 0, "enp1s0f1np1"),
        ("enP2p1s0f1np1", 1, 1, "enP2p1s0f1np1"),
    ]
    assert (refused, fabric.notes) == ([], ())
    assert places(read("eth7", "eth8")[0]) == [("eth7", None, 0, "eth7"), ("eth8", None, 0, "eth8")]


def test_a_cage_has_two_halves() -> None:
    fabric, refused = read("cage 0", "cage 0")
    assert places(fabric) == [(None, 0, 0, "enp1s0f0np0"), (None, 0, 1, "enP2p1s0f0np0")]
    assert (refused, fabric.notes) == ([], ())


def test_ports_may_be_left_out() -> None:
    fabric, refused = read(LEFT_OUT, LEFT_OUT)
    assert places(fabric) == [(None, None, 0, "PORT_TO_FIND_0"), (None, None, 1, "PORT_TO_FIND_1")]
    assert (refused, fabric.notes) == ([], ())


@pytest.mark.parametrize(
    ("written", "hardware", "identifier", "words"),
    [
        (["cage 2"], "gb10", "fabric.cage", "the hardware has cage 0 and cage 1"),
        (["cage one"], "gb10", "fabric.cage", "cage one"),
        (["cage \u0661"], "gb10", "fabric.cage", "cage"),
        (["cage 1"], "h100-sxm-8", "fabric.cage", "no cages"),
        (["cage 1", "cage 1", "cage 1"], "gb10", "fabric.cage", "3 rails are on cage 1"),
        ([LEFT_OUT, LEFT_OUT, LEFT_OUT], "gb10", "fabric.cage", "3 rails are on the cabled cage"),
        (["cage 1", "enP2p1s0f1np1"], "gb10", "fabric.mixed", "by name, another by cage"),
        (["enp1s0f1np1", LEFT_OUT], "gb10", "fabric.mixed", "by name, another by its cable alone"),
        (["cage 1", LEFT_OUT], "gb10", "fabric.mixed", "by cage, another by its cable alone"),
        (["cage 1 enp1s0f1"], "gb10", "fabric.port", "cage 1 enp1s0f1"),
        ([None], "gb10", "fabric.port", "None"),
        ([7], "gb10", "fabric.port", "7"),
        (["en p1"], "gb10", "fabric.port", "en p1"),
    ],
)
def test_what_no_host_could_have_is_refused(written: list[Any], hardware: str, identifier: str, words: str) -> None:
    _, refused = read(*written, hardware=hardware)
    found = [one for one in refused if one["id"] == identifier]
    assert found, refused
    assert any(words in one["found"] + one["rule"] for one in found), found


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (["cage 1"], "1 of the 2 rails"),
        (["enp1s0f1np1"], "1 of the 2 rails"),
        (["cage 0", "cage 1"], "half 0 of cage 0 and half 0 of cage 1 are behind one PCIe link"),
        (["enp1s0f1np1", "enp1s0f0np0"], "are behind one PCIe link"),
    ],
)
def test_what_wastes_half_of_the_hardware_is_noted(written: list[str], words: str) -> None:
    fabric, refused = read(*written)
    assert refused == []
    assert words in fabric.notes[0]


def test_other_hardware_has_no_such_notes() -> None:
    assert read("eth0", hardware="h100-sxm-8", hosts=2)[0].notes == ()
    assert read("eth0", "eth1")[0].notes == ()


def test_slower_links_pass_unless_a_speed_is_named() -> None:
    (slower,) = read("cage 1", "cage 1")[0].slower
    assert (slower["speed_mbit"], slower["minimum_bandwidth"]) == (100000, {"tcp_gbit": 20, "rdma_gbit": 80})
    assert "3 %" in slower["cost"]
    (own,) = read("cage 1", "cage 1", minimum_bandwidth={"rdma_gbit": 90})[0].slower
    assert own["minimum_bandwidth"]["rdma_gbit"] == 90
    for named in (100, 200):
        assert read("cage 1", "cage 1", speed_gbit=named)[0].slower == ()
    assert read("eth0", hardware="h100-sxm-8")[0].slower == ()


def test_limits() -> None:
    plain, _ = read("cage 1", "cage 1")
    assert (plain.minimum_bandwidth, plain.speed_mbit, plain.qos) == ({"tcp_gbit": 20, "rdma_gbit": 85}, 200000, {})
    own, refused = read("cage 1", minimum_bandwidth={"rdma_gbit": 0}, speed_gbit=100, qos={"priority": 3, "dscp": 26})
    assert (own.minimum_bandwidth, own.speed_mbit) == ({"tcp_gbit": 20, "rdma_gbit": 0}, 100000)
    assert own.qos == {"priority": 3, "dscp": 26}
    assert refused == []
    slow, _ = read("cage 1", "cage 1", speed_gbit=10)
    assert slow.minimum_bandwidth == {"tcp_gbit": 8, "rdma_gbit": 8}  # the profile's are for its own ports
    mine, _ = read("cage 1", "cage 1", speed_gbit=10, minimum_bandwidth={"tcp_gbit": 9})
    assert mine.minimum_bandwidth == {"tcp_gbit": 9, "rdma_gbit": 8}
    h100, _ = read("eth0", hardware="h100-sxm-8")
    assert (h100.minimum_bandwidth, h100.speed_mbit) == ({}, None)


@pytest.mark.parametrize(
    ("written", "identifier"),
    [
        ({"minimum_bandwidth": [20]}, "fabric.minimum_bandwidth"),
        ({"minimum_bandwidth": {"tcp_gbit": "20"}}, "fabric.minimum_bandwidth"),
        ({"minimum_bandwidth": {"rdma_gbit": -1}}, "fabric.minimum_bandwidth"),
        ({"minimum_bandwidth": {"rdma_gbit": float("nan")}}, "fabric.minimum_bandwidth"),
        ({"minimum_bandwidth": {"tcp": 20}}, "intent.unknown-key"),
        ({"speed_gbit": 0}, "fabric.speed"),
        ({"speed_gbit": "200"}, "fabric.speed"),
        ({"speed_gbit": True}, "fabric.speed"),
        ({"qos": 3}, "fabric.qos"),
        ({"qos": {"priority": 8, "dscp": 26}}, "fabric.qos"),
        ({"qos": {"priority": 3}}, "fabric.qos"),
        ({"qos": {"priority": 3, "dscp": 64}}, "fabric.qos"),
        ({"qos": {"priority": 3, "dscp": True}}, "fabric.qos"),
        ({"qos": {"priority": 3, "dscp": 26, "ecn": True}}, "intent.unknown-key"),
    ],
)
def test_limits_that_are_none_are_refused(written: dict[str, Any], identifier: str) -> None:
    assert identifier in {one["id"] for one in read("cage 1", "cage 1", **written)[1]}


@pytest.mark.parametrize("name", ["ray_cluster_environment", "inference_server_environment"])
@pytest.mark.parametrize("variable", ["NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX"])
def test_no_gid_index_is_pinned(name: str, variable: str) -> None:
    errors = PlanErrors()
    check_pins([HostIntent("spark0", True, variables={name: {variable: "3", "NCCL_DEBUG": "INFO"}})], errors)
    assert [one["id"] for one in errors.found] == ["fabric.gid"]
    assert variable in errors.found[0]["remedy"]
    fine = PlanErrors()
    check_pins([HostIntent("spark0", True, variables={name: {"NCCL_IB_HCA": "=mlx5_0:1"}})], fine)
    check_pins([HostIntent("spark0", True, variables={name: "a text"})], fine)
    assert fine.found == []


WRITTEN = st.sampled_from(["enp1s0f1np1", "enP2p1s0f1np1", "eth0", "cage 0", "cage 1", "cage 9", LEFT_OUT, "", None, 3])


@given(st.lists(WRITTEN, max_size=4))
def test_rails_that_pass_are_each_on_a_place_of_their_own(written: list[Any]) -> None:
    fabric, refused = read(*written, hosts=1)
    if refused:
        return
    assert len(fabric.rails) == len(written)
    assert len({rail.expected for rail in fabric.rails}) == len(written)
    by_place = [(rail.cage, rail.half) for rail in fabric.rails if not rail.port]
    assert len(set(by_place)) == len(by_place)
    assert all(half in (0, 1) for _, half in by_place)


@pytest.mark.parametrize(
    ("port", "found", "remedy"),
    [
        ("ENP1S0F1NP1", "is ENP1S0F1NP1", "did you mean enp1s0f1np1?"),
        ("enp2p1s0f1np1", "is enp2p1s0f1np1", "did you mean enP2p1s0f1np1?"),
        ("ETH7", "is ETH7", "did you mean eth7?"),
        ("rocep1s0f1", "is rocep1s0f1, an RDMA device", "write enp1s0f1np1"),
        ("MLX5_0", "is MLX5_0, an RDMA device", "`rdma link`"),
    ],
)
def test_a_port_by_another_name_is_refused(port: str, found: str, remedy: str) -> None:
    _, (refused,) = read("enp1s0f0np0", port)
    assert refused["id"] == "fabric.port"
    assert refused["found"] == f"firstlight_fabric.rails[1].port {found}"
    assert remedy in refused["remedy"]


def test_a_rail_has_private_addresses() -> None:
    for subnet, ids in (("8.8.8.0/24", ["fabric.subnet"]), ("100.64.0.0/24", []), ("172.20.0.0/24", [])):
        _, refused = read(rails=[{"port": "enp1s0f1np1", "subnet": subnet}])
        assert [one["id"] for one in refused] == ids


def test_a_small_mtu_is_noted_where_rdma_pays_for_it() -> None:
    def notes(**fabric: Any) -> list[str]:
        return [note for note in read("enp1s0f1np1", "enP2p1s0f1np1", **fabric)[0].notes if "MTU" in note]

    (note,) = notes(mtu=1500)
    assert note.startswith("With an MTU of 1500 RoCE sends packets of 1024 bytes instead of 4096")
    assert notes(mtu=4200) == notes(mtu=1500, rdma=False) == []


def test_one_overlap_is_one_error() -> None:
    hosts = [HostIntent(f"spark{number}", number == 0, address=f"10.0.0.{number}") for number in range(4)]
    intent = {
        "firstlight_fabric": {"rails": [{"port": "enp1s0f1np1", "subnet": "10.0.0.0/16"}]},
        "firstlight_networks": ["10.0.0.0/8"],
    }
    errors = PlanErrors()
    read_fabric(intent, HARDWARE["gb10"], None, hosts, errors)
    (one,) = errors.found
    assert one["found"] == (
        "subnet 10.0.0.0/16 of port enp1s0f1np1 overlaps 10.0.0.0/8, which is in firstlight_networks; and 10.0.0.0, "
        "the management address of spark0 and 3 more"
    )
