# SPDX-License-Identifier: Apache-2.0
"""The kernel's log evaluated: which lines are faults of hardware, and when the absence of one proves something."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.kernel import check_kernel
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.kernel_log import parse_kernel_log
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import Reading

SWITCHED = Expected("eight", 8, "NVIDIA H100 80GB HBM3", links_per_gpu=18, nvswitch=True)
GB10 = Expected("gb10", 1, "NVIDIA GB10", unified=True)
BOOT = """\
[    0.000000] Linux version 6.8.0-60-generic (buildd@x) #63-Ubuntu SMP
[    0.100000] ACPI: RSDP 0x000 000024 (v02 ALASKA)
[    0.200000] pci 0000:01:00.0: [10de:2330] type 00 class 0x030200
[    1.300000] systemd[1]: Started Journal Service.
[    2.400000] nvidia: loading out-of-tree module taints kernel.
[    2.500000] nvidia-nvswitch0: open (major=511)
[    2.600000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build
[    3.700000] mlx5_core 0000:9c:00.0: firmware version: 28.39.1002
"""


def pcie(driver: str, have: str, could: str = "32.0 GT/s PCIe x16", could_gbit: str = "504.112") -> str:
    return (
        f"[    3.800000] {driver} 0000:9c:00.0: 126.016 Gb/s available PCIe bandwidth, limited by {have} link "
        f"at 0000:97:01.0 (capable of {could_gbit} Gb/s with {could} link)\n"
    )


def checks(text: str, expected: Expected = SWITCHED) -> dict[str, dict[str, object]]:
    data, problems = parse_kernel_log(text)
    return {
        one["id"]: one for one in check_kernel([Reading("kernel-log", data, tuple(problems), "dmesg.txt")], expected)
    }


def verdicts(text: str, expected: Expected = SWITCHED) -> dict[str, object]:
    return {name: one["verdict"] for name, one in checks(text, expected).items()}


def test_a_healthy_host() -> None:
    right = {"kernel.xid": "pass", "kernel.sxid": "pass", "kernel.pcie": "pass", "kernel.flaps": "pass"}
    assert verdicts(BOOT) == right
    assert verdicts(BOOT, GB10) == {**right, "kernel.sxid": "not_applicable"}


def test_the_styles_that_hosts_are_asked_in() -> None:
    right = verdicts(BOOT)
    dmesg = "".join(f"2026-11-15T09:14:07,250000+00:00 {line[15:]}\n" for line in BOOT.splitlines())
    journal = "".join(f"2026-11-15T09:14:07+00:00 node1 kernel: {line[15:]}\n" for line in BOOT.splitlines())
    assert verdicts(dmesg) == right
    assert verdicts(journal) == right


@pytest.mark.parametrize("number", [48, 63, 74, 79, 95, 119])
def test_a_fault_of_the_hardware(number: int) -> None:
    line = f"[ 9.000000] NVRM: Xid (PCI:0000:9b:00): {number}, pid=1, name=python3, words\n"
    found = checks(BOOT + line * 3)["kernel.xid"]
    assert found["verdict"] == "fail"
    assert f"Xid {number}" in str(found["observed"])
    assert "3 times on 0000:9b:00" in str(found["observed"])
    assert found["remedy"]
    assert found["command"] is None


@pytest.mark.parametrize("number", [13, 31, 43, 45, 94])
def test_what_is_no_fault_is_told_all_the_same(number: int) -> None:
    found = checks(BOOT + f"[ 9.000000] NVRM: Xid (PCI:0000:9b:00): {number}, pid=1, name=python3, words\n")[
        "kernel.xid"
    ]
    assert found["verdict"] == "pass"
    assert f"Xid {number}" in str(found["observed"])


def test_a_number_that_nobody_knows_is_not_passed_over() -> None:
    found = checks(BOOT + "[ 9.000000] NVRM: Xid (PCI:0000:9b:00): 999, pid=1, some words\n")["kernel.xid"]
    assert found["verdict"] == "could_not_check"
    assert "some words" in str(found["observed"])


def test_a_damaged_line_is_not_passed_over() -> None:
    assert verdicts(BOOT + "[ 9.000000] NVRM: X?d (PCI:0000:9b:00): 79, pid=1")["kernel.xid"] == "could_not_check"


def test_faults_without_a_number_and_the_same_with_one_are_one() -> None:
    lost = "[ 9.100000] NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.\n"
    assert verdicts(BOOT + lost)["kernel.xid"] == "fail"
    both = checks(BOOT + "[ 9.000000] NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n" + lost)
    assert str(both["kernel.xid"]["observed"]).count("0000:9b:00") == 1


@pytest.mark.parametrize(
    ("word", "verdict"), [("Fatal", "fail"), ("Non-fatal", "pass"), ("Data {0x1}", "could_not_check")]
)
def test_faults_of_switches(word: str, verdict: str) -> None:
    line = f"[ 9.000000] nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 20034, {word}, Link 60\n"
    assert verdicts(BOOT + line)["kernel.sxid"] == verdict


@pytest.mark.parametrize(
    ("text", "xid", "sxid"),
    [
        (
            "$ dmesg | grep mlx5\n[    0.100000] mlx5_core 0000:9c:00.0: firmware version: 28\n",
            "could_not_check",
            "could_not_check",
        ),
        ("$ dmesg | grep -i -E 'nvrm|xid'\n[    0.100000] NVRM: loading NVIDIA UNIX x86_64\n", "pass", "pass"),
        ("[ 900.100000] mlx5_core 0000:9c:00.0: firmware version: 28\n", "could_not_check", "could_not_check"),
        ("[ 900.100000] NVRM: Persistence mode is deprecated\n", "pass", "could_not_check"),
        ("Aug 17 00:00:24 node1 systemd[1]: Finished Rotate log files.\n", "could_not_check", "could_not_check"),
    ],
)
def test_when_absence_proves_something(text: str, xid: str, sxid: str) -> None:
    found = verdicts(text)
    assert (found["kernel.xid"], found["kernel.sxid"]) == (xid, sxid)


@pytest.mark.parametrize(
    ("line", "expected", "verdict"),
    [
        (pcie("mlx5_core", "32.0 GT/s PCIe x8"), SWITCHED, "fail"),
        (pcie("mlx5_core", "16.0 GT/s PCIe x16"), SWITCHED, "fail"),
        (pcie("pci", "16.0 GT/s PCIe x16"), SWITCHED, "fail"),
        (pcie("pci", "2.5 GT/s PCIe x16"), SWITCHED, "could_not_check"),
        (pcie("mlx5_core", "2.5 GT/s PCIe x16"), SWITCHED, "fail"),
        (pcie("pci", "5.0 GT/s PCIe x1", "5.0 GT/s PCIe x2", "8.000"), SWITCHED, "pass"),
        (pcie("mlx5_core", "32.0 GT/s PCIe x4"), SWITCHED, "fail"),
        (pcie("mlx5_core", "32.0 GT/s PCIe x4"), GB10, "pass"),
        (pcie("mlx5_core", "16.0 GT/s PCIe x4"), GB10, "fail"),
        (pcie("mlx5_core", "32.0 GT/s PCIe x8")[:110], SWITCHED, "could_not_check"),
    ],
)
def test_pcie(line: str, expected: Expected, verdict: str) -> None:
    assert verdicts(BOOT + line, expected)["kernel.pcie"] == verdict


def test_a_log_that_begins_later_says_nothing_about_pcie() -> None:
    assert "kernel.pcie" not in verdicts(BOOT.replace("[    0.", "[ 9999.").partition("\n")[2])


@pytest.mark.parametrize(("losses", "verdict"), [(1, "pass"), (5, "pass"), (6, "fail")])
def test_flaps(losses: int, verdict: str) -> None:
    one = "[ 4435.115811] mlx5_core 0000:53:00.0 ens1: Link down\n[ 4441.768101] mlx5_core 0000:53:00.0 ens1: Link up\n"
    assert verdicts(BOOT + one * losses)["kernel.flaps"] == verdict


def test_a_port_that_stays_down() -> None:
    up = "[ 4435.000000] mlx5_core 0000:53:00.0 ens1: Link up\n"
    down = "[ 4436.000000] mlx5_core 0000:53:00.0 ens1: Link down\n"
    assert verdicts(BOOT + up + down)["kernel.flaps"] == "fail"
    assert verdicts(BOOT + down)["kernel.flaps"] == "pass"  # no cable in it, ever


@pytest.mark.parametrize("text", ["", "hello\n", "dmesg: read kernel buffer failed: Operation not permitted\n"])
def test_no_log(text: str) -> None:
    assert verdicts(text) == {"kernel.xid": "could_not_check"}


def test_a_library_of_another_release_is_the_driver_s_matter() -> None:
    text = BOOT + "[   13.400000] NVRM: API mismatch: the client 'nvidia-smi' (pid 12)\n"
    found = checks(text)
    assert (found["kernel.xid"]["verdict"], found["driver.match"]["verdict"]) == ("pass", "fail")
    assert "reboot" in str(found["driver.match"]["remedy"])


def test_no_gpu_is_no_gpu_to_reset() -> None:
    found = checks(BOOT + "[    2.700000] NVRM: No NVIDIA GPU found.\n")["kernel.xid"]
    assert (found["verdict"], "lspci" in str(found["remedy"])) == ("fail", True)
