# SPDX-License-Identifier: Apache-2.0
"""Observes the NVIDIA driver of a target: what is installed and loaded, what programs use, and what it runs on."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import Any

from ..host import RC_TIMEOUT, Host
from ..parsers.dkms import parse_dkms_status
from ..parsers.dpkg import FULL_FORMAT, parse_installed, upstream_version
from ..parsers.nvidia_driver import (
    MIG_QUERY,
    newest_kernel,
    parse_mig,
    parse_proc_version,
    parse_secure_boot,
    parse_smi_version,
)
from .driver import exec_start, mixed, module_package, reboot_blockers, reboot_required, related

PROC_VERSION = "proc/driver/nvidia/version"
SYS_VERSION = "sys/module/nvidia/version"
NOUVEAU = "sys/module/nouveau"
NVSWITCHES = "proc/driver/nvidia-nvswitch/devices"
PCI = "sys/bus/pci/devices"
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SIGNING_KEYS = ("var/lib/shim-signed/mok/MOK.der", "var/lib/dkms/mok.pub")
KERNEL_LINKS = ("vmlinuz", "boot/vmlinuz")
PERSISTENCE_UNITS = tuple(f"{place}/systemd/system/nvidia-persistenced.service" for place in ("usr/lib", "lib"))
RUNFILE = "usr/bin/nvidia-uninstall"
RELATED = (
    "nvidia-*",
    "libnvidia-*",
    "linux-modules-nvidia-*",
    "linux-objects-nvidia-*",
    "linux-signatures-nvidia-*",
    "xserver-xorg-video-nvidia*",
    "libnvsdm*",
    "libxnvctrl0",
    "nvlink5*",
    "cuda-drivers*",
)
_NVIDIA, _BRIDGE, _GPU = "0x10de", ("0x0680",), ("0x0300", "0x0302")


def read_driver(host: Host, packages: Sequence[str], timeout: float, root: str = "/") -> dict[str, Any]:
    """Observe the driver that `packages` name."""
    kernel = platform.release()
    there, headers = _there(host, packages, f"linux-headers-{kernel}", timeout)
    releases = {name: upstream_version(one) for name, (one, _) in there.items()}
    # A driver under another name is found as well: names changed between branches.
    driver = next((name for name in packages if name in releases), None) or module_package(releases)
    installed = releases[driver] if driver else None
    beside = {name: there[name][1] for name in related(releases, packages, installed)}
    loaded = parse_proc_version(host.read_text(os.path.join(root, PROC_VERSION)))
    version = loaded.version or (host.read_text(os.path.join(root, SYS_VERSION)) or "").strip() or None
    nouveau = os.path.isdir(os.path.join(root, NOUVEAU))
    result = host.run(["nvidia-smi", "--version"], timeout)
    mig = {"current": False, "pending": False}
    error, silent = None if result.ok else result.summary, result.rc == RC_TIMEOUT
    if result.ok:
        asked = host.run(["nvidia-smi", f"--query-gpu={MIG_QUERY}", "--format=csv,noheader"], timeout)
        error, silent = None if asked.ok else asked.summary, asked.rc == RC_TIMEOUT
        mig = parse_mig(asked.stdout) if asked.ok else mig
    found = {
        "installed": installed,
        "loaded": version,
        "library": parse_smi_version(result.stdout).version,
        "flavour": loaded.flavour,
        "nouveau": nouveau,
        "mig": mig,
        "nvswitches": nvswitches(root),
        "gpus": pci_gpus(root),
        "kernel": kernel,
        "headers": headers,
        "next_kernel": next_boot(host, timeout, root),
        "secure_boot": _secure_boot(host, timeout, root),
        "signing": _signing(host, timeout, root),
        "related": sorted(beside),
        "related_holds": dict(sorted(beside.items())),
        "others": {
            name: one for name, (one, _) in sorted(there.items()) if name not in beside and name not in packages
        },
        "runfile": _runfile(root),
        "persistenced": _persistenced(host, root),
        "mixed": mixed(releases, installed) if installed else [],
        "reboot_required": reboot_required(installed, version, nouveau),
        "silent": silent,
        "error": error,
    }
    return {**found, "reboot_blockers": reboot_blockers(found)}


def boot_blockers(host: Host, timeout: float, root: str = "/") -> list[str]:
    """Return why a reboot now would leave this host without the installed driver."""
    after = next_boot(host, timeout, root)
    if after is None:
        return []
    there, _ = _there(host, (), "linux-headers", timeout)
    driver = module_package(there)
    installed = upstream_version(there[driver][0]) if driver else None
    return reboot_blockers({"installed": installed, "next_kernel": after})


def next_boot(host: Host, timeout: float, root: str = "/") -> dict[str, Any] | None:
    """The kernel of the next boot, the version of its nvidia module, and the DKMS builds for it that are not sound."""
    after = next_kernel(root)
    if after is None:
        return None
    kernel = after["version"]
    asked = host.run(["modinfo", "-k", kernel, "-F", "version", "nvidia"], timeout)
    module = asked.stdout.strip().splitlines()[:1] if asked.ok else []
    # It exits with 1 if there is no such module, which is an answer.
    error = asked.summary if asked.problem else None
    status = host.run(["dkms", "status"], timeout)
    builds = [one for one in parse_dkms_status(status.stdout) if one.kernel in (None, kernel)]
    return {
        **after,
        "module": module[0] if module else None,
        "error": error,
        "builds": [one.words for one in builds if not one.sound],
    }


def nvswitches(root: str = "/") -> int:
    """The number of NVSwitches: as the driver lists them, else, without a driver, the PCI bridges."""
    listed = _names(os.path.join(root, NVSWITCHES))
    if listed:
        return len(listed)
    return _devices(root, _BRIDGE)


def next_kernel(root: str = "/") -> dict[str, Any] | None:
    """The kernel of the next boot and whether modules can be built for it; None if it is unknown."""
    links = [_target(os.path.join(root, link)) for link in KERNEL_LINKS]
    version = newest_kernel(_names(os.path.join(root, "boot")), links)
    if version is None:
        return None
    # The link is created with the modules, and dangles until the headers are installed.
    places = (f"lib/modules/{version}/build", f"usr/src/linux-headers-{version}")
    return {"version": version, "headers": any(os.path.exists(os.path.join(root, place)) for place in places)}


def _runfile(root: str) -> str | None:
    """The uninstaller left by NVIDIA's own installer, which no package contains."""
    return f"/{RUNFILE}" if os.path.exists(os.path.join(root, RUNFILE)) else None


