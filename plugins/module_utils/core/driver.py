# SPDX-License-Identifier: Apache-2.0
"""What a reading of the NVIDIA driver means: which package is the driver, what stands in the way, when to reboot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MODULE_PACKAGES = ("nvidia-dkms", "nvidia-kernel-open-dkms", "nvidia-kernel-dkms", "nvidia-driver", "nvidia-open")
"""Names, or beginnings of names, of packages whose version is the driver's; those nearest to the module first."""


def module_package(names: Iterable[str]) -> str | None:
    """The package of a set by whose version the driver is known; names changed with branches 580 and 590."""
    listed = sorted(names)
    for start in MODULE_PACKAGES:
        for name in listed:
            if name == start or name.startswith(f"{start}-"):
                return name
    return None


def builds_module(names: Iterable[str]) -> bool:
    """Whether the set builds its kernel module on the host."""
    return any("dkms" in name.split("-") for name in names)


def matches(version: str | None, want: Mapping[str, Any]) -> bool:
    """Whether this is the version asked for, or one of the branch where only that is pinned."""
    if not version:
        return False
    if want.get("version"):
        return version == str(want["version"])
    return not want.get("branch") or version.partition(".")[0] == str(want["branch"])


def wanted_words(want: Mapping[str, Any]) -> str:
    """The pin, for a message."""
    if want.get("version"):
        return str(want["version"])
    return f"branch {want['branch']}" if want.get("branch") else "any version"


def reboot_required(installed: str | None, loaded: str | None, nouveau: bool) -> bool:
    """Exactly when the module that is loaded is not the one that is installed; nouveau in its place counts too."""
    return installed is not None and (loaded != installed or nouveau)


def problems(observed: Mapping[str, Any], packages: Iterable[str], mig_ok: bool, signing_ok: bool) -> list[str]:
    """Why this host's driver must not be touched: one sentence each, with what to do."""
    found = []
    mig = observed.get("mig") or {}
    if not mig_ok and (mig.get("current") or mig.get("pending")):
        now = "on" if mig.get("current") else "off now and on after the next reset"
        found.append(
            f"MIG is {now}, expected it off: no GPU can then work with another one. Turn it off with "
            "`nvidia-smi -mig 0` and reset the GPUs, or set nvidia_driver_mig_ok to keep it"
        )
    if builds_module(packages) and observed.get("secure_boot") and not signing_ok and not observed.get("signing"):
        found.append(
            "Secure Boot is on and no key of this host's own is enrolled, so the kernel would refuse the module that "
            "DKMS builds here. Enrol one with `mokutil --import /var/lib/shim-signed/mok/MOK.der` and a reboot, take "
            "the signed linux-modules-nvidia packages instead, turn Secure Boot off, or set "
            "nvidia_driver_signing_ok where modules are signed in another way"
        )
    return found
