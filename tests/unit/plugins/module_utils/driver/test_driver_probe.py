# SPDX-License-Identifier: Apache-2.0
"""The driver probe on described hosts: a directory stands for / and a table for the commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver_probe import (
    boot_blockers,
    next_kernel,
    nvswitches,
    pci_gpus,
    read_driver,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.plugins.module_utils.observe.probes import observe

from tests.unit.fake_host import Call, FakeHost, not_installed

VERSION = "580.126.09-0ubuntu0.24.04.2"
NVRM = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.126.09  Release Build  (root@x)\n"
SMI = "NVIDIA-SMI version  : 580.126.09\nNVML version        : 580.126\nDRIVER version      : 580.126.09\n"
INSTALLED = (
    f"nvidia-dkms-580-open\thold\tinstalled\t{VERSION}\n"
    f"nvidia-utils-580\thold\tinstalled\t{VERSION}\n"
    "nvidia-utils-560\tdeinstall\tconfig-files\t560.35.05-1\n"
    "nvidia-container-toolkit\tinstall\tinstalled\t1.18.2-1\n"
    "linux-modules-nvidia-580-generic\tinstall\tinstalled\t6.8.0-60.63+1\n"
)


def described(answers: Mapping[str, Result]) -> FakeHost:
    """Questions to dpkg-query are told apart by their last word, the package."""

    def query(call: Call) -> Result:
        return answers.get(f"dpkg-query {call.argv[-1]}") or not_installed(call)

    return FakeHost({"": not_installed, **answers, "dpkg-query": query})


def answer(text: str, rc: int = 0) -> Result:
    return Result(("x",), rc, text)


GOOD = {
    "dpkg-query nvidia-dkms-580-open": answer(INSTALLED, 1),
    "nvidia-smi --version": answer(SMI),
    "nvidia-smi --query-gpu=mig.mode.current,mig.mode.pending": answer("[N/A], [N/A]\n"),
}


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_a_host_that_is_right(tmp_path: Path) -> None:
    write(tmp_path, "proc/driver/nvidia/version", NVRM)
    found = read_driver(described(GOOD), ["nvidia-dkms-580-open"], 5, str(tmp_path))
    assert found.pop("kernel")
    assert found == {
        "installed": "580.126.09",
        "loaded": "580.126.09",
        "library": "580.126.09",
        "flavour": "open",
        "nouveau": False,
        "mig": {"current": False, "pending": False},
        "nvswitches": 0,
        "gpus": 0,
        "headers": None,
        "next_kernel": None,
        "secure_boot": False,
        "signing": False,
        "related": ["linux-modules-nvidia-580-generic", "nvidia-utils-580"],
        "related_holds": {"linux-modules-nvidia-580-generic": False, "nvidia-utils-580": True},
        "others": {"nvidia-container-toolkit": "1.18.2-1"},
        "runfile": None,
        "persistenced": None,
        "mixed": [],
        "reboot_required": False,
        "silent": False,
        "error": None,
        "reboot_blockers": [],
    }


def test_a_host_that_waits_for_its_reboot(tmp_path: Path) -> None:
    write(tmp_path, "sys/module/nvidia/version", "580.95.05\n")
    mismatch = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126\n"
    host = described({**GOOD, "nvidia-smi --version": answer(mismatch, 18)})
    found = read_driver(host, ["nvidia-dkms-580-open"], 5, str(tmp_path))
    assert (found["loaded"], found["library"], found["reboot_required"]) == ("580.95.05", "580.126", True)
    assert "Driver/library version mismatch" in found["error"]


def test_a_driver_of_another_name_is_found(tmp_path: Path) -> None:
    write(tmp_path, "proc/driver/nvidia/version", NVRM)
    rows = INSTALLED + "libnvidia-gl-560\tinstall\tinstalled\t560.35.05-1\n"
    host = described({**GOOD, "dpkg-query nvidia-dkms-open": answer(rows, 1)})
    found = read_driver(host, ["nvidia-dkms-open"], 5, str(tmp_path))
    assert (found["installed"], found["reboot_required"]) == ("580.126.09", False)
    assert found["related"] == ["linux-modules-nvidia-580-generic", "nvidia-dkms-580-open", "nvidia-utils-580"]
    assert found["mixed"] == ["libnvidia-gl-560 560.35.05"]


@pytest.mark.parametrize("call", ["nvidia-smi --version", "nvidia-smi --query-gpu=mig.mode.current,mig.mode.pending"])
def test_an_nvidia_smi_that_hangs(tmp_path: Path, call: str) -> None:
    host = described({**GOOD, call: Result(("nvidia-smi",), 124, problem="nvidia-smi gave no answer within 5 s")})
    found = read_driver(host, ["nvidia-dkms-580-open"], 5, str(tmp_path))
    assert (found["silent"], found["error"]) == (True, "nvidia-smi gave no answer within 5 s")


def test_what_came_without_packages_is_seen(tmp_path: Path) -> None:
    write(tmp_path, "usr/bin/nvidia-uninstall", "")
    found = read_driver(described(GOOD), ["nvidia-dkms-580-open"], 5, str(tmp_path))
    assert found["runfile"] == "/usr/bin/nvidia-uninstall"


def test_how_the_persistence_daemon_is_started(tmp_path: Path) -> None:
    write(tmp_path, "lib/systemd/system/nvidia-persistenced.service", "[Service]\nExecStart=/usr/bin/x --verbose\n")
    found = read_driver(described(GOOD), ["nvidia-dkms-580-open"], 5, str(tmp_path))
    assert found["persistenced"] == "/usr/bin/x --verbose"


def test_a_bare_host(tmp_path: Path) -> None:
    host = described({"dpkg-query nvidia-dkms-580-open": answer("", 1)})
    found = read_driver(host, ["nvidia-dkms-580-open"], 5, str(tmp_path))
    assert (found["installed"], found["loaded"], found["library"], found["related"]) == (None, None, None, [])
    assert not found["reboot_required"]
    assert found["error"] == "nvidia-smi is not installed"


def test_nouveau_and_secure_boot(tmp_path: Path) -> None:
    (tmp_path / "sys/module/nouveau").mkdir(parents=True)
    variable = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    write(tmp_path, variable, "\x06\x00\x00\x00\x01")
    write(tmp_path, "var/lib/shim-signed/mok/MOK.der", "key")
    found = read_driver(described(GOOD), ["nvidia-dkms-580-open"], 5, str(tmp_path))
    assert (found["nouveau"], found["secure_boot"], found["signing"]) == (True, True, False)
    enrolled = described({**GOOD, "mokutil --test-key": answer("MOK.der is already enrolled\n", 1)})
    assert read_driver(enrolled, ["nvidia-dkms-580-open"], 5, str(tmp_path))["signing"]


def test_nvswitches_by_the_driver_and_before_it_by_the_bus(tmp_path: Path) -> None:
    assert nvswitches(str(tmp_path)) == 0
    # In a guest without NVSwitches the driver makes its own device and an empty list.
    write(tmp_path, "dev/nvidia-nvswitchctl", "")
    (tmp_path / "proc/driver/nvidia-nvswitch/devices").mkdir(parents=True)
    assert nvswitches(str(tmp_path)) == 0
    for address, vendor, kind in (
        ("0000:05:00.0", "0x10de", "0x068000"),
        ("0000:06:00.0", "0x10de", "0x068000"),
        ("0000:1b:00.0", "0x10de", "0x030200"),
        ("0000:00:1f.0", "0x8086", "0x068000"),
    ):
        write(tmp_path, f"sys/bus/pci/devices/{address}/vendor", f"{vendor}\n")
        write(tmp_path, f"sys/bus/pci/devices/{address}/class", f"{kind}\n")
    (tmp_path / "sys/bus/pci/devices/0000:ff:00.0").mkdir()
    assert nvswitches(str(tmp_path)) == 2
    assert pci_gpus(str(tmp_path)) == 1
    for index in range(4):
        (tmp_path / f"proc/driver/nvidia-nvswitch/devices/0000:0{index}:00.0").mkdir(parents=True)
    assert nvswitches(str(tmp_path)) == 4


def test_the_kernel_of_the_next_boot(tmp_path: Path) -> None:
    assert next_kernel(str(tmp_path)) is None
    for version in ("6.8.0-60-generic", "6.8.0-100-generic"):
        write(tmp_path, f"boot/vmlinuz-{version}", "kernel")
        write(tmp_path, f"boot/initrd.img-{version}", "initrd")
    (tmp_path / "boot/vmlinuz").symlink_to("vmlinuz-6.8.0-60-generic")
    (tmp_path / "lib/modules/6.8.0-100-generic").mkdir(parents=True)
    (tmp_path / "lib/modules/6.8.0-100-generic/build").symlink_to(tmp_path / "usr/src/linux-headers-6.8.0-100-generic")
    assert next_kernel(str(tmp_path)) == {"version": "6.8.0-100-generic", "headers": False}
    (tmp_path / "usr/src/linux-headers-6.8.0-100-generic").mkdir(parents=True)
    assert next_kernel(str(tmp_path)) == {"version": "6.8.0-100-generic", "headers": True}
    host = described({**GOOD, "modinfo -k 6.8.0-100-generic -F version nvidia": answer("580.126.09\n")})
    found = read_driver(host, ["nvidia-dkms-580-open"], 5, str(tmp_path))
    right = {"version": "6.8.0-100-generic", "headers": True, "module": "580.126.09", "error": None, "builds": []}
    assert (found["next_kernel"], found["reboot_blockers"]) == (right, [])


def test_a_next_kernel_without_its_module(tmp_path: Path) -> None:
    write(tmp_path, "boot/vmlinuz-6.8.0-100-generic", "kernel")
    status = (
        "nvidia/580.126.09, 6.8.0-60-generic, x86_64: installed\n"
        "nvidia/580.126.09, 6.8.0-100-generic, x86_64: built (Original modules exist)\n"
    )
    told = "modinfo: ERROR: Module nvidia not found.\n"
    host = described({**GOOD, "modinfo": Result(("modinfo",), 1, "", told), "dkms status": answer(status)})
    found = read_driver(host, ["nvidia-dkms-580-open"], 5, str(tmp_path))
    assert (found["next_kernel"]["module"], found["next_kernel"]["error"]) == (None, None)
    assert found["next_kernel"]["builds"] == [
        "nvidia 580.126.09 for 6.8.0-100-generic is built (Original modules exist)"
    ]
    assert "module nvidia is missing, expected 580.126.09" in found["reboot_blockers"][0]
    everything = described({})
    everything.commands["dpkg-query"] = answer(INSTALLED, 1)
    assert "cannot be read (modinfo is not installed)" in boot_blockers(everything, 5, str(tmp_path))[0]
    assert boot_blockers(described({}), 5, str(tmp_path / "container")) == []


def test_a_dpkg_that_does_not_answer_is_an_error_of_the_observation() -> None:
    found = observe(described({}), {"a": {"driver": {"package": "nvidia-open"}, "holds": {"nvidia-open": True}}})
    assert found["errors"] == {"driver": "dpkg-query is not installed", "holds": "dpkg-query is not installed"}
    assert "driver" not in found


@pytest.mark.parametrize(("want", "held"), [("hold", True), ("install", False)])
def test_holds(want: str, held: bool) -> None:
    host = described({"dpkg-query nvidia-open": answer(f"nvidia-open\t{want}\tinstalled\n")})
    assert observe(host, {"a": {"holds": {"nvidia-open": True}}})["holds"] == {"nvidia-open": held}
