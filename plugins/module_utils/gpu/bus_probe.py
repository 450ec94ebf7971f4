# SPDX-License-Identifier: Apache-2.0
"""What a target's kernel knows of its GPUs, even if the driver does not answer: PCI bus, driver's list, modules.

Read from files and formatted as the tools print it, so that no tool need be installed.
"""

from __future__ import annotations

import os
import platform

from ..parsers.lspci import last_line

PCI = "sys/bus/pci/devices"
PROC_GPUS = "proc/driver/nvidia/gpus"
MODULES = "proc/modules"
_NVIDIA = "10de"
_KEPT = 5
"""Columns of /proc/modules before the address, which is left out."""

Asked = tuple[str, int, str, str]
"""The command line, its return code, its output, and why there is none."""


def pci_listing(root: str) -> Asked:
    """List NVIDIA's PCI devices as `lspci -D -n` prints them, and state how many devices there are in all."""
    command, folder = "lspci -D -n -d 10de:", os.path.join(root, PCI)
    try:
        devices = sorted(os.listdir(folder))
    except OSError as error:
        return command, 1, "", f"/{PCI} cannot be read: {error.strerror}"
    own = [device for device in devices if _word(folder, device, "vendor") == _NVIDIA]
    lines = [_line(folder, device) for device in own]
    return command, 0, "\n".join([*lines, last_line(len(devices), len(own))]) + "\n", ""


def _line(folder: str, device: str) -> str:
    kind, number = _word(folder, device, "class")[:4] or "0000", _word(folder, device, "device") or "0000"
    revision = _word(folder, device, "revision")
    return f"{device} {kind}: {_NVIDIA}:{number}" + (f" (rev {revision})" if revision else "")


def _word(folder: str, device: str, name: str) -> str:
    """Read a numeric attribute of a device, without its 0x prefix."""
    try:
        with open(os.path.join(folder, device, name), encoding="ascii", errors="replace") as stream:
            return stream.read(64).strip().lower().removeprefix("0x")
    except OSError:
        return ""


def driver_gpus(root: str) -> Asked:
    """Return what the loaded driver reports about each of its GPUs, one after the other."""
    command, folder = f"cat /{PROC_GPUS}/*/information", os.path.join(root, PROC_GPUS)
    texts = []
    try:
        for device in sorted(os.listdir(folder)):
            with open(os.path.join(folder, device, "information"), encoding="utf-8", errors="replace") as stream:
                texts.append(stream.read(8192))
    except OSError as error:
        return command, 1, "", f"/{PROC_GPUS} cannot be read: {error.strerror}"
    return (command, 0, "".join(texts), "") if texts else (command, 1, "", f"/{PROC_GPUS} is empty")


def loaded_modules(root: str) -> Asked:
    """Return the kernel and its modules, as `uname -sr` and `lsmod` print them."""
    command = f"uname -sr; cat /{MODULES}"
    try:
        with open(os.path.join(root, MODULES), encoding="utf-8", errors="replace") as stream:
            rows = [" ".join(line.split()[:_KEPT]) for line in stream]
    except OSError as error:
        return command, 1, "", f"/{MODULES} cannot be read: {error.strerror}"
    return command, 0, "\n".join([f"{platform.system()} {platform.release()}", *rows]) + "\n", ""
