# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.dpkg import upstream_version
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.nvidia_driver import (
    Library,
    Loaded,
    newest_kernel,
    parse_mig,
    parse_proc_version,
    parse_secure_boot,
    parse_smi_version,
)

OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  Release Build  (root@n1)  Mon Mar  2 03:02:25 "
    "PM MSK 2026\nGCC version:  gcc version 11.5.0 20240719 (Red Hat 11.5.0-11) (GCC) \n"
)
PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  560.35.05  Fri Aug 16 21:39:15 UTC 2024\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14) \n"
)
TWO_PARTS = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.142  Release Build  (dvs-builder@u)\n"
SMI = (
    "NVIDIA-SMI version  : 590.48.01\nNVML version        : 590.48\nDRIVER version      : 590.48.01\n"
    "CUDA Version        : 13.1\n"
)


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        (OPEN, Loaded("590.48.01", "open")),
        (PROPRIETARY, Loaded("560.35.05", "proprietary")),
        (TWO_PARTS, Loaded("580.142", "open")),
        ("", Loaded()),
        (None, Loaded()),
    ],
)
def test_the_loaded_module(text: str | None, loaded: Loaded) -> None:
    assert parse_proc_version(text) == loaded


def test_the_library() -> None:
    assert parse_smi_version(SMI) == Library("590.48.01", "590.48.01")
    mismatch = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126\n"
    assert parse_smi_version(mismatch) == Library("580.126")
    assert parse_smi_version("NVIDIA-SMI has failed because it couldn't communicate\n") == Library()


@pytest.mark.parametrize(
    ("version", "upstream"),
    [
        ("580.95.05-0ubuntu0.24.04.2", "580.95.05"),
        ("1:580.142-1", "580.142"),
        ("2:580.142", "580.142"),
        ("590.48.01", "590.48.01"),
    ],
)
def test_a_package_version_has_the_drivers_in_it(version: str, upstream: str) -> None:
    assert upstream_version(version) == upstream


def test_mig_counts_when_it_is_pending() -> None:
    assert parse_mig("Disabled, Disabled\nDisabled, Enabled\n") == {"current": False, "pending": True}
    assert parse_mig("Enabled, Disabled\n") == {"current": True, "pending": False}
    assert parse_mig("[N/A], [N/A]\n") == {"current": False, "pending": False}


def test_secure_boot() -> None:
    assert parse_secure_boot("\x06\x00\x00\x00\x01", "") is True
    assert parse_secure_boot("\x06\x00\x00\x00\x00", "") is False
    assert parse_secure_boot(None, "SecureBoot enabled\n") is True
    assert parse_secure_boot(None, "SecureBoot disabled\nPlatform is in Setup Mode\n") is False
    assert parse_secure_boot(None, "EFI variables are not supported on this system\n") is False
    assert parse_secure_boot(None, "") is None


@pytest.mark.parametrize(
    ("names", "links", "version"),
    [
        ([], [None, None], None),
        (["grub", "initrd.img-6.8.0-60-generic", "vmlinuz", "vmlinuz-"], [None], None),
        (["vmlinuz-6.8.0-60-generic", "vmlinuz-6.8.0-100-generic"], [], "6.8.0-100-generic"),
        (["vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-10-amd64", "vmlinuz-5.10.0-30-amd64"], [None], "6.1.0-10-amd64"),
        (["vmlinuz-6.8.0-60-generic", "vmlinuz-6.8.0-61-generic.dpkg-new", "vmlinuz.old"], [], "6.8.0-60-generic"),
        (["vmlinuz-6.8.0-61-generic"], ["boot/vmlinuz-6.8.0-60-generic"], "6.8.0-61-generic"),
        ([], ["boot/vmlinuz-6.1.0-28-amd64", None], "6.1.0-28-amd64"),
        ([], ["boot/other"], None),
    ],
)
def test_the_newest_kernel(names: list[str], links: list[str | None], version: str | None) -> None:
    assert newest_kernel(names, links) == version
