# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.hardware import FIELDS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import check_fields, load_catalog

ROOT = Path(__file__).parents[4]
HARDWARE = load_catalog([ROOT / "catalog"])["hardware"]
LAB = ROOT / "src" / "firstlight_lab" / "nvidia" / "data" / "profiles"
OPTIONAL = {"note", "headless", "nvswitches", "unverified", "fabric_manager", "free_at_start_mib", "memory_efficiency"}


def test_every_profile_is_there() -> None:
    assert set(HARDWARE) == {
        "gb10",
        "h100-pcie",
        "h100-sxm-4",
        "h100-sxm-4-nvswitch",
        "h100-sxm-4-partition",
        "h100-sxm-8",
        "h200-sxm-1",
        "h200-sxm-8",
    }


@pytest.mark.parametrize("entry", HARDWARE.values(), ids=str)
def test_a_built_in_profile_leaves_nothing_out(entry: dict[str, Any]) -> None:
    assert set(FIELDS) - OPTIONAL <= set(entry)
    assert entry["fp8"]
    assert entry["memory_bandwidth_gb_s"] > 0
    assert entry["tflops"]["fp8"] == pytest.approx(2 * entry["tflops"]["bf16"], rel=0.01)
    assert (entry["memory_mib"] is None) == entry["unified"] == (entry["os_visible_mib"] is not None)


@pytest.mark.parametrize("entry", HARDWARE.values(), ids=str)
def test_minimums_of_the_burn_in_leave_room_and_catch_a_fifth_of_a_gpu(entry: dict[str, Any]) -> None:
    minimums = entry["burn_in"]
    assert all(0.3 <= minimums[name] <= 0.9 for name in ("bf16", "fp8", "bandwidth", "clocks"))
    # A ratio of its own: two rates at their minimums would otherwise let FP8 be as slow as bf16.
    assert minimums["fp8_ratio"] == 1.6
    assert (minimums["all_reduce_gb_s"] is None) == (entry["gpus"] == 1)
    assert (minimums["host_copy_gb_s"] is None) == entry["unified"]
    assert entry.get("nvswitches", 0) == 0 or entry["nvswitch"]


@pytest.mark.parametrize("entry", HARDWARE.values(), ids=str)
def test_links_pairs_and_interconnect_agree(entry: dict[str, Any]) -> None:
    kind = entry["interconnect"]["kind"]
    assert kind in {"nvlink", "pcie", "none"}
    assert (entry["links_per_gpu"] > 0) == (kind == "nvlink")
    assert (entry["pair"] is None) == (entry["gpus"] == 1) == (kind == "none")
    assert not entry["nvswitch"] or entry["pair"] == "NV18"
    if kind == "nvlink":
        assert entry["interconnect"]["bandwidth_gb_s"] == entry["links_per_gpu"] * 25
        assert entry["link_gb_s"] == 26.562
        assert entry["gpus"] in entry["interconnect"]["latency_us"]


@pytest.mark.parametrize(("name", "entry"), HARDWARE.items())
def test_the_lab_presents_the_same_board(name: str, entry: dict[str, Any]) -> None:
    """What the lab's driver shows under a name is what the catalog expects under it."""
    profile = json.loads((LAB / f"{name}.json").read_text(encoding="utf-8"))
    assert len(profile["gpus"]) == entry["gpus"]
    assert profile["nvlink"]["links"] == entry["links_per_gpu"]
    assert (profile["nvswitches"] > 0) == (entry["nvswitch"] and entry.get("fabric_manager") != "host")
    if entry["links_per_gpu"]:
        assert profile["nvlink"]["speed"] == f"{entry['link_gb_s']} GB/s"


def test_what_drivers_report() -> None:
    """81559, not 81920, MiB on an H100; a GB10 reports none, and its system sees less than 128 GB."""
    assert {HARDWARE[name]["memory_mib"] for name in HARDWARE if name.startswith("h100")} == {81559}
    assert HARDWARE["h200-sxm-8"]["memory_mib"] == HARDWARE["h200-sxm-1"]["memory_mib"] == 143771
    assert HARDWARE["gb10"]["os_visible_mib"] / 1024 == pytest.approx(121.7, abs=0.01)
    assert HARDWARE["h100-sxm-4"]["pair"] == "NV6"
    assert HARDWARE["h100-sxm-4-nvswitch"]["pair"] == HARDWARE["h100-sxm-4-partition"]["pair"] == "NV18"


