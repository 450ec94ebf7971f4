# SPDX-License-Identifier: Apache-2.0
"""Which kind a text is of: by its command, by what it says, by its file's name."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.kinds import (
    KIND,
    kind_of_command,
    kind_of_file,
    kind_of_text,
    parse,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import KINDS

TEXTS = {
    "topo": "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-51\nGPU1\tNV18\t X \t0-51\n",
    "nvlink": "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00)\n\t Link 0: 26.562 GB/s\n",
    "query-gpu": "index, name, memory.total [MiB]\n0, NVIDIA H200, 143771 MiB\n",
    "smi-q": "\n==============NVSMI LOG==============\n\nAttached GPUs                     : 1\n",
    "smi-xml": '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n',
    "smi-table": "| NVIDIA-SMI 580.142       Driver Version: 580.142        CUDA Version: 13.0     |\n",
    "smi-list": "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00)\n  MIG 1g.10gb     Device  0: (UUID: MIG-00)\n",
    "smi-version": "NVIDIA-SMI version  : 590.48.01\nNVML version        : 590.48\n",
    "proc-version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01\nGCC version: 13\n",
    "fabricmanager": "\u25cf nvidia-fabricmanager.service - NVIDIA fabric manager\n     Active: active (running)\n",
    "ibstat": "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n",
    "ibdev2netdev": "mlx5_0 port 1 ==> ens192f0 (Up)\n",
    "rdma-link": "link rocep1s0f0/1 state ACTIVE physical_state LINK_UP netdev enp1s0f0np0\n",
    "ethtool": "Settings for enp1s0f1np1:\n\tSpeed: 200000Mb/s\n\tLink detected: yes\n",
    "kernel-log": "[  10.123456] NVRM: Xid (PCI:0000:0f:00): 79, pid=1, GPU has fallen off the bus.\n",
    "ray-status": "======== Autoscaler status: 2026-11-15 09:25:37 ========\nUsage:\n 0.0/16.0 GPU\n",
    "lspci": "1b:00.0 0302: 10de:2330 (rev a1)\n05:00.0 0680: 10de:22a3 (rev a1)\n",
    "modules": "Module                  Size  Used by\nnvidia_peermem         16384  0\n",
    "dcgm-diag": '{\n   "DCGM Diagnostic" : \n   {\n      "test_categories" : []\n   }\n}\n',
    "vllm-metrics": 'vllm:num_requests_running{model_name="m"} 0.0\n',
}


def test_every_kind_is_registered() -> None:
    assert set(KIND) == set(KINDS) == set(TEXTS)


@pytest.mark.parametrize("kind", KINDS)
def test_by_what_the_text_says(kind: str) -> None:
    assert kind_of_text(TEXTS[kind].splitlines()) == kind


@pytest.mark.parametrize("kind", KINDS)
def test_by_the_command_that_is_best_captured(kind: str) -> None:
    assert kind_of_command(KIND[kind].command) == kind
    assert kind_of_command(f"sudo /usr/bin/{KIND[kind].command}") == kind


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("nvidia-smi -q -x", "smi-xml"),
        ("nvidia-smi -x -q -i 0", "smi-xml"),
        ("nvidia-smi -q -d TEMPERATURE", "smi-q"),
        ("nvidia-smi --query-gpu=name --format=csv,noheader", "query-gpu"),
        ("nvidia-smi nvlink --status -i 0", "nvlink"),
        ("nvidia-smi nvlink -e | head", "nvlink"),
        ("nvidia-smi 2>&1 | tee x", "smi-table"),
        ("nvidia-smi topo -p2p n", None),
        ("nvidia-smi --help", None),
        ("dmesg -T | grep -i xid", "kernel-log"),
        ("journalctl -k -b", "kernel-log"),
        ("journalctl -u nvidia-fabricmanager", "fabricmanager"),
        ("cat /sys/module/nvidia/version", "proc-version"),
        ("docker exec firstlight-ray ray status", "ray-status"),
        ("lspci -d 10de: -nn", "lspci"),
        ("lspci -vvv -s 0000:01:00.0", None),
        ("cat /proc/modules", "modules"),
        ("cat /proc/driver/nvidia/gpus/*/information", "proc-version"),
        ("ls -l", None),
    ],
)
def test_by_other_commands(command: str, kind: str | None) -> None:
    assert kind_of_command(command) == kind


@pytest.mark.parametrize("kind", KINDS)
def test_by_the_name_that_a_collection_gives(kind: str) -> None:
    assert kind_of_file(f"node1/{kind}.txt") == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("node1/ethtool-enp1s0f1np1.txt", "ethtool"),
        ("nvlink-errors.txt", "nvlink"),
        ("dmesg", "kernel-log"),
        ("nvidia-smi.txt", "smi-table"),
        ("nvidia_smi_qx.txt", "smi-xml"),
        ("notes.txt", None),
        ("array.txt", None),
    ],
)
def test_by_other_names(name: str, kind: str | None) -> None:
    assert kind_of_file(name) == kind


@pytest.mark.parametrize("text", ["", "# Firstlight\n\nFrom bare GPU hosts to the first token.\n", "DCGM_FI_DEV 1\n"])
def test_other_text_is_of_no_kind(text: str) -> None:
    assert kind_of_text(text.splitlines()) is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_parser_answers_to_any_text(kind: str) -> None:
    for text in ("", "\x00\x1b[4m", "hello\n", *TEXTS.values()):
        data, problems = parse(kind, text)
        assert isinstance(data, dict)
        assert all(isinstance(problem, str) for problem in problems)
    assert parse(kind, "hello\n")[1] or not parse(kind, "hello\n")[0]


GPU0 = "GPU 0: NVIDIA H200 (UUID: GPU-00)\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (GPU0 + "NVML: Unable to retrieve NVLink information as all links are inActive\n", "nvlink"),
        (GPU0 + "Nvlink queries are not supported for Devices in MIG mode\n", "nvlink"),
        ('# TYPE ray_vllm:num_requests_running gauge\nray_vllm:num_requests_running{a="b"} 0.0\n', "vllm-metrics"),
        ("Command 'nvidia-smi' not found, but can be installed with:\n", "smi-table"),
        ("cat: /proc/driver/nvidia/version: No such file or directory\n", "proc-version"),
        ("Failed to get unit file state for nvidia-fabricmanager.service: No such file\n", "fabricmanager"),
    ],
)
def test_what_is_said_in_place_of_an_answer(text: str, kind: str) -> None:
    assert kind_of_text(text.splitlines()) == kind


def test_a_system_s_log_stays_one_with_the_fabric_manager_in_it() -> None:
    kernel = [f"Jan  5 10:00:{second:02} dgx kernel: mlx5_core 0000:9c:00.0: a line" for second in range(30)]
    fault = "Jan  5 10:01:00 dgx kernel: NVRM: Xid (PCI:0000:0f:00): 79, GPU has fallen off the bus."
    manager = [
        "Jan  5 10:00:01 dgx systemd[1]: nvidia-fabricmanager.service: Deactivated successfully.",
        "Jan  5 10:00:01 dgx nv-fabricmanager[12]: Connected to 1 node.",
        "Jan  5 10:00:02 dgx systemd[1]: Started NVIDIA fabric manager service.",
    ]
    assert kind_of_text([*kernel, *manager, fault]) == "kernel-log"
    assert kind_of_text(manager) == "fabricmanager"
