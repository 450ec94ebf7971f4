# SPDX-License-Identifier: Apache-2.0
"""The matrix evaluated by profile: GPUs, the ways between them, and the network card that each has near it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.topology import check_topology
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import PCIE as WORDS
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import Reading
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.topo import parse_topo
from hypothesis import given
from hypothesis import strategies as st

H100 = "NVIDIA H100 80GB HBM3"
SWITCHED = Expected("h100-sxm-8", 8, H100, pairs=("NV18",), links_per_gpu=18, nvswitch=True)
SLICE = Expected("h100-sxm-4-nvswitch", 4, H100, pairs=("NV18",), links_per_gpu=18, nvswitch=True)
MESH = Expected("h100-sxm-4", 4, H100, pairs=("NV6",), links_per_gpu=18)
PCIE = Expected("h100-pcie", 2, "NVIDIA H100 PCIe", pairs=WORDS, links_per_gpu=0)
ALONE = Expected("h200-sxm-1", 1, "NVIDIA H200", links_per_gpu=0)
PORTS = {"rdma": True, "ports": [{"port": f"port{number}"} for number in range(4)]}
GB10 = Expected("gb10", 1, "NVIDIA GB10", links_per_gpu=0, unified=True, fabric=PORTS)

Word = Callable[[str, str], str]


def text_of(gpus: int, word: str | Word = "NV18", nics: int = 0, nic: Word | None = None) -> str:
    """A matrix with one word between GPUs, or one for each pair; `nic` gives the word where a card takes part."""
    names = [f"GPU{number}" for number in range(gpus)] + [f"NIC{number}" for number in range(nics)]
    lines = ["\t" + "\t".join([*names, "CPU Affinity"])]
    for one in names:
        cells = []
        for other in names:
            first, second = sorted((one, other))
            if one == other:
                cells.append(" X ")
            elif second.startswith("NIC"):
                cells.append(nic(first, second) if nic else "SYS")
            else:
                cells.append(word if isinstance(word, str) else word(first, second))
        lines.append("\t".join([one, *cells, "0-15" if one.startswith("GPU") else ""]))
    return "\n".join(lines) + "\n"


def checked(text: str, expected: Expected) -> dict[str, dict[str, Any]]:
    data, problems = parse_topo(text)
    checks = check_topology([Reading("topo", data, tuple(problems), "topo.txt", "h1")], expected)
    assert len({one["id"] for one in checks}) == len(checks)
    assert all(one["source"] == "topo.txt" and one["host"] == "h1" for one in checks)
    return {one["id"]: one for one in checks}


def verdicts(checks: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {name: str(one["verdict"]) for name, one in checks.items()}


def own_card(one: str, other: str) -> str:
    return "PIX" if one[3:] == other[3:] else "SYS"


@pytest.mark.parametrize(
    ("text", "expected", "observed"),
    [
        (text_of(8), SWITCHED, "NV18 between all 28 pairs of GPUs"),
        (text_of(4), SLICE, "NV18 between all 6 pairs of GPUs"),
        (text_of(4, "NV6"), MESH, "NV6 between all 6 pairs of GPUs"),
        (text_of(2, "PHB"), PCIE, "PCIe only, no NVLink: tensor parallel will be slow; 1 pair PHB"),
    ],
)
def test_a_healthy_machine_is_right(text: str, expected: Expected, observed: str) -> None:
    checks = checked(text, expected)
    assert verdicts(checks) == {"gpu.count": "pass", "topo.pairs": "pass", "topo.nics": "not_applicable"}
    assert checks["topo.pairs"]["observed"].startswith(observed)
    assert not any("marks" in one for one in checks.values())


@pytest.mark.parametrize("word", WORDS)
def test_every_way_over_pcie_is_explained(word: str) -> None:
    observed = checked(text_of(2, word), PCIE)["topo.pairs"]["observed"]
    assert f"1 pair {word} (" in observed
    assert "not known" not in observed


def test_one_gpu_has_no_pairs() -> None:
    expected = {"gpu.count": "pass", "topo.pairs": "not_applicable", "topo.nics": "not_applicable"}
    assert verdicts(checked(text_of(1), ALONE)) == expected


def test_pcie_on_a_board_with_nvswitch_is_wrong_with_its_causes() -> None:
    one = checked(text_of(8, "SYS"), SWITCHED)["topo.pairs"]
    assert one["verdict"] == "fail"
    assert one["observed"] == (
        "PCIe only, no NVLink: tensor parallel will be slow; "
        "SYS (between processors or NUMA nodes) between every two GPUs"
    )
    for cause in ("fabric manager", "MIG", "virtual machine", "h100-pcie"):
        assert cause in one["remedy"]
    assert len(one["marks"]) == 28
    assert "fabric manager" not in checked(text_of(4, "NODE"), MESH)["topo.pairs"]["remedy"]


@pytest.mark.parametrize(
    ("text", "expected", "like"),
    [
        (text_of(4, "NV6"), SLICE, "a board of four H100 without NVSwitch (h100-sxm-4)"),
        (text_of(4, "NV18"), MESH, "h100-sxm-4-nvswitch"),
        (text_of(8, "NV12"), SWITCHED, "A100 GPUs behind NVSwitch"),
        (text_of(2, "NV12"), PCIE, "with a bridge"),
    ],
)
def test_another_board_is_said_to_look_like_it(text: str, expected: Expected, like: str) -> None:
    one = checked(text, expected)["topo.pairs"]
    assert one["verdict"] == "fail"
    assert like in one["remedy"]


def test_a_gpu_that_lost_links_is_named_once() -> None:
    one = checked(text_of(8, lambda a, b: "NV17" if "GPU3" in (a, b) else "NV18"), SWITCHED)["topo.pairs"]
    assert one["verdict"] == "fail"
    assert one["observed"] == "GPU3 to every other GPU: NV17"
    assert "nvlink -s -i 3" in one["remedy"]
    assert len(one["marks"]) == 7
    assert all("GPU3" in pair for pair in one["marks"])


def test_a_pair_that_lost_links_is_named() -> None:
    one = checked(text_of(4, lambda a, b: "NV5" if (a, b) == ("GPU0", "GPU2") else "NV6"), MESH)["topo.pairs"]
    assert one["observed"] == "GPU0 to GPU2: NV5"
    assert one["marks"] == [["GPU0", "GPU2"]]


def test_many_wrong_pairs_are_counted() -> None:
    one = checked(text_of(8, lambda a, b: "SYS" if (int(a[3:]) < 4) != (int(b[3:]) < 4) else "NV18"), SWITCHED)
    assert one["topo.pairs"]["observed"].endswith("and 10 more pairs")


# --- the number of GPUs ----------------------------------------------------------------------------------------------


def test_a_gpu_that_is_missing_fails_the_count_and_leaves_the_pairs_open() -> None:
    checks = checked(text_of(7), SWITCHED)
    assert checks["gpu.count"]["verdict"] == "fail"
    assert checks["gpu.count"]["observed"] == "7 GPUs"
    assert checks["topo.pairs"]["verdict"] == "could_not_check"
    assert "7 of 8 GPUs" in checks["topo.pairs"]["observed"]


def test_more_gpus_are_another_profile() -> None:
    checks = checked(text_of(8), SLICE)
    assert checks["gpu.count"]["verdict"] == "fail"
    assert "profile" in checks["gpu.count"]["remedy"]
    assert verdicts(checked(text_of(2), ALONE))["topo.pairs"] == "could_not_check"


# --- what cannot be told ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "no matrix here", "GPU0\t X \tNV18\nGPU1\tNV18\t X \n"])
def test_what_cannot_be_read_is_never_evaluated(text: str) -> None:
    assert set(verdicts(checked(text, SWITCHED)).values()) == {"could_not_check"}
    assert set(verdicts(checked(text, GB10)).values()) == {"could_not_check"}


def test_a_driver_that_complains_has_answered_nothing_else() -> None:
    checks = checked("Failed to initialize NVML: Driver/library version mismatch\n", SWITCHED)
    assert verdicts(checks) == {
        "gpu.answer": "fail",
        "gpu.count": "could_not_check",
        "topo.pairs": "could_not_check",
    }
    assert "reboot" in checks["gpu.answer"]["remedy"]


def test_the_form_without_nvlink_tells_nothing_of_pairs() -> None:
    checks = checked("$ nvidia-smi topo -mp\n" + text_of(8, "SYS"), SWITCHED)
    assert verdicts(checks) == {"gpu.count": "pass", "topo.pairs": "could_not_check", "topo.nics": "not_applicable"}
    assert checks["topo.pairs"]["remedy"] == "capture `nvidia-smi topo -m`"


def test_directions_that_differ_prove_nothing() -> None:
    text = text_of(4).replace("GPU2\tNV18", "GPU2\tNV17", 1)
    checks = checked(text, SLICE)
    assert checks["topo.pairs"]["verdict"] == "could_not_check"
    assert "GPU0 to GPU2 is NV18, but GPU2 to GPU0 is NV17" in checks["topo.pairs"]["observed"]
    assert checks["topo.pairs"]["marks"] == [["GPU0", "GPU2"]]


def test_a_wrong_pair_is_wrong_also_where_the_end_is_cut_off() -> None:
    text = text_of(8, "SYS")
    checks = checked(text[: text.index("GPU5\t", 80)], SWITCHED)
    assert verdicts(checks)["topo.pairs"] == "fail"
    assert verdicts(checks)["gpu.count"] == "could_not_check"


@given(st.data())
def test_a_fault_does_not_pass_whatever_is_cut_out(data: st.DataObject) -> None:
    text = text_of(4, lambda a, b: "NV17" if (a, b) == ("GPU1", "GPU3") else "NV18", nics=2, nic=own_card)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert verdicts(checked(text[:start] + text[end:], SLICE)).get("topo.pairs") != "pass"


# --- the network cards -----------------------------------------------------------------------------------------------


def test_a_card_for_every_gpu_is_right() -> None:
    assert verdicts(checked(text_of(8, nics=10, nic=own_card), SWITCHED))["topo.nics"] == "pass"
    shared = checked(text_of(8, nics=4, nic=lambda a, b: "PXB" if int(a[3:]) // 2 == int(b[3:]) else "NODE"), SWITCHED)
    assert verdicts(shared)["topo.nics"] == "pass"


def test_a_gpu_whose_card_is_gone_is_named() -> None:
    one = checked(text_of(8, nics=7, nic=own_card), SWITCHED)["topo.nics"]
    assert one["verdict"] == "fail"
    assert one["observed"] == "GPU7 of 8 GPUs without one, 7 listed"
    assert one["marks"] == [["GPU7", f"NIC{number}"] for number in range(7)]


def test_cards_that_are_near_no_gpu_are_not_evaluated() -> None:
    assert verdicts(checked(text_of(8, nics=1), SWITCHED))["topo.nics"] == "not_applicable"
    assert verdicts(checked(text_of(8, nics=2, nic=own_card), SWITCHED))["topo.nics"] == "not_applicable"


def test_cards_of_fewer_gpus_or_cut_off_are_left_open() -> None:
    assert verdicts(checked(text_of(7, nics=8, nic=own_card), SWITCHED))["topo.nics"] == "could_not_check"
    text = text_of(8, nics=8, nic=own_card)
    cut = checked(text[: text.index("\nNIC4\t")], SWITCHED)
    assert verdicts(cut) == {"gpu.count": "pass", "topo.pairs": "pass", "topo.nics": "could_not_check"}


def twin(one: str, other: str) -> str:
    both = one.startswith("NIC") and int(one[3:]) // 2 == int(other[3:]) // 2
    return "PIX" if both else "NODE"


def test_the_ports_of_a_spark_are_twins() -> None:
    expected = {"gpu.count": "pass", "topo.pairs": "not_applicable", "topo.nics": "pass"}
    assert verdicts(checked(text_of(1, nics=4, nic=twin), GB10)) == expected


@pytest.mark.parametrize(
    ("text", "verdict", "said"),
    [
        (text_of(1, nics=2, nic=twin), "fail", "2 ports"),
        (text_of(1, nics=4, nic=lambda *_: "NODE"), "fail", "NIC0 has no twin at PIX"),
        (
            text_of(1, nics=4, nic=lambda a, b: "SYS" if "GPU0" in (a, b) else twin(a, b)),
            "fail",
            "NIC0 is SYS from GPU0",
        ),
        (text_of(1), "could_not_check", "no RDMA network card is listed"),
        (text_of(1, nics=4, nic=twin).rpartition("NIC2\t")[0], "could_not_check", "no row of NIC2"),
        (text_of(1, nics=1, nic=twin) + "NIC Legend:\n  NIC0: mlx5_bond_0\n", "could_not_check", "bond"),
    ],
)
def test_other_ports_of_a_spark(text: str, verdict: str, said: str) -> None:
    one = checked(text, GB10)["topo.nics"]
    assert one["verdict"] == verdict
    assert said in one["observed"]