def test_the_gpus_of_a_partition_are_those_of_the_board() -> None:
    """What differs is what a guest does not have or know: a host, its height and power, a fabric of its own."""
    whole, part = HARDWARE["h100-sxm-4-nvswitch"], HARDWARE["h100-sxm-4-partition"]
    differing = {name for name in {*whole, *part} if whole.get(name) != part.get(name)}
    assert differing == {
        *("name", "description", "source", "date", "topology"),
        *("host_power_w", "rack_units", "fabric_manager"),
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gpus": 0}, "gpus: 0, expected a whole number of at least 1 and at most 1024"),
        ({"memory_mib": -1}, "memory_mib: -1, expected a whole number of at least 1"),
        ({"os_visible_mib": 0}, "os_visible_mib: 0, expected"),
        ({"memory_mib": 10**40}, "memory_mib: too long a number, expected"),
        ({"utilisation_ceiling": 5.0}, "utilisation_ceiling: 5.0, expected a number above 0 and at most 1"),
        ({"utilisation_ceiling": 0}, "utilisation_ceiling: 0, expected"),
        ({"utilisation_ceiling": float("nan")}, "utilisation_ceiling: nan, expected"),
        ({"memory_bandwidth_gb_s": -5}, "memory_bandwidth_gb_s: -5, expected a number above 0"),
        ({"memory_bandwidth_gb_s": float("inf")}, "memory_bandwidth_gb_s: inf, expected"),
        ({"tflops": {"bf16": 0, "fp8": 1}}, "tflops.bf16: 0, expected a number above 0"),
        ({"tflops": {"bf16": 1, "fp8": 0}}, "tflops.fp8: 0, expected a number above 0 and at most 1000000 or null"),
        ({"power_limit_w": 0}, "power_limit_w: 0, expected a whole number of at least 1"),
        ({"host_power_w": {"sustained": -1, "transient": None}}, "host_power_w.sustained: -1, expected"),
        ({"links_per_gpu": -1}, "links_per_gpu: -1, expected a whole number of at least 0"),
        ({"link_gb_s": 0}, "link_gb_s: 0, expected"),
        ({"fabric_manager": "cloud"}, "fabric_manager: 'cloud', expected self or host"),
        ({"fabric_manager": True}, "fabric_manager: True, expected self or host"),
        (
            {"interconnect": {"kind": "nvlink", "bandwidth_gb_s": 450, "latency_us": {2: 9, 4: -9}}},
            "interconnect.latency_us.4: -9, expected a number above 0",
        ),
        ({"fabric": {"rdma": True, "rails": 0, "ports": []}}, "fabric.rails: 0, expected"),
        ({"fabric": {"rdma": True, "speed_gb_s": -1, "ports": []}}, "fabric.speed_gb_s: -1, expected"),
        (
            {"fabric": {"rdma": True, "latency_us": {2: "x"}, "ports": []}},
            "fabric.latency_us.2: 'x', expected a number",
        ),
    ],
)
def test_a_figure_that_no_machine_has_is_named_with_its_range(change: dict[str, Any], words: str) -> None:
    (problem,) = check_fields({**HARDWARE["h100-sxm-8"], **change}, FIELDS, "x.yml", "")
    assert words in problem


@pytest.mark.parametrize(
    "change",
    [
        {"utilisation_ceiling": 1},
        {"links_per_gpu": 0},
        {"tflops": {"bf16": 312, "fp8": None}},
        {"memory_bandwidth_gb_s": 0.5},
        {"interconnect": {"kind": "none", "bandwidth_gb_s": None, "latency_us": None}},
    ],
)
def test_a_figure_at_the_edge_is_taken(change: dict[str, Any]) -> None:
    assert check_fields({**HARDWARE["h100-sxm-8"], **change}, FIELDS, "x.yml", "") == []
