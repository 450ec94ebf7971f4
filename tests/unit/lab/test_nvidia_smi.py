# SPDX-License-Identifier: Apache-2.0
"""The stand-in prints what the real nvidia-smi prints."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from firstlight_lab.captures import captures
from firstlight_lab.nvidia import known_profiles

if TYPE_CHECKING:
    from tests.unit.lab.conftest import Node

CAPTURES = Path(__file__).parents[2] / "fixtures" / "nvidia-smi" / "h200-firecracker"
# What differs between two calls of the real program, or between two machines.
VOLATILE = re.compile(
    r"\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}"
    r"|580\.[0-9]+\.0[0-9] *|GPU-[0-9a-f-]{36}|0x[0-9a-f]{16}\b|165\d{10}|\b0{13}\b"
    r"|\d+ KB/s|\d+\.\d\d W"
)


def steady(text: str) -> str:
    return VOLATILE.sub("~", text)


def capture(name: str) -> tuple[list[str], str]:
    """The arguments of a captured call and what it printed."""
    command, *lines = (CAPTURES / name).read_text().splitlines(keepends=True)
    assert lines[-1] == "rc=0\n"
    return command.split()[2:], "".join(lines[:-1])


@pytest.mark.parametrize(
    "name",
    [
        "nvidia-smi.txt",
        "q.txt",
        "query-basic.txt",
        "query-nounits.txt",
        "query-wide.txt",
        "remapped.txt",
        "topo-m.txt",
        "nvlink-status.txt",
        "nvlink-status-all.txt",
    ],
)
def test_prints_what_was_captured_on_a_real_h200(node: Node, name: str) -> None:
    node.describe("h200-sxm-1")
    arguments, expected = capture(name)
    assert steady(node.smi(*arguments)) == steady(expected)


def test_xml_has_the_captured_structure(node: Node) -> None:
    node.describe("h200-sxm-1")
    _, expected = capture("qx.txt")
    printed = node.smi("-q", "-x")

    def shape(text: str) -> list[tuple[str, str]]:
        tree = ElementTree.fromstring(text)  # the lab's own output and its own capture
        for clocks in tree.iter("supported_clocks"):
            clocks.clear()
        return [(item.tag, steady((item.text or "").strip())) for item in tree.iter() if item.tag != "supported_clocks"]

    assert shape(printed) == shape(expected)


def test_driver_version_file_has_the_captured_form(node: Node) -> None:
    text = (node.root / "run/firstlight-lab/proc-driver/nvidia/version").read_text()
    form = r"NVRM version: NVIDIA UNIX Open Kernel Module for \S+  580\.\d+\.\d+  Release Build  \(\S+\)  \n"
    assert re.match(form, text)
    assert re.match(form, capture("procversion.txt")[1])
    assert text.splitlines()[1].startswith("GCC version:  gcc version ")


def test_gb10_table_has_no_memory_and_no_power_limit(node: Node) -> None:
    node.describe("gb10")
    lines = node.smi().splitlines()
    assert lines[2] == ("| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |")
    assert lines[8:11] == [
        "|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |",
        "| N/A   36C    P8              4W /  N/A  | Not Supported          |      0%      Default |",
        "|                                         |                        |                  N/A |",
    ]
    assert {len(line) for line in lines[1:] if line} == {91}


HEADER = (
    "name, memory.total [MiB], power.limit [W], ecc.errors.uncorrected.volatile.total, mig.mode.current, compute_cap"
)


def test_gb10_fields_without_a_reading_are_bracketed(node: Node) -> None:
    node.describe("gb10")
    fields = "name,memory.total,power.limit,ecc.errors.uncorrected.volatile.total,mig.mode.current,compute_cap"
    assert node.smi(f"--query-gpu={fields}", "--format=csv").splitlines() == [
        HEADER,
        "NVIDIA GB10, [N/A], [N/A], [N/A], [N/A], 12.1",
    ]


def test_gb10_topology_shows_both_ports_twice(node: Node) -> None:
    node.describe("gb10")
    lines = node.smi("topo", "-m").splitlines()
    assert lines[0] == ("\t\x1b[4mGPU0\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m")
    assert lines[1] == "GPU0\t X \tNODE\tNODE\tNODE\tNODE\t0-19\t0\t\tN/A"
    assert lines[2] == "NIC0\tNODE\t X \tPIX\tNODE\tNODE\t\t\t\t"
    assert lines[-5:] == [
        "  NIC0: rocep1s0f0",
        "  NIC1: rocep1s0f1",
        "  NIC2: roceP2p1s0f0",
        "  NIC3: roceP2p1s0f1",
        "",
    ]


@pytest.mark.parametrize(
    ("profile", "pair", "count"),
    [
        ("h100-sxm-8", "NV18", 8),
        ("h100-sxm-4-nvswitch", "NV18", 4),
        ("h100-sxm-4-partition", "NV18", 4),
        ("h100-sxm-4", "NV6", 4),
        ("h200-sxm-8", "NV18", 8),
    ],
)
def test_nvlink_between_every_pair(node: Node, profile: str, pair: str, count: int) -> None:
    node.describe(profile)
    rows = [line.split("\t") for line in node.smi("topo", "-m").splitlines()[1 : count + 1]]
    for index, row in enumerate(rows):
        assert row[0] == f"GPU{index}"
        assert row[1 : count + 1] == [" X " if other == index else pair for other in range(count)]
    status = node.smi("nvlink", "-s").splitlines()
    assert status.count("\t Link 17: 26.562 GB/s") == count
    assert len(status) == 19 * count
    assert len(node.smi("nvlink", "--status", "-i", "1").splitlines()) == 19


@pytest.mark.parametrize("profile", known_profiles())
def test_every_profile_answers_every_call(node: Node, profile: str) -> None:
    node.describe(profile)
    count = len(node.smi("-L").splitlines())
    assert node.smi("-L").startswith("GPU 0: NVIDIA ")
    table = node.smi().splitlines()
    assert {len(line) for line in table[1:] if line} == {91}
    tree = ElementTree.fromstring(node.smi("-q", "-x"))
    assert tree.findtext("attached_gpus") == str(count)
    assert node.smi("-q").count("\n    Product Name ") == count
    fields = (
        "index,name,uuid,pci.bus_id,driver_version,memory.total,memory.used,memory.free,power.limit,ecc.mode.current,"
        "ecc.errors.uncorrected.volatile.total,mig.mode.current,persistence_mode,compute_mode,compute_cap,"
        "pcie.link.gen.current,pcie.link.width.current,clocks_event_reasons.active,remapped_rows.pending,"
        "temperature.gpu,utilization.gpu,gpu_recovery_action,fabric.state"
    )
    rows = list(csv.reader(io.StringIO(node.smi(f"--query-gpu={fields}", "--format=csv,noheader,nounits"))))
    assert [row[0] for row in rows] == [str(index) for index in range(count)]
    assert {len(row) for row in rows} == {len(fields.split(","))}
    assert len({row[2] for row in rows}) == count
    node.smi("nvlink", "-s")
    node.smi("topo", "-m")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--query-gpu=index,bogus", "--format=csv"], 2, 'Field "bogus" is not a valid field to query.\n\n'),
        (["--query-gpu=name", "--format=xml"], 2, "Format modifier is not recognized.\n"),
        (["-i", "7"], 6, "No devices were found\n"),
        (["nvlink", "-s", "-i", "7"], 6, "No devices were found\n"),
        (["--bogus"], 255, "ERROR: Option --bogus is not recognized. Please run 'nvidia-smi -h'.\n\n"),
        (["topo", "--bogus"], 2, 'Option "--bogus" is not recognized.\n'),
    ],
)
def test_wrong_calls_end_as_on_a_real_machine(node: Node, arguments: list[str], code: int, text: str) -> None:
    node.describe("h200-sxm-1")
    done = node.run("/usr/bin/nvidia-smi", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (code, text, "")


def test_sections_limit_the_log(node: Node) -> None:
    node.describe("h200-sxm-1")
    log = node.smi("-q", "-d", "MEMORY")
    assert "        Total                                          : 143771 MiB\n" in log
    assert "Product Name" not in log


def test_version(node: Node) -> None:
    node.describe("gb10")
    assert node.smi("--version").splitlines() == [
        "NVIDIA-SMI version  : 580.95.05",
        "NVML version        : 580.95",
        "DRIVER version      : 580.95.05",
        "CUDA Version        : 13.0",
    ]


def test_hosts_have_different_gpus_and_keep_them(node: Node) -> None:
    node.describe("gb10")
    first = node.smi("-L")
    assert node.smi("-L") == first
    path = node.root / "etc/firstlight-lab/machine.json"
    path.write_text(path.read_text().replace("spark0", "spark1"))
    assert node.smi("-L") != first


def test_driver_610_has_other_names_for_its_versions() -> None:
    texts = captures("h100-sxm-4", driver="610.57.04")
    assert "KMD Version: 610.57.04     CUDA UMD Version: 13.0     |" in texts["smi-table"].text
    assert 'DRIVER version      : Deprecated, see "KMD version" instead\nKMD version         : 610.57.04' in (
        texts["smi-version"].text
    )
    assert "Driver Version" not in texts["smi-q"].text
