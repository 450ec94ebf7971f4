# SPDX-License-Identifier: Apache-2.0
"""The matrix of `nvidia-smi topo -m`, as drivers print it and with all that happens to it on the way."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.topo import parse_topo
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
"""
NVLINK_LEGEND = LEGEND + "  NV#  = Connection traversing a bonded set of # NVLinks\n"


def matrix(gpus: int = 4, nics: int = 0, word: str = "NV18", affinity: bool = True, legend: str = "") -> str:
    """A healthy matrix in the tool's own form: tabs, and the empty cell that it has before the last column."""
    names = [f"GPU{number}" for number in range(gpus)] + [f"NIC{number}" for number in range(nics)]
    lines = ["\t" + "\t".join([*names, *(["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"] if affinity else [])])]
    for place, name in enumerate(names):
        cells = []
        for other, peer in enumerate(names):
            same = name[3:] == peer[3:]
            nic_word = "PIX" if same else "SYS"
            between = word if name.startswith("GPU") and peer.startswith("GPU") else nic_word
            cells.append(" X " if place == other else between)
        tail = ["0-15,32-47", "0", "", "N/A"] if name.startswith("GPU") else ["", "", "", ""]
        lines.append("\t".join([name, *cells, *(tail if affinity else [])]))
    return "\n".join(lines) + "\n" + legend


HEALTHY = matrix(8, 10, legend=NVLINK_LEGEND)


def test_everything_of_a_healthy_matrix_is_read() -> None:
    data, problems = parse_topo(
        matrix(2, 2, legend=NVLINK_LEGEND + "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: rocep1s0f1\n")
    )
    assert problems == []
    assert data == {
        "gpus": ["GPU0", "GPU1"],
        "nics": ["NIC0", "NIC1"],
        "cells": {
            "GPU0": {"GPU1": "NV18", "NIC0": "PIX", "NIC1": "SYS"},
            "GPU1": {"GPU0": "NV18", "NIC0": "SYS", "NIC1": "PIX"},
            "NIC0": {"GPU0": "PIX", "GPU1": "SYS", "NIC1": "SYS"},
            "NIC1": {"GPU0": "SYS", "GPU1": "PIX", "NIC0": "SYS"},
        },
        "affinity": {gpu: {"cpus": "0-15,32-47", "numa": "0"} for gpu in ("GPU0", "GPU1")},
        "nic_names": {"NIC0": "mlx5_0", "NIC1": "rocep1s0f1"},
        "gpus_complete": True,
        "complete": True,
        "pci_only": False,
    }
    json.dumps(data)


UNTIDY: dict[str, Callable[[str], str]] = {
    "underlined": lambda text: text.replace("\tGPU0", "\t\x1b[4mGPU0", 1).replace(
        "GPU NUMA ID", "GPU NUMA ID\x1b[0m", 1
    ),
    "escape character lost": lambda text: "\t[4m" + text[1:].replace("GPU NUMA ID", "GPU NUMA ID[0m", 1),
    "escape spelled out": lambda text: "\t^[[4m" + text[1:].replace("GPU NUMA ID", "GPU NUMA ID^[[0m", 1),
    "header without its tab": lambda text: text[1:],
    "stripped": lambda text: text.strip(),
    "spaces for tabs": lambda text: text.expandtabs(8),
    "one space for tabs": lambda text: text.replace("\t", " "),
    "two tabs for one": lambda text: text.replace("\t", "\t\t"),
    "lost gaps": lambda text: text.replace("PIX\tSYS", "PIXSYS").replace(" X \tSYS", " X SYS"),
    "lost gaps between links": lambda text: text.replace("NV18\tNV18", "NV18NV18"),
    "lost gap after a name": lambda text: text.replace("GPU3\tNV18", "GPU3NV18").replace("NIC5\tSYS", "NIC5SYS"),
    "lost gap before an affinity": lambda text: text.replace("SYS\t0-15", "SYS0-15"),
    "jammed header": lambda text: text.replace("GPU1\tGPU2\tGPU3", "GPU1GPU2GPU3", 1).replace(
        "GPU7\tNIC0", "GPU7NIC0", 1
    ),
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "empty lines between": lambda text: text.replace("\n", "\n\n"),
    "in a fence, after its command": lambda text: f"```\nroot@h1:~# nvidia-smi topo -m\n{text}```\nroot@h1:~# exit\n",
    "in a reply": lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
    "in a wiki's table": lambda text: "\n".join(
        "| " + line.replace("\t", " | ") + " |" if "\t" in line else line for line in text.split("\n")
    ),
    "in a comment": lambda text: "".join(f"# {line}\n" for line in text.splitlines()),
    "where it comes from": lambda text: f"# source: somebody's GPU0 GPU1 machine\n{text}rc=0\n",
    "printed twice": lambda text: text + text,
    "without a legend": lambda text: text[: text.index("Legend")],
    "with other output": lambda text: (
        f"GPU 0: NVIDIA H100 80GB HBM3\n\t Link 0: 26.562 GB/s\n{text}\nulimit soft: 65536\n"
    ),
}


