# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.hardware import FIELDS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog

ROOT = Path(__file__).parents[4]
HARDWARE = load_catalog([ROOT / "catalog"])["hardware"]
LAB = ROOT / "src" / "firstlight" / "lab" / "nvidia" / "data" / "profiles"
OPTIONAL = {"note", "headless"}


def test_every_profile_is_there() -> None:
    assert set(HARDWARE) == {
        "gb10",
        "h100-pcie",
        "h100-sxm-4",
        "h100-sxm-4-nvswitch",
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
    assert (profile["nvswitches"] > 0) == entry["nvswitch"]
    if entry["links_per_gpu"]:
        assert profile["nvlink"]["speed"] == f"{entry['link_gb_s']} GB/s"


def test_what_drivers_report() -> None:
    """81559, not 81920, MiB on an H100; a GB10 reports none, and its system sees less than 128 GB."""
    assert {HARDWARE[name]["memory_mib"] for name in HARDWARE if name.startswith("h100")} == {81559}
    assert HARDWARE["h200-sxm-8"]["memory_mib"] == HARDWARE["h200-sxm-1"]["memory_mib"] == 143771
    assert HARDWARE["gb10"]["os_visible_mib"] / 1024 == pytest.approx(121.7, abs=0.01)
    assert HARDWARE["h100-sxm-4"]["pair"] == "NV6"
    assert HARDWARE["h100-sxm-4-nvswitch"]["pair"] == "NV18"
