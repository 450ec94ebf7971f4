# SPDX-License-Identifier: Apache-2.0
"""The meaning of nvidia-smi's error messages, and the remedy for each."""

from __future__ import annotations

from collections.abc import Iterable

_REMEDIES = (
    ("version mismatch", "reboot the host: the loaded module is not the installed one"),
    (
        "couldn't communicate",
        "load the module (`modprobe nvidia`) and see in `dmesg` why it is not loaded; after a change of driver, reboot",
    ),
    (
        "failed to initialize nvml: unknown error",
        "in a container, restart it (systemd can take its GPUs away), else look for Xid in `dmesg`",
    ),
    ("driver not loaded", "load the module (`modprobe nvidia`) and check `dmesg` for why it is not loaded"),
    (
        "requires reset",
        "drain the host, reset the GPU (`nvidia-smi --gpu-reset -i N`) or reboot, and look for Xid in `dmesg`",
    ),
    ("reset required", "drain the host, reset the GPU (`nvidia-smi --gpu-reset -i N`) or reboot"),
    (
        "no devices were found",
        "compare with `lspci -d 10de:`, look for Xid and RmInitAdapter in `dmesg`, and boot the host cold",
    ),
    ("not found", "install the driver's utilities, or run it where the driver is (a container needs --gpus)"),
    ("libnvidia-ml", "install the driver's libraries of the same version as the module"),
    ("permission", "run it as root, or give the user access to /dev/nvidia*"),
    ("gave no answer", "look for Xid 119 and processes in state D, take the host out of service and reboot it"),
    ("no answer within", "look for Xid 119 and processes in state D, take the host out of service and reboot it"),
    ("timed out", "look for Xid 119 and processes in state D, take the host out of service and reboot it"),
    ("access blocked", "check how the GPU is passed through to this virtual machine"),
)
_LOST = (
    "boot the host cold; if the GPU does not come back, look for Xid 79 in `dmesg`, reseat the board, "
    "and have it replaced"
)


def remedy_for(lines: Iterable[str]) -> str:
    """Return the remedy of the first known complaint in the lines; by default that of a lost GPU, a cold boot."""
    said = " ".join(lines).lower()
    return next((remedy for words, remedy in _REMEDIES if words in said), _LOST)


def wants_reset(line: str) -> bool:
    """Whether the driver asks for a reset in this complaint."""
    lowered = line.lower()
    return "requires reset" in lowered or "require reset" in lowered or "reset required" in lowered
