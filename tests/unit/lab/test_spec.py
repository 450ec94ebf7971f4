# SPDX-License-Identifier: Apache-2.0
"""What a lab consists of, and what is refused before anything is started."""

from __future__ import annotations

from typing import Any

import pytest

from firstlight_lab.nvidia import pci_files
from firstlight_lab.shell import LabError
from firstlight_lab.spec import PROFILES, SPARK_PORTS, make_spec, rack_nodes


def test_four_sparks_have_both_halves_of_both_cages() -> None:
    spec = make_spec("demo")
    assert [node.name for node in spec.nodes] == ["spark0", "spark1", "spark2", "spark3"]
    assert all(node.ports == SPARK_PORTS for node in spec.nodes)
    assert [port[-1] for port in SPARK_PORTS] == ["0", "0", "1", "1"]
    assert all(node.machine == {"profile": "gb10", "faults": []} for node in spec.nodes)


def test_bare_nodes_come_after_the_others() -> None:
    spec = make_spec("demo", nodes=2, bare=1)
    assert [(node.name, node.bare) for node in spec.nodes] == [
        ("spark0", False),
        ("spark1", False),
        ("bare0", True),
    ]


def test_a_lab_may_have_bare_nodes_only() -> None:
    spec = make_spec("demo", nodes=0, bare=16)
    assert [node.name for node in spec.nodes] == [f"bare{index}" for index in range(16)]


def test_faults_and_disks_reach_their_node() -> None:
    spec = make_spec("demo", nodes=2, faults=["spark1=gpu_missing", "spark1=hang"], docker_disks=["spark0=300m"])
    assert spec.nodes[1].machine["faults"] == ["gpu_missing", "hang"]
    assert spec.nodes[0].docker_disk == "300m"


def test_a_node_can_play_other_hardware_than_the_rest() -> None:
    spec = make_spec("demo", nodes=1, bare=2, plays=["bare1=h100-sxm-4-nvswitch"])
    assert [node.machine["profile"] for node in spec.nodes] == ["gb10", "gb10", "h100-sxm-4-nvswitch"]


def test_racks_have_the_names_of_the_rack_inventory() -> None:
    names = rack_nodes("gb10", ["a=2", "b=1"])
    assert names == ["spark-a1", "spark-a2", "spark-b1"]
    spec = make_spec("demo", nodes=names, faults=["spark-b1=gpu_missing"])
    assert [node.name for node in spec.nodes] == names
    assert rack_nodes("gb10", []) == []


@pytest.mark.parametrize("rack", ["a", "A=2", "a=0", "a=x", "a=97", "a1=2", "=2"])
def test_a_rack_that_cannot_be_is_refused(rack: str) -> None:
    with pytest.raises(LabError, match="The rack"):
        rack_nodes("gb10", [rack])


def test_a_rack_is_named_once() -> None:
    with pytest.raises(LabError, match="no other rack has"):
        rack_nodes("gb10", ["a=2", "a=3"])


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_installs_the_container_toolkit(profile: str) -> None:
    assert "nvidia-container-toolkit" in PROFILES[profile].factory


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "Demo"}, "lower-case"),
        ({"name": "x" * 21}, "at most 19"),
        ({"name": "a b"}, "lower-case"),
        ({"name": "demo", "profile": "gb11"}, "gb10"),
        ({"name": "demo", "nodes": 0}, "1 to 96"),
        ({"name": "demo", "nodes": -1, "bare": 2}, "-1 nodes and 2 bare ones"),
        ({"name": "demo", "nodes": 97}, "1 to 96"),
        ({"name": "demo", "nodes": 1, "bare": 96}, "1 to 96 in total"),
        ({"name": "demo", "fabric_mtu": 70000}, "1280 to 9216"),
        ({"name": "demo", "faults": ["spark9=gpu_missing"]}, "spark0, spark1"),
        ({"name": "demo", "faults": ["gpu_missing"]}, "NODE=VALUE"),
        ({"name": "demo", "plays": ["bare0=gb10"]}, "no node 'bare0'"),
        ({"name": "demo", "plays": ["spark0=gb11"]}, "spark0 cannot simulate 'gb11'"),
        ({"name": "demo", "docker_disks": ["spark9=1g"]}, "no node 'spark9'"),
        ({"name": "demo", "faults": ["spark1=no_such_fault"]}, "no_such_fault"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(LabError, match=words):
        make_spec(**arguments)


def test_the_bus_shows_gpus_and_nvswitches() -> None:
    files = pci_files("h100-sxm-8")
    kinds = [files[path] for path in files if path.endswith("/class")]
    assert (kinds.count("0x030200\n"), kinds.count("0x068000\n")) == (8, 4)
    assert pci_files("gb10") == {
        "000f:01:00.0/vendor": "0x10de\n",
        "000f:01:00.0/class": "0x030200\n",
        "000f:01:00.0/device": "0x2e12\n",
    }
