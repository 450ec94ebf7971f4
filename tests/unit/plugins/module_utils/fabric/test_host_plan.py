# SPDX-License-Identifier: Apache-2.0
"""A plan made on paper, and what becomes of it on the machines it meets."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.fabric_ports import port_names, read_ports
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.rdma import rdma_differences
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.observe import probes
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.preflight import problems
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.host_plan import host_desired, host_plan
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planning import plan_hosts

SUBNETS = ("192.168.100.0/24", "192.168.101.0/24")
DIGEST = "sha256:" + "1" * 64
INTENT: dict[str, Any] = {
    "firstlight_hardware": "gb10",
    "firstlight_stack": "spark-vllm-0.32",
    "firstlight_model": "qwen3.5-397b-a17b-fp8",
    "firstlight_image": f"registry.example/vllm@{DIGEST}",
    "firstlight_serving": {"tensor_parallel": 4, "max_model_len": 32768},
    "firstlight_firewall": {},
}


def plan(
    *places: str | None, fabric: dict[str, Any] | None = None, stack: str | None = None, **variables: Any
) -> dict[str, Any]:
    """The plan of the second of four Sparks, with rails on these places."""
    rails = [
        {"subnet": subnet, **({} if place is None else {"port": place})}
        for subnet, place in zip(SUBNETS, places, strict=False)
    ]
    intent = {**INTENT, "firstlight_fabric": {"rails": rails, **(fabric or {})}}
    hosts = [HostIntent(f"spark{n}", n == 0, intent=intent, variables=variables) for n in range(4)]
    made = plan_hosts(hosts, stack=stack)
    assert not made.errors, made.errors
    return copy.deepcopy(dict(made.hosts["spark1"]))


def met(sysfs: Any, nics: Any, **arguments: Any) -> dict[str, Any]:
    return {"fabric": sysfs.read(nics, **arguments), "errors": {}}


NAMED = ("enp1s0f1np1", "enP2p1s0f1np1")


@pytest.mark.parametrize("places", [NAMED, ("cage 1", "cage 1"), (None, None)])
def test_all_ways_of_writing_rails_end_in_one_plan(sysfs: Any, places: tuple[str | None, ...]) -> None:
    refined = host_plan(plan(*places), met(sysfs, sysfs.spark()))
    assert refined["errors"] == []
    assert [entry["port"] for entry in refined["host"]["fabric"]] == [*NAMED]
    assert refined["host"]["fabric"][1]["found"]["rdma_device"] == "roceP2p1s0f1"
    roles = refined["roles"]
    assert [entry["port"] for entry in roles["fabric_network"]["fabric_network_ports"]] == [*NAMED]
    assert {entry["port"] for entry in roles["fabric_network"]["fabric_network_peers"]} == {*NAMED}
    assert roles["fabric_network"]["fabric_network_rdma"] == [
        {
            "port": name,
            "speed_mbit": 200000,
            "link_layer": "Ethernet",
            "address": f"192.168.{100 + number}.11",
            "active_mtu": 4096,
        }
        for number, name in enumerate(NAMED)
    ]
    assert roles["ray_cluster"]["ray_cluster_interface"] == "enp1s0f1np1"
    assert roles["ray_cluster"]["ray_cluster_environment"] == {
        "NCCL_IB_HCA": "=rocep1s0f1:1,roceP2p1s0f1:1",
        "NCCL_NET": "IB",
    }
    assert set(refined["desired"]["fabric_network"]["links"]) == {*NAMED}
    assert set(refined["desired"]["fabric_network"]["rdma"]) == {*NAMED}
    unit = refined["desired"]["ray_cluster"]["files"]["/etc/systemd/system/firstlight-ray.service"]["content"]
    assert "NCCL_SOCKET_IFNAME==enp1s0f1np1 " in unit
    assert "PORT_TO_FIND" not in str({**refined, "observe": None})
    ray = refined["host"]["launch"][0]
    assert ray["env"]["NCCL_IB_HCA"] == "=rocep1s0f1:1,roceP2p1s0f1:1"
    assert host_plan(refined, met(sysfs, sysfs.spark()))["roles"] == roles


def at(nics: list[Any], speed: str) -> list[Any]:
    """The same machine behind a slower switch."""
    return [dataclasses.replace(nic, speed=speed) if nic.carrier == "1" and nic.rdma else nic for nic in nics]


def fabric_faults(refined: dict[str, Any], observation: dict[str, Any]) -> list[Any]:
    wanted = {
        port: {"speed_mbit": one["speed_mbit"]} for port, one in refined["desired"]["fabric_network"]["rdma"].items()
    }
    return rdma_differences(wanted, observation["fabric"])


def test_links_of_half_the_speed_are_served_with_and_told(sysfs: Any) -> None:
    observation = met(sysfs, at(sysfs.spark(), "100000"))
    refined = host_plan(plan(*NAMED), observation)
    (note,) = refined["notes"]
    assert note.startswith("enp1s0f1np1, enP2p1s0f1np1 at 100 of 200 Gb/s: ")
    assert "about 3 % slower" in note
    assert "speed_gbit: 100" in note
    assert refined["errors"] == []
    network = refined["roles"]["fabric_network"]
    assert [one["speed_mbit"] for one in network["fabric_network_rdma"]] == [100000, 100000]
    assert network["fabric_network_minimum_bandwidth"] == {"tcp_gbit": 20, "rdma_gbit": 80}
    assert fabric_faults(refined, observation) == []
    assert host_plan(refined, observation)["roles"] == refined["roles"]


@pytest.mark.parametrize(("speed", "fabric"), [("100000", {"speed_gbit": 200}), ("40000", {}), ("10000", {})])
def test_a_speed_that_was_asked_for_and_one_nobody_has_measured_are_faults(
    sysfs: Any, speed: str, fabric: dict[str, Any]
) -> None:
    observation = met(sysfs, at(sysfs.spark(), speed))
    refined = host_plan(plan(*NAMED, fabric=fabric), observation)
    assert refined["notes"] == []
    assert len(fabric_faults(refined, observation)) == 2


def test_the_planned_speed_and_half_of_it_where_it_was_asked_for_need_no_word(sysfs: Any) -> None:
    assert host_plan(plan(*NAMED), met(sysfs, sysfs.spark()))["notes"] == []
    asked = plan(*NAMED, fabric={"speed_gbit": 100})
    assert host_plan(asked, met(sysfs, at(sysfs.spark(), "100000")))["notes"] == []


def test_the_variables_against_a_hazard_stay_with_the_ranks(sysfs: Any) -> None:
    """In the engine's own mode the ranks' variables are made anew from the ports that were found."""
    made = plan(*NAMED, stack="spark-vllm-0.32-multinode")
    refined = host_plan(made, met(sysfs, sysfs.spark(mlx5=True)))
    told = refined["roles"]["inference_server"]["inference_server_environment"]
    assert told["VLLM_USE_DEEP_GEMM"] == "0"
    assert told["NCCL_IB_HCA"] == "=mlx5_1:1,mlx5_3:1"


def test_the_cage_that_has_the_cable_is_used(sysfs: Any) -> None:
    refined = host_plan(plan(None, None), met(sysfs, sysfs.spark([0], mlx5=True)))
    assert [entry["port"] for entry in refined["host"]["fabric"]] == ["enp1s0f0np0", "enP2p1s0f0np0"]
    assert refined["host"]["environment"]["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_2:1"
    assert refined["host"]["environment"]["NCCL_SOCKET_IFNAME"] == "=enp1s0f0np0"


def test_renamed_ports_are_found_by_their_cage(sysfs: Any) -> None:
    nics = [dataclasses.replace(nic, name=f"cx{n}", rdma=f"mlx5_{n}") for n, nic in enumerate(sysfs.spark()[:4])]
    refined = host_plan(plan("cage 1", "cage 1"), met(sysfs, nics))
    assert [entry["port"] for entry in refined["host"]["fabric"]] == ["cx1", "cx3"]
    assert set(refined["desired"]["fabric_network"]["links"]) == {"cx1", "cx3"}


def test_a_cable_in_the_other_cage_is_refused_before_anything(sysfs: Any) -> None:
    refined = host_plan(plan(*NAMED), met(sysfs, sysfs.spark([0])))
    assert len(refined["errors"]) == 2
    assert refined["errors"][0] == (
        "spark1: rail 192.168.100.0/24 is planned on enp1s0f1np1 (cage 1), which has no carrier; enp1s0f0np0 (cage 0) "
        "has one: move the cable to the other cage, or write port: cage 0"
    )
    found = problems(met(sysfs, sysfs.spark([0])), refined["desired"]["preflight"])
    assert [f"spark1: {one}" for one in found if "rail" in one] == refined["errors"]


def test_nothing_cabled_is_refused_and_the_rest_of_the_plan_stays(sysfs: Any) -> None:
    made = plan(None, None)
    refined = host_plan(made, met(sysfs, sysfs.spark([])))
    assert len(refined["errors"]) == 2
    assert refined["desired"]["host_tuning"] == made["desired"]["host_tuning"]


def test_ports_that_could_not_be_read(sysfs: Any) -> None:
    failed = {"errors": {"fabric": "no answer within 32 s"}}
    assert host_plan(plan(*NAMED), failed)["errors"] == []
    refused = host_plan(plan("cage 1", "cage 1"), failed)["errors"]
    assert "no answer within 32 s" in refused[0]


def test_virtual_ports_by_name_work_without_any_device(sysfs: Any) -> None:
    nics = [dataclasses.replace(nic, pci=None, rdma=None) for nic in sysfs.spark()[:4]]
    made = plan(*NAMED, fabric_network_rdma=[])
    refined = host_plan(made, met(sysfs, nics, named=made["observe"]["fabric_network"]["fabric"]["ports"]))
    assert refined["errors"] == []
    assert refined["roles"]["fabric_network"]["fabric_network_rdma"] == []
    assert "rdma" not in refined["desired"]["fabric_network"]
    assert refined["roles"]["ray_cluster"]["ray_cluster_environment"] == {"NCCL_NET": "IB"}


def test_what_the_operator_sets_wins(sysfs: Any) -> None:
    own = {"NCCL_IB_HCA": "=mine:1", "NCCL_DEBUG": "INFO"}
    made = plan(*NAMED, ray_cluster_environment=own)
    expected = {"NCCL_IB_HCA": "=mine:1", "NCCL_DEBUG": "INFO", "NCCL_NET": "IB"}
    assert made["roles"]["ray_cluster"]["ray_cluster_environment"] == expected
    refined = host_plan(made, met(sysfs, sysfs.spark(mlx5=True)))
    assert refined["roles"]["ray_cluster"]["ray_cluster_environment"] == expected


def test_a_marked_fabric_has_its_traffic_class(sysfs: Any) -> None:
    made = plan(*NAMED, fabric={"qos": {"priority": 3, "dscp": 26}, "mtu": 1500, "speed_gbit": 100})
    assert made["roles"]["fabric_network"]["fabric_network_qos"] == {"priority": 3, "dscp": 26}
    refined = host_plan(made, met(sysfs, sysfs.spark()))
    assert refined["roles"]["ray_cluster"]["ray_cluster_environment"]["NCCL_IB_TC"] == "106"
    assert {
        (one["active_mtu"], one["speed_mbit"]) for one in refined["roles"]["fabric_network"]["fabric_network_rdma"]
    } == {(1024, 100000)}


def test_minimum_bandwidths_are_the_profiles_and_the_operators() -> None:
    assert plan(*NAMED)["roles"]["fabric_network"]["fabric_network_minimum_bandwidth"] == {
        "tcp_gbit": 20,
        "rdma_gbit": 85,
    }
    mine = plan(*NAMED, fabric={"minimum_bandwidth": {"tcp_gbit": 0.2}})
    assert mine["roles"]["fabric_network"]["fabric_network_minimum_bandwidth"] == {"tcp_gbit": 0.2, "rdma_gbit": 85}


def single(hardware: str = "h100-sxm-8") -> dict[str, Any]:
    intent = {
        "firstlight_hardware": hardware,
        "firstlight_stack": "h100-vllm-0.32",
        "firstlight_model": "llama-3.3-70b",
        "firstlight_serving": {"tensor_parallel": 8, "max_model_len": 32768},
    }
    made = plan_hosts([HostIntent("h100", True, intent=intent)])
    assert not made.errors, made.errors
    return copy.deepcopy(dict(made.hosts["h100"]))


def test_an_h100_needs_no_rails_and_its_infiniband_is_noticed(sysfs: Any) -> None:
    made = single()
    assert "rails" not in made["desired"]["preflight"]
    roce = host_plan(made, met(sysfs, sysfs.hgx()))
    assert (roce["errors"], roce["notes"], roce["desired"]) == ([], [], made["desired"])
    (note,) = host_plan(made, met(sysfs, sysfs.hgx("InfiniBand", netdevs=False)))["notes"]
    assert note.startswith("InfiniBand on mlx5_0, mlx5_1")
    assert note.endswith("RDMA over it needs no rail, and none is planned")


def test_states_are_those_of_the_refined_plan(sysfs: Any) -> None:
    made = plan(None, None)
    seen = met(sysfs, sysfs.spark([0]))
    desired = host_desired(host_plan(made, seen), seen)
    assert set(desired["fabric_network"]["links"]) == {"enp1s0f0np0", "enP2p1s0f0np0"}


def test_every_port_of_the_profile_is_looked_at_with_its_place() -> None:
    assert plan(*NAMED)["observe"]["fabric_network"]["fabric"] == {
        "ports": {
            "enp1s0f1np1": {"cage": 1, "half": 0},
            "enP2p1s0f1np1": {"cage": 1, "half": 1},
            "enp1s0f0np0": {"cage": 0, "half": 0},
            "enP2p1s0f0np0": {"cage": 0, "half": 1},
        }
    }
    assert single()["observe"]["fabric_network"] == {"fabric": {"ports": {}}}


@pytest.mark.parametrize("places", [NAMED, ("cage 1", "cage 1"), (None, None)])
def test_one_observation_reads_everything_that_the_refined_plan_wants(
    sysfs: Any, places: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever ports are found, nothing that is wanted of them was left unread."""
    made = plan(*places)
    nics = sysfs.spark([0])
    if places != NAMED:
        nics = [dataclasses.replace(nic, name=f"cx{number}") for number, nic in enumerate(nics)]
    root = sysfs.build(nics)
    monkeypatch.setattr(probes, "read_ports", lambda host, **given: read_ports(host, root, **given))
    monkeypatch.setattr(probes, "port_names", lambda named: port_names(named, root))
    asked: dict[str, list[str]] = {}

    def record(host: Any, wanted: dict[str, list[str]], timeout: float) -> dict[str, Any]:
        del host, timeout
        asked.update(wanted)
        return {}

    monkeypatch.setattr(probes, "_probes", record)
    observation = probes.observe(Host(), {"fabric_network": made["observe"]["fabric_network"]})
    wanted = host_plan(made, observation)["desired"]["fabric_network"]
    for kind in ("sysctl", "units", "files", "packages"):
        assert set(wanted.get(kind) or {}) <= set(asked.get(kind) or []), kind


