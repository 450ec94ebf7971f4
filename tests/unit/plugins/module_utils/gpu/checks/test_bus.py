# SPDX-License-Identifier: Apache-2.0
"""The PCI bus beside the driver: who is missing, how many NVSwitches there are, and whether GPUDirect RDMA is there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.bus import check_bus
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.kinds import read
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.lspci import last_line, parse_lspci
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.modules import parse_modules

from firstlight_lab.captures import captures

from ..damage import hardware

H8, PCIE, SPARK = hardware("h100-sxm-8"), hardware("h100-pcie"), hardware("gb10")
RDMA = replace(H8, fabric={"rdma": True})
LISTED = captures("h100-sxm-8")["lspci"].text


def checks(expected: Expected, **texts: str) -> dict[str, dict[str, Any]]:
    kinds = {"proc_version": "proc-version", "proc_gpus": "proc-version", "query_gpu": "query-gpu"}
    readings = [read(kinds.get(name, name), text, name) for name, text in texts.items()]
    return {one["id"]: one for one in check_bus(readings, expected)}


def bus(expected: Expected, **texts: str) -> tuple[str, str]:
    found = checks(expected, **texts)["gpu.bus"]
    return found["verdict"], found["observed"]


def test_all_that_the_bus_has_answer() -> None:
    texts = captures("h100-sxm-8")
    assert bus(H8, lspci=LISTED, query_gpu=texts["query-gpu"].text) == ("pass", "8 GPUs on the PCI bus")
    assert bus(H8, lspci=LISTED, proc_gpus=texts["proc-gpus"].text)[0] == "pass"
    assert bus(H8, lspci=LISTED)[0] == "pass"
    assert checks(H8, lspci=LISTED)["gpu.nvswitches"]["observed"] == "4"
    spark = captures("gb10")
    assert bus(SPARK, lspci=spark["lspci"].text, query_gpu=spark["query-gpu"].text)[0] == "pass"


@pytest.mark.parametrize("name", ["query-gpu", "smi-q", "smi-xml", "smi-table", "proc-gpus"])
def test_a_gpu_that_the_driver_lacks_is_named_by_its_address(name: str) -> None:
    one = captures("h100-sxm-8", ("gpu_missing:4",))[name]
    readings = [read("lspci", LISTED, "lspci"), read(one.kind, one.text, name)]
    (found,) = [check for check in check_bus(readings, H8) if check["id"] == "gpu.bus"]
    assert (found["verdict"], found["observed"]) == (
        "fail",
        "8 GPUs on the PCI bus, 7 answer: 0000:9d:00.0 is missing",
    )


def test_a_listing_that_was_cut_off_accuses_nobody() -> None:
    query = captures("h100-sxm-8")["query-gpu"].text
    cut = "\n".join(query.splitlines()[:5]) + "\n5, NVIDIA H1"
    assert bus(H8, lspci=LISTED, query_gpu=cut)[0] == "could_not_check"
    fewer = "\n".join(line for line in LISTED.splitlines() if not line.startswith("0000:df"))
    assert bus(H8, lspci=fewer, query_gpu=query)[0] == "could_not_check"
    whole = f"{LISTED}{last_line(40, 12)}\n"
    assert bus(H8, lspci=whole)[0] == "pass"
    assert bus(H8, lspci=f"{fewer}\n{last_line(40, 12)}\n")[0] == "could_not_check"
    assert bus(H8, lspci=LISTED, query_gpu="NVIDIA-SMI has failed because it couldn't communicate\n")[0] == (
        "could_not_check"
    )


def test_a_bus_without_its_gpus() -> None:
    fewer = "\n".join(line for line in LISTED.splitlines() if not line.startswith("0000:df"))
    assert bus(H8, lspci=fewer) == ("fail", "7 GPUs on the PCI bus")
    assert bus(H8, lspci=f"{last_line(12, 0)}\n") == ("fail", "0 GPUs on the PCI bus")
    assert bus(H8, lspci="$ lspci -d 10de: | grep 3D\n" + fewer)[0] == "could_not_check"
    gone = LISTED.replace("10de:2330 (rev a1)", "10de:2330 (rev ff)", 1)
    assert bus(H8, lspci=gone) == ("fail", "0000:1b:00.0 no longer answers on the bus (revision ff)")
    assert bus(H8, lspci="")[0] == bus(H8, lspci="what is this\n")[0] == "could_not_check"


def test_nvswitches_are_wanted_where_the_profile_has_them() -> None:
    def found(expected: Expected, text: str) -> str:
        return str(checks(expected, lspci=text)["gpu.nvswitches"]["verdict"])

    three = "\n".join(line for line in LISTED.splitlines() if not line.startswith("0000:05"))
    assert [found(H8, LISTED), found(H8, three), found(H8, ""), found(PCIE, LISTED)] == [
        *("pass", "fail", "could_not_check", "not_applicable")
    ]
    assert found(hardware("h100-sxm-4-nvswitch"), three) == "pass"


def test_every_form_of_lspci() -> None:
    plain = (
        "1b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"
        "05:00.0 Bridge: NVIDIA Corporation Device 22a3\n"
    )
    named = (
        "0000:1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n"
        "0000:05:00.0 Bridge [0680]: NVIDIA Corporation GH100 [H100 NVSwitch] [10de:22a3] (rev a1)\n"
        "0000:c1:00.0 Ethernet controller [0200]: Mellanox Technologies MT2910 [15b3:1021]\n"
    )
    numbers = "1b:00.0 0302: 10de:2330 (rev a1)\n05:00.0 0680: 10de:22a3 (rev a1)\n"
    for text in (plain, named, numbers):
        data, problems = parse_lspci(text)
        assert problems == []
        assert [one["bus"] for one in data["gpus"]] == ["00000000:1B:00.0"]
        assert [one["bus"] for one in data["nvswitches"]] == ["00000000:05:00.0"]
    assert [one["bus"] for one in parse_lspci("000f:01:00.0 0300: 10de:2e12 (rev a1)\n")[0]["gpus"]] == [
        "0000000F:01:00.0"
    ]


OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.09  Release Build\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.126.09  Release Build\n"
WITHOUT = "nvidia 14299136 - - Live\nib_uverbs 200704 2 - Live\n"


@pytest.mark.parametrize(
    ("expected", "text", "driver", "verdict"),
    [
        (H8, "nvidia 1000 1\n", OPEN, "not_applicable"),
        (H8, "", OPEN, "not_applicable"),
        (SPARK, WITHOUT, OPEN, "not_applicable"),
        (RDMA, captures("h100-sxm-8")["modules"].text, CLOSED, "pass"),
        (RDMA, f"Linux 6.8.0-58-generic\n{WITHOUT}", OPEN, "pass"),
        (RDMA, f"Linux 5.4.0-58-generic\n{WITHOUT}", OPEN, "fail"),
        (RDMA, f"Linux 6.8.0-58-generic\n{WITHOUT}", CLOSED, "fail"),
        (RDMA, "Linux 6.8.0-58-generic\nnvidia 14299136 - - Live\n", OPEN, "fail"),
        (RDMA, WITHOUT, OPEN, "could_not_check"),
        (RDMA, f"Linux 6.8.0\n{WITHOUT}", "", "could_not_check"),
        (RDMA, "", OPEN, "could_not_check"),
        (RDMA, f"{WITHOUT}?? cut", CLOSED, "could_not_check"),
    ],
)
def test_gpudirect_rdma(expected: Expected, text: str, driver: str, verdict: str) -> None:
    found = checks(expected, modules=text, proc_version=driver)["gpu.peermem"]
    assert found["verdict"] == verdict
    assert (found["command"] == "modprobe nvidia-peermem") == (verdict == "fail")


def test_modules_in_both_forms() -> None:
    data, problems = parse_modules("Linux host0 6.8.0-58-generic #60 SMP\nModule Size Used by\nnvidia-drm 1000 0\n")
    assert (data, problems) == ({"modules": ["nvidia_drm"], "kernel": "6.8.0-58-generic"}, [])
