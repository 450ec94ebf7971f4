# SPDX-License-Identifier: Apache-2.0
"""Reads the NVIDIA driver of a target: what is installed, what is loaded, what programs use, and what it runs on."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import Any

from .core.driver import reboot_required
from .core.parsers.dpkg import DPKG_FORMAT, parse_dpkg_query
from .core.parsers.nvidia_driver import (
    MIG_QUERY,
    parse_mig,
    parse_proc_version,
    parse_secure_boot,
    parse_smi_version,
    upstream_version,
)
from .host import Host

PROC_VERSION = "proc/driver/nvidia/version"
SYS_VERSION = "sys/module/nvidia/version"
NOUVEAU = "sys/module/nouveau"
NVSWITCHES = "proc/driver/nvidia-nvswitch/devices"
PCI = "sys/bus/pci/devices"
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SIGNING_KEYS = ("var/lib/shim-signed/mok/MOK.der", "var/lib/dkms/mok.pub")
RELATED = ("nvidia-*", "libnvidia-*", "linux-modules-nvidia-*", "xserver-xorg-video-nvidia-*")
_NVIDIA, _BRIDGE = "0x10de", "0x0680"


def read_driver(host: Host, packages: Sequence[str], timeout: float, root: str = "/") -> dict[str, Any]:
    """The driver that `packages` name, in the words of an observation."""
    installed = _installed(host, packages, timeout)
    loaded = parse_proc_version(host.read_text(os.path.join(root, PROC_VERSION)))
    version = loaded.version or (host.read_text(os.path.join(root, SYS_VERSION)) or "").strip() or None
    nouveau = os.path.isdir(os.path.join(root, NOUVEAU))
    result = host.run(["nvidia-smi", "--version"], timeout)
    mig = {"current": False, "pending": False}
    error = None if result.ok else result.summary
    if result.ok:
        asked = host.run(["nvidia-smi", f"--query-gpu={MIG_QUERY}", "--format=csv,noheader"], timeout)
        error = None if asked.ok else asked.summary
        mig = parse_mig(asked.stdout) if asked.ok else mig
    return {
        "installed": installed,
        "loaded": version,
        "library": parse_smi_version(result.stdout).version,
        "flavour": loaded.flavour,
        "nouveau": nouveau,
        "mig": mig,
        "nvswitches": nvswitches(root),
        "kernel": platform.release(),
        "secure_boot": _secure_boot(host, timeout, root),
        "signing": _signing(host, timeout, root),
        "related": _related(host, packages, installed, timeout),
        "reboot_required": reboot_required(installed, version, nouveau),
        "error": error,
    }


def nvswitches(root: str = "/") -> int:
    """NVSwitches of this machine: as the driver lists them, else, before there is a driver, as PCI bridges."""
    listed = _names(os.path.join(root, NVSWITCHES))
    if listed:
        return len(listed)
    return sum(_is_nvswitch(os.path.join(root, PCI, device)) for device in _names(os.path.join(root, PCI)))


def _is_nvswitch(device: str) -> bool:
    vendor, kind = (_word(os.path.join(device, name)) for name in ("vendor", "class"))
    return vendor == _NVIDIA and kind.startswith(_BRIDGE)


def _word(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read().strip().lower()
    except OSError:
        return ""


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _installed(host: Host, packages: Sequence[str], timeout: float) -> str | None:
    if not packages:
        return None
    result = host.run(["dpkg-query", "--show", f"--showformat={DPKG_FORMAT}", *packages], timeout)
    if result.problem or result.rc not in (0, 1):
        raise ValueError(result.summary)
    versions = [version for version in parse_dpkg_query(result.stdout, packages).values() if version]
    return upstream_version(versions[0]) if versions else None


def _related(host: Host, packages: Sequence[str], installed: str | None, timeout: float) -> list[str]:
    """Packages of the same release that nobody named: a metapackage alone does not keep a driver."""
    if installed is None:
        return []
    result = host.run(["dpkg-query", "--show", f"--showformat={DPKG_FORMAT}", *RELATED], timeout)
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    return sorted(
        row[0]
        for row in rows
        if len(row) == 3
        and row[1] == "installed"
        and row[0] not in packages
        and (upstream_version(row[2]) == installed or row[0].startswith("linux-modules-nvidia-"))
    )


def _secure_boot(host: Host, timeout: float, root: str) -> bool | None:
    if not os.path.isdir(os.path.join(root, "sys/firmware/efi")):
        return False
    variable = host.read_text(os.path.join(root, SECURE_BOOT))
    said = "" if variable else host.run(["mokutil", "--sb-state"], timeout).stdout
    return parse_secure_boot(variable, said)


def _signing(host: Host, timeout: float, root: str) -> bool:
    """Whether the firmware knows a key that DKMS signs with."""
    for key in SIGNING_KEYS:
        path = os.path.join(root, key)
        if os.path.exists(path) and "already enrolled" in host.run(["mokutil", "--test-key", path], timeout).stdout:
            return True
    return False