@pytest.mark.parametrize("cabled", [[], [0, 1]])
def test_a_rail_without_a_port_is_not_looked_for_by_a_name_of_paper(sysfs: Any, cabled: list[int]) -> None:
    """A verification of such a host tells that the rail has no port, not that PORT_TO_FIND_0 is missing."""
    refined = host_plan(plan(None, None), met(sysfs, sysfs.spark(cabled)))
    assert len(refined["errors"]) == 2
    network = refined["roles"]["fabric_network"]
    assert [entry["port"] for entry in network["fabric_network_ports"]] == [None, None]
    assert {entry["port"] for entry in network["fabric_network_peers"]} == {None}
    assert set(refined["desired"]["fabric_network"]) == {"packages"}
    assert host_plan(refined, met(sysfs, sysfs.spark(cabled)))["desired"] == refined["desired"]


def test_one_rail_without_a_port_leaves_the_other_to_be_verified(sysfs: Any) -> None:
    nics = [nic for nic in sysfs.spark() if nic.name != "enP2p1s0f1np1"]
    network = host_plan(plan("cage 1", "cage 1"), met(sysfs, nics))["roles"]["fabric_network"]
    assert [entry["port"] for entry in network["fabric_network_ports"]] == ["enp1s0f1np1", None]


def test_rdma_that_is_there_and_not_used_is_told(sysfs: Any) -> None:
    (note,) = host_plan(plan(*NAMED, fabric={"rdma": False}), met(sysfs, sysfs.spark()))["notes"]
    assert note == (
        "RDMA devices rocep1s0f1, roceP2p1s0f1 are behind the rails and not used, which is several times slower: set "
        "firstlight_fabric.rdma to true to use them"
    )
    assert host_plan(plan(*NAMED), met(sysfs, sysfs.spark()))["notes"] == []


def test_the_firewall_is_told_the_ports_that_were_found(sysfs: Any) -> None:
    made = plan(None, None)
    paper = [entry["port"] for entry in made["roles"]["fabric_network"]["fabric_network_ports"]]
    made["roles"]["firewall"] = {"firewall_fabric": {"interfaces": [*paper, "own0"], "peers": ["192.168.100.10"]}}
    refined = host_plan(made, met(sysfs, sysfs.spark()))
    assert refined["roles"]["firewall"]["firewall_fabric"] == {
        "interfaces": [*NAMED, "own0"],
        "peers": ["192.168.100.10"],
    }
