# SPDX-License-Identifier: Apache-2.0
"""What a person reads of a plan for hardware that the site describes itself, as far as it knows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstlight.cli import main

ROOT = Path(__file__).parents[2]
H100X4 = str(ROOT / "inventory" / "h100x4")


def site(directory: Path, **change: Any) -> str:
    """Extra variables for a catalog with the example's hardware, these fields changed, or left out where None."""
    entry = yaml.safe_load((ROOT / "catalog/hardware/h100-sxm-4-nvswitch.yml").read_text(encoding="utf-8"))
    entry = {key: value for key, value in {**entry, **change}.items() if value is not None or key not in change}
    (directory / "hardware").mkdir()
    (directory / "hardware" / "h100-sxm-4-nvswitch.yml").write_text(yaml.safe_dump(entry))
    return json.dumps({"firstlight_catalog": [str(directory)]})


def test_a_site_that_knows_no_speeds_reads_why_none_is_expected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    extra = site(tmp_path, memory_bandwidth_gb_s=None, tflops=None)
    assert main(["plan", "-i", H100X4, "-e", extra]) == 0
    shown = capsys.readouterr().out
    assert "speed not known, because hardware h100-sxm-4-nvswitch lacks memory_bandwidth_gb_s and tflops" in shown
    assert "Cache for" in shown


def test_a_file_of_two_roles_is_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    on_ray = json.dumps({"firstlight_serving": {"profile": "vllm-ray", "max_model_len": 8192}})
    assert main(["plan", "-i", str(ROOT / "inventory" / "spark4"), "-e", on_ray]) == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if line.lstrip().startswith("files ")]
    assert [line.count("/etc/firstlight/cluster.token") for line in listed] == [1, 1, 1, 1]


def test_which_files_of_the_weights_are_brought_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-i", H100X4]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "(the first there is of mistral, safetensors, pytorch, pt)" in shown


def test_a_memory_that_is_not_known_is_refused_without_a_bar(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["plan", "-i", H100X4, "-e", site(tmp_path, unified=True, os_visible_mib=None)]) == 2
    shown = capsys.readouterr().out
    assert "[fit.memory-unknown]" in shown
    assert "Memory of each GPU" not in shown


def test_figures_that_mean_nothing_are_refused_with_their_range(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    extra = site(tmp_path, tflops={"bf16": 0, "fp8": 0}, memory_bandwidth_gb_s=-5, utilisation_ceiling=5.0)
    assert main(["plan", "-i", H100X4, "-e", extra]) != 0
    captured = capsys.readouterr()
    said = captured.out + captured.err
    for words in ("tflops.bf16: 0", "memory_bandwidth_gb_s: -5", "expected a number above 0 and at most 1"):
        assert words in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("rails", "words"),
    [
        ([{"port": "enp1s0f1np1"}, {"port": "enP2p1s0f1np1"}], "enp1s0f1np1 (cage 1) 192.168.100.10/24, MTU 9000"),
        ([{"port": "cage 0"}, {"port": "cage 0"}], "half 1 of cage 0, found on the host, 192.168.101.10/24, MTU 9000"),
        ([{}, {}], "half 0 of the one cage that has a cable, found on the host, 192.168.100.10/24, MTU 9000"),
        ([{"port": "cage 1"}], "1 of the 2 rails that the hardware has on one cable is used"),
    ],
)
def test_rails_are_shown_where_they_are_or_what_finds_them(
    capsys: pytest.CaptureFixture[str], rails: list[dict[str, Any]], words: str
) -> None:
    listed = [{**rail, "subnet": f"192.168.{100 + number}.0/24"} for number, rail in enumerate(rails)]
    extra = json.dumps({"firstlight_fabric": {"rails": listed}})
    assert main(["plan", "-i", str(ROOT / "inventory" / "spark4"), "-e", extra]) == 0
    assert words in " ".join(capsys.readouterr().out.split())