def _persistenced(host: Host, root: str) -> str | None:
    """The command by which the package's own unit starts the persistence daemon, regardless of drop-ins."""
    texts = (host.read_text(os.path.join(root, place)) for place in PERSISTENCE_UNITS)
    return next((started for text in texts if text is not None and (started := exec_start(text))), None)


def _target(link: str) -> str | None:
    try:
        return os.readlink(link)
    except OSError:
        return None


def pci_gpus(root: str = "/") -> int:
    """The number of NVIDIA GPUs on the PCI bus, with or without a driver."""
    return _devices(root, _GPU)


def _devices(root: str, kinds: tuple[str, ...]) -> int:
    return sum(_is_a(os.path.join(root, PCI, device), kinds) for device in _names(os.path.join(root, PCI)))


def _is_a(device: str, kinds: tuple[str, ...]) -> bool:
    vendor, kind = (_word(os.path.join(device, name)) for name in ("vendor", "class"))
    return vendor == _NVIDIA and kind.startswith(kinds)


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


def _there(
    host: Host, packages: Sequence[str], headers: str, timeout: float
) -> tuple[dict[str, tuple[str, bool]], str | None]:
    """Installed NVIDIA packages and `packages`, each with version and hold; and the version of the kernel's headers."""
    result = host.run(["dpkg-query", "--show", f"--showformat={FULL_FORMAT}", headers, *RELATED, *packages], timeout)
    if result.problem or result.rc not in (0, 1):
        raise ValueError(result.summary)
    found = parse_installed(result.stdout)
    version, _ = found.pop(headers, (None, False))
    return found, version


def _secure_boot(host: Host, timeout: float, root: str) -> bool | None:
    if not os.path.isdir(os.path.join(root, "sys/firmware/efi")):
        return False
    variable = host.read_text(os.path.join(root, SECURE_BOOT))
    said = "" if variable else host.run(["mokutil", "--sb-state"], timeout).stdout
    return parse_secure_boot(variable, said)


def _signing(host: Host, timeout: float, root: str) -> bool:
    """Whether a key that DKMS signs with is enrolled in the firmware."""
    for key in SIGNING_KEYS:
        path = os.path.join(root, key)
        if os.path.exists(path) and "already enrolled" in host.run(["mokutil", "--test-key", path], timeout).stdout:
            return True
    return False
