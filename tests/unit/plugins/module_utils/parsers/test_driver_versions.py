# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.proc_version import parse_proc_version
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.smi_version import parse_smi_version
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

OLD = (
    "NVIDIA-SMI version  : 590.48.01\nNVML version        : 590.48\n"
    "DRIVER version      : 590.48.01\nCUDA Version        : 13.1\n"
)
NEW = (
    "NVIDIA-SMI version  : 610.57.04\nNVML version        : 610.57\n"
    'DRIVER version      : Deprecated, see "KMD version" instead\n'
    'CUDA version        : Deprecated, see "CUDA UMD version" instead\n'
    "KMD version         : 610.57.04\nCUDA UMD version    : 13.3\n"
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (OLD, ("590.48.01", "590.48", "590.48.01", "13.1")),
        (NEW, ("610.57.04", "610.57", "610.57.04", "13.3")),
        ("NVIDIA-SMI version  : 610.88\nDRIVER version : Deprecated, see KMD\n", ("610.88", None, None, None)),
    ],
)
def test_versions_under_old_and_new_names(text: str, told: tuple[str | None, ...]) -> None:
    data, problems = parse_smi_version(text)
    assert tuple(data[name] for name in ("tool", "library", "driver", "cuda")) == told
    assert not problems


def test_a_mismatch_tells_the_library() -> None:
    data, _ = parse_smi_version(
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95\n"
    )
    assert data["library"] == "580.95"
    assert "mismatch" in data["trouble"][0]


def test_a_version_that_is_none_is_quoted() -> None:
    data, problems = parse_smi_version("NVIDIA-SMI version  : 590.48.01\nDRIVER version      : 59x\n")
    assert data["driver"] is None
    assert '"59x"' in problems[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  Release Build  (r@n)  Mon\n",
            ("590.48.01", "open"),
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  560.35.05  Fri Aug 16 2024\n", ("560.35.05", "proprietary")),
        ("$ cat /sys/module/nvidia/version\n580.142\nrc=0\n", ("580.142", None)),
        ("version:        580.142\nlicense:        Dual MIT/GPL\n", ("580.142", "open")),
    ],
)
def test_the_loaded_module(text: str, told: tuple[str | None, ...]) -> None:
    data, problems = parse_proc_version(text)
    assert (data["driver"], data["flavour"]) == told
    assert data["loaded"]
    assert not problems


def test_no_module_is_loaded() -> None:
    assert parse_proc_version("cat: /proc/driver/nvidia/version: No such file or directory\n")[0]["loaded"] is False


def test_two_versions_are_none() -> None:
    data, problems = parse_proc_version("580.142\n590.48.01\n")
    assert data["driver"] is None
    assert "580.142 and 590.48.01" in problems[0]


def test_the_gpus_that_the_module_has() -> None:
    text = "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-1\nVideo BIOS: \t 96.00.a5.00.1a\nBus Location: \t 0000:00:06.0\n"
    gpu = {"name": "NVIDIA H200", "uuid": "GPU-1", "vbios_version": "96.00.a5.00.1a", "bus": "00000000:00:06.0"}
    assert parse_proc_version(text)[0]["gpus"] == [gpu]


@examples(50)
@given(st.text(max_size=200))
def test_any_text_gives_an_answer(text: str) -> None:
    for parse in (parse_proc_version, parse_smi_version):
        data, problems = parse(text)
        assert data or problems
