# SPDX-License-Identifier: Apache-2.0
"""Every fault of a described machine is visible where the real one would be."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from firstlight_lab.nvidia import known_faults, machine_document
from firstlight_lab.nvidia.node.kernel import ERROR, kernel_lines

if TYPE_CHECKING:
    from tests.unit.lab.conftest import Node


def column(node: Node, field: str) -> list[str]:
    return node.smi(f"--query-gpu={field}", "--format=csv,noheader").splitlines()


NAME, VBIOS, IDLE = "NVIDIA H100 80GB HBM3", "96.00.A5.00.01", "0x0000000000000001"
CASES: list[tuple[Any, str, list[str]]] = [
    ("ecc_uncorrected:2", "ecc.errors.uncorrected.volatile.total", ["0", "0", "1", "0"]),
    (
        {"fault": "ecc_uncorrected", "count": 7},
        "ecc.errors.uncorrected.aggregate.total",
        ["7", "0", "0", "0"],
    ),
    ("ecc_disabled", "ecc.mode.current", ["Disabled", "Enabled", "Enabled", "Enabled"]),
    ("throttled:1", "clocks_event_reasons.active", [IDLE, "0x0000000000000048", IDLE, IDLE]),
    ({"fault": "wrong_memory", "gpu": 3, "mib": 40960}, "memory.total", ["81559 MiB"] * 3 + ["40960 MiB"]),
    ("mig_enabled:0", "mig.mode.current", ["Enabled", "Disabled", "Disabled", "Disabled"]),
    ("remap_pending:1", "remapped_rows.pending", ["No", "Yes", "No", "No"]),
    ("remap_pending:1", "gpu_recovery_action", ["None", "Reset", "None", "None"]),
    ("remap_failed:1", "remapped_rows.failure", ["No", "Yes", "No", "No"]),
    ("persistence_off:1", "persistence_mode", ["Enabled", "Disabled", "Enabled", "Enabled"]),
    ("pcie_degraded:1", "pcie.link.width.current", ["16", "8", "16", "16"]),
    ({"fault": "power_capped", "watts": 400}, "power.limit", ["400.00 W"] + ["700.00 W"] * 3),
    ("gpu_busy:1", "memory.used", ["0 MiB", "1024 MiB", "0 MiB", "0 MiB"]),
    ("wrong_vbios:1", "vbios_version", [VBIOS, "96.00.30.00.01", VBIOS, VBIOS]),
    ("wrong_name:3", "name", [NAME, NAME, NAME, "NVIDIA A100-SXM4-80GB"]),
    ("gpu_missing:1", "pci.bus_id", ["00000000:19:00.0", "00000000:9B:00.0", "00000000:CB:00.0"]),
    ("gpu_missing:1", "index", ["0", "1", "2"]),
]


@pytest.mark.parametrize(("fault", "field", "expected"), CASES)
def test_a_fault_shows_in_its_field(node: Node, fault: Any, field: str, expected: list[str]) -> None:
    node.describe("h100-sxm-4", fault)
    assert column(node, field) == expected


def test_inactive_links_show_in_status_and_matrix(node: Node) -> None:
    node.describe("h100-sxm-8", {"fault": "nvlink_inactive", "gpu": 3, "links": [7, 12]})
    status = node.smi("nvlink", "-s", "-i", "3").splitlines()
    assert [line for line in status if "<inactive>" in line] == [
        "\t Link 7: <inactive>",
        "\t Link 12: <inactive>",
    ]
    rows = [line.split("\t") for line in node.smi("topo", "-m").splitlines()[1:9]]
    assert rows[3][1:4] == ["NV16"] * 3
    assert rows[0][2:5] == ["NV18", "NV18", "NV16"]


def test_all_links_inactive_is_said_in_words(node: Node) -> None:
    node.describe("h100-sxm-4", "nvlink_inactive:2")
    lines = node.smi("nvlink", "-s", "-i", "2").splitlines()
    assert lines[1:] == ["NVML: Unable to retrieve NVLink information as all links are inactive"]
    assert node.smi("topo", "-m").splitlines()[3].split("\t")[1:5] == ["SYS", "SYS", " X ", "NODE"]


def test_switches_that_were_lost_leave_a_machine_that_is_no_guest(node: Node) -> None:
    node.describe("h100-sxm-4-partition", "nvswitches_lost")
    assert node.smi("-q", "-x").count("<virtualization_mode>None<") == 4
    assert column(node, "fabric.state") == ["Completed"] * 4


def test_a_slow_link_names_its_speed(node: Node) -> None:
    node.describe("h100-sxm-4", {"fault": "nvlink_slow", "gpu": 1, "links": [0]})
    assert "\t Link 0: 1.562 GB/s" in node.smi("nvlink", "-s", "-i", "1").splitlines()


def test_an_unopenable_gpu_comes_before_the_rest(node: Node) -> None:
    node.describe("h100-sxm-4", "device_handle_error:1")
    lines = node.smi("-L").splitlines()
    assert lines[0] == "Unable to determine the device handle for GPU1: 0000:4C:00.0: Unknown Error"
    assert [line.split(":")[0] for line in lines[1:]] == ["GPU 0", "GPU 2", "GPU 3"]


def test_a_lost_gpu_has_its_own_exit_code(node: Node) -> None:
    node.describe("h100-sxm-4", "gpu_lost:1")
    done = node.run("/usr/bin/nvidia-smi")
    assert done.returncode == 15
    assert "GPU is lost.  Reboot the system to recover this GPU" in done.stdout


def test_no_devices(node: Node) -> None:
    node.describe("gb10", "no_devices")
    done = node.run("/usr/bin/nvidia-smi")
    assert (done.returncode, done.stdout) == (6, "No devices were found\n")


def test_a_node_without_a_description_has_no_devices(node: Node) -> None:
    assert node.run("/usr/bin/nvidia-smi", "-L").returncode == 6


def test_hang_keeps_the_caller_waiting(node: Node) -> None:
    node.describe("gb10", "hang")
    command = [str(node.root / "usr/bin/nvidia-smi"), "-L"]
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(command, timeout=1.5, check=False, env={"FIRSTLIGHT_LAB_ROOT": str(node.root)})


def test_mig_shows_in_the_table(node: Node) -> None:
    node.describe("h100-sxm-4", "mig_enabled:0")
    block = node.smi().splitlines()[8:11]
    assert block[0].endswith("|                   On |")
    assert block[1].endswith("|     N/A      Default |")
    assert block[2].endswith("|              Enabled |")


def test_mig_instances_are_listed_below_their_gpu(node: Node) -> None:
    node.describe("h100-sxm-4", "mig_enabled:1")
    listed = node.smi("-L").splitlines()
    assert [line.split(":")[0] for line in listed] == [
        "GPU 0",
        "GPU 1",
        "  MIG 3g.40gb     Device  0",
        "  MIG 2g.20gb     Device  1",
        "  MIG 1g.10gb     Device  2",
        "  MIG 1g.10gb     Device  3",
        "GPU 2",
        "GPU 3",
    ]
    assert "| MIG devices:" in node.smi()
    assert {len(line) for line in node.smi().splitlines() if line.startswith("|")} == {91}
    assert node.smi("-q", "-x").count("<mig_device>") == 4


def test_a_gpu_that_must_be_reset_has_no_readings(node: Node) -> None:
    node.describe("h100-sxm-4", "requires_reset:1")
    assert column(node, "memory.total")[1] == "[GPU requires reset]"
    assert column(node, "ecc.errors.uncorrected.volatile.total")[1] == "[GPU requires reset]"
    assert column(node, "gpu_recovery_action") == ["None", "Reset", "None", "None"]
    assert node.smi().count("ERR!") == 6


def test_links_count_their_errors(node: Node) -> None:
    node.describe("h100-sxm-4", "nvlink_errors:gpu=2,links=4.17,crc=481")
    lines = node.smi("nvlink", "-e", "-i", "2").splitlines()
    assert len([line for line in lines if "Errors:" in line]) == 18 * 3
    assert [line.strip() for line in lines if line.endswith("481")] == [
        "Link 4: CRC Errors: 481",
        "Link 17: CRC Errors: 481",
    ]
    assert not [line for line in node.smi("nvlink", "--errorcounters", "-i", "1").splitlines() if line[-1:] not in "0)"]


def test_without_nvlink_the_way_is_pcie(node: Node) -> None:
    node.describe("h100-sxm-8", "nvlink_absent")
    assert "NV" not in "".join(node.smi("topo", "-m").splitlines()[1:9])
    assert node.smi("nvlink", "-s").count("all links are inactive") == 8


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        (
            ("xid:gpu=2,number=79",),
            ["NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off"],
        ),
        (("xid:count=3",), ["NVRM: Xid (PCI:0000:19:00): 94, "] * 3),
        (
            ("sxid:switch=2",),
            ["nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 20034, Fatal, "] + ["nvidia-nvswitch2: SXid"],
        ),
        (("port_flapping:count=1",), ["mlx5_core 0000:01:00.1 enp1s0f1np1: Link down", "mlx5_core"]),
        (("gpu_missing:1", "throttled"), []),
    ],
)
def test_the_kernel_log_tells_of_faults(node: Node, faults: tuple[str, ...], expected: list[str]) -> None:
    node.describe("h100-sxm-4", *faults)
    lines = kernel_lines(node.root)
    assert lines == sorted(lines)
    errors = [text for _, gravity, text in lines if gravity == ERROR]
    assert len(errors) == len(expected)
    assert all(text.startswith(start) for text, start in zip(errors, expected, strict=True))


def test_a_driver_that_is_not_loaded_says_nothing(bare_node: Node) -> None:
    bare_node.describe("h100-sxm-4", "xid")
    assert kernel_lines(bare_node.root) == []


def test_the_driver_lists_its_gpus(node: Node) -> None:
    node.describe("h100-sxm-4")
    node.boot()
    found = sorted(path.name for path in (node.root / "run/firstlight-lab/proc-driver/nvidia/gpus").iterdir())
    assert found == ["0000:19:00.0", "0000:4c:00.0", "0000:9b:00.0", "0000:cb:00.0"]


def test_a_gpu_answers_to_all_its_names(node: Node) -> None:
    node.describe("h100-sxm-4")
    uuid, serial, bus = column(node, "uuid,serial,pci.bus_id")[2].split(", ")
    for name in ("2", uuid, serial, bus, bus[4:], bus[9:].lower()):
        assert node.smi("nvlink", "-s", "-i", name).startswith("GPU 2:"), name


def test_a_process_shows_in_the_table(node: Node) -> None:
    node.describe("h100-sxm-4", "gpu_busy:1")
    row = "|    1   N/A  N/A            4242      C   python3                                1024MiB |"
    assert row in node.smi().splitlines()
    assert node.smi("--query-compute-apps=pid,used_memory", "--format=csv").splitlines() == [
        "pid, used_gpu_memory [MiB]",
        "4242, 1024 MiB",
    ]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("gpu_mising", 'fault "gpu_mising" is not known'),
        ("gpu_missing:4", "names GPU 4, but the profile has GPUs 0 to 3"),
        ({"fault": "throttled", "degrees": 3}, "has no parameter degrees; it takes: celsius"),
        (7, 'a fault is "name"'),
    ],
)
def test_a_fault_that_would_do_nothing_is_refused(node: Node, fault: Any, message: str) -> None:
    node.describe("h100-sxm-4", fault)
    done = node.run("/usr/bin/nvidia-smi")
    assert done.returncode == 255
    assert message in done.stderr
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        machine_document("h100-sxm-4", [fault])


def test_every_fault_can_be_described() -> None:
    for name in known_faults():
        assert json.loads(machine_document("h100-sxm-8", [name]))["faults"] == [name]
    with pytest.raises(ValueError, match='profile "dgx" is not known'):
        machine_document("dgx")