@pytest.mark.parametrize("way", UNTIDY)
def test_untidy_text_is_read_like_tidy(way: str) -> None:
    data, problems = parse_topo(UNTIDY[way](HEALTHY))
    tidy, _ = parse_topo(HEALTHY)
    assert problems == []
    assert data["complete"]
    assert data["cells"] == tidy["cells"]
    assert data["gpus"] == [f"GPU{number}" for number in range(8)]


def test_a_folded_line_is_put_together() -> None:
    folded = "\n".join(
        line[:40] + "\n" + line[40:].lstrip() if len(line) > 40 and line[:3] in ("GPU", "NIC", "   ") else line
        for line in matrix(4, 4).expandtabs(8).split("\n")
    )
    data, problems = parse_topo(folded)
    assert problems == []
    assert data["complete"]


def test_columns_in_another_order_are_read_by_the_header() -> None:
    text = "\tNIC0\tGPU1\tGPU0\nGPU0\tPIX\tNV6\t X\nGPU1\tSYS\t X \tNV6\nNIC0\t X \tSYS\tPIX\n"
    data, problems = parse_topo(text)
    assert problems == []
    assert data["cells"]["GPU0"] == {"NIC0": "PIX", "GPU1": "NV6"}
    assert data["gpus"] == ["GPU0", "GPU1"]


def test_old_drivers_name_the_cards_and_say_soc() -> None:
    text = "\tGPU0\tGPU1\tmlx5_1\tmlx5_10\tCPU Affinity\nGPU0\t X \tPHB\tSOC\tPHB\t0-7\nGPU1\tPHB\t X \tSOC\tPHB\t0-7\n"
    text += "mlx5_1\tSOC\tSOC\t X \tSOC\nmlx5_10\tPHB\tPHB\tSOC\t X\n\nLegend:\n  SOC = Path traverses a link\n"
    text += "  PIX = Path traverses a PCIe internal switch\n"
    data, problems = parse_topo(text)
    assert problems == []
    assert data["complete"]
    assert data["nics"] == ["mlx5_1", "mlx5_10"]
    assert data["nic_names"]["mlx5_10"] == "mlx5_10"
    assert data["cells"]["GPU0"]["mlx5_1"] == "SYS"
    assert not data["pci_only"]


@pytest.mark.parametrize("tail", ["\t\t\t\tN/A", "\t\t0\t\tN/A", "\t5\t", " N/A", "\tN/A\tN/A\t\tN/A", ""])
def test_affinities_that_are_not_told(tail: str) -> None:
    data, problems = parse_topo(f"\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X {tail}\n")
    assert problems == []
    assert data["gpus_complete"]
    assert data["affinity"]["GPU0"]["cpus"] in (None, "5")


# --- what must not be believed ---------------------------------------------------------------------------------------

BAD = {
    "a row is missing": ("\nGPU2\t", "\nGPX\t", "no row of GPU2"),
    "a cell is missing": ("GPU2\tNV18\tNV18\t X \tNV18", "GPU2\tNV18\tNV18\t X ", "cells that can be read"),
    "a cell is empty": ("GPU2\tNV18\tNV18\t X \tNV18", "GPU2\tNV18\tNV18\t X \t", "cells that can be read"),
    "a cell too many": ("GPU2\tNV18", "GPU2\tNV18\tNV18", "cells that can be read"),
    "a word nobody knows": ("GPU2\tNV18", "GPU2\tERR!", "cells that can be read"),
    "a link count cut short": ("GPU2\tNV18", "GPU2\tNV1", "GPU0 to GPU2 is NV18, but GPU2 to GPU0 is NV1"),
    "no link at all": ("GPU2\tNV18", "GPU2\tNV0", "cells that can be read"),
    "X at another place": ("GPU2\tNV18\tNV18\t X ", "GPU2\tNV18\t X \tNV18", "has its X at GPU1"),
    "a column is missing": ("\tGPU2\tGPU3\tCPU", "\tGPU3\tCPU", "numbered from GPU0 without a gap"),
    "a column twice": ("\tGPU2\tGPU3\tCPU", "\tGPU3\tGPU3\tCPU", "a column twice"),
    "a row without a column": ("GPU3\tNV18", "GPU9\tNV18", "a row of GPU9, which has no column"),
    "one direction differs": ("GPU2\tNV18", "GPU2\tSYS", "GPU0 to GPU2 is NV18, but GPU2 to GPU0 is SYS"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_matrix_with_a_fault_in_it_is_not_complete(name: str) -> None:
    old, new, problem = BAD[name]
    text = matrix(4)
    assert old in text
    data, problems = parse_topo(text.replace(old, new, 1))
    assert not data["gpus_complete"]
    assert not data["complete"]
    assert any(problem in one for one in problems), problems


def test_a_link_count_that_ran_into_an_affinity_is_not_guessed() -> None:
    data, problems = parse_topo("GPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV60-11\nGPU1\tNV6\t X \t0-11\n")
    assert data["cells"]["GPU0"] == {}
    assert "NV60-11" in problems[0]
    assert not data["gpus_complete"]


def test_network_cards_cut_off_leave_the_gpus_whole() -> None:
    data, problems = parse_topo(HEALTHY[: HEALTHY.index("NIC3\t", 200)])
    assert data["gpus_complete"]
    assert not data["complete"]
    assert "no row of NIC3" in problems[0]


def test_two_hosts_in_one_text_are_not_one() -> None:
    data, problems = parse_topo(matrix(4) + matrix(4, word="NV17"))
    assert not data["gpus_complete"]
    assert "2 matrices that differ" in problems[0]


def test_two_rows_of_one_gpu_that_differ() -> None:
    data, problems = parse_topo(matrix(2, affinity=False) + "GPU1\tSYS\t X \n")
    assert not data["gpus_complete"]
    assert "two rows of GPU1" in problems[0]


def test_an_error_beside_the_matrix_is_told() -> None:
    error = "Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error"
    data, problems = parse_topo(f"{error}\n{matrix(7)}")
    assert error in problems[0]
    assert not data["complete"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the output is empty"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "NVIDIA-SMI has failed"),
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95", "mismatch"),
        ("bash: nvidia-smi: command not found", "command not found"),
        ("No devices were found", "No devices were found"),
        ("GPU0\t X \tNV18\nGPU1\tNV18\t X \n", "without the header"),
        ("hello", 'no matrix of GPUs in "hello"'),
        (" \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n", "topo -p2p"),
        ("$ nvidia-smi topo -p2p n\n \tGPU0\t\n GPU0\tX\t\n", "topo -p2p"),
    ],
)
def test_what_is_no_matrix_is_quoted(text: str, said: str) -> None:
    data, problems = parse_topo(text)
    assert not data.get("gpus")
    assert not data.get("complete")
    assert said in problems[0]


def test_what_the_driver_complains_of_is_an_answer() -> None:
    assert parse_topo("No devices were found\n")[0]["trouble"] == ["No devices were found"]
    assert parse_topo("hello")[0] == {}


@pytest.mark.parametrize(
    "text", [matrix(2, word="SYS", legend=LEGEND), "$ nvidia-smi topo -mp\n\n" + matrix(2, word="SYS")]
)
def test_the_form_without_nvlink_is_known(text: str) -> None:
    assert parse_topo(text)[0]["pci_only"]
    both = parse_topo(text + "\n$ nvidia-smi topo -m\n" + matrix(2, legend=NVLINK_LEGEND))[0]
    assert not both["pci_only"]
    assert both["cells"]["GPU0"]["GPU1"] == "NV18"


def test_every_cut_of_a_matrix_is_whole_or_not_complete() -> None:
    text = matrix(3, 2, legend=NVLINK_LEGEND)
    whole, _ = parse_topo(text)
    last_gpu_cell = text.index(" X ", text.index("GPU2\t", 60)) + 2
    for end in range(len(text)):
        data, problems = parse_topo(text[:end])
        if data.get("gpus_complete"):
            assert data["gpus"] == whole["gpus"]
            assert end >= last_gpu_cell
        else:
            assert problems
        if data.get("complete"):
            assert data["cells"] == whole["cells"]


@examples(60)
@given(st.integers(min_value=0), st.sampled_from(["drop", "swap", "insert", "lines"]))
def test_damage_never_makes_another_complete_matrix(seed: int, how: str) -> None:
    chance = random.Random(seed)
    text = matrix(4, 2, word="NV17")
    place = chance.randrange(len(text))
    if how == "drop":
        text = text[:place] + text[place + chance.randrange(1, 30) :]
    elif how == "swap":
        text = text[:place] + chance.choice("X1789\t \x1b\x00PNVGSU") + text[place + 1 :]
    elif how == "insert":
        text = text[:place] + "".join(chance.choices("X18\t NVGPU\n\x1b[m", k=5)) + text[place:]
    else:
        lines = text.split("\n")
        chance.shuffle(lines)
        text = "\n".join(lines)
    data, _ = parse_topo(text)
    if data.get("gpus_complete") and len(data["gpus"]) == 4:
        between = {data["cells"][one][other] for one in data["gpus"] for other in data["gpus"] if one != other}
        assert between == {"NV17"}


@given(st.text(alphabet=st.sampled_from("GPUNIC0123 \t\nXVSYSODEHB|_-,:[m\x1b"), max_size=300))
def test_any_text_gives_an_answer(text: str) -> None:
    data, problems = parse_topo(text)
    json.dumps([data, problems])
    assert problems or data["complete"]
