# SPDX-License-Identifier: Apache-2.0
"""Who runs the fabric of GPUs behind NVSwitches: this machine, or the owner of the host whose guest it is.

A virtual machine may be given some GPUs of an HGX board and none of its NVSwitches. The fabric manager then runs on the
host, or in a machine of the host's owner, and activates a partition; in the guest there is nothing for it to manage, so
that it ends with "nothing to do" (NVIDIA's Fabric Manager User Guide, shared NVSwitch and vGPU multitenancy). Such a
guest must not be mistaken for a machine whose NVSwitches have fallen off the bus, nor the other way round: what decides
is the PCI bus, what the driver says of virtualisation, and whether an NVSwitch was seen here since the boot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..parsers.reading import Reading, of_kind
from .expected import Expected

RUN_BY_HOST = "the fabric is run by the owner of the host"
ACTIVATE = (
    "have the owner of the host activate the fabric partition of exactly these GPUs; where the driver was changed, put "
    "back the one that the machine came with, as the host's fabric manager may take no other"
)

_GUEST = frozenset({"pass-through", "passthrough", "vgpu"})
"""What the driver says of a GPU in a virtual machine; `None` is bare metal, and a host of vGPUs has its own words."""
_KILLED = frozenset({"signal", "core-dump", "watchdog", "oom-kill"})
"""How systemd says that a service which had come up was killed."""


def as_observed(readings: Sequence[Reading], expected: Expected) -> Expected:
    """The profile, with who runs its fabric as these readings of one host show it."""
    if not expected.nvswitch:
        return expected
    return replace(expected, fabric_by_host=_is_by_host(readings, expected.fabric_by_host))


def _is_by_host(readings: Sequence[Reading], said: bool) -> bool:
    """`said`: the profile says so, which counts where nothing tells, and nowhere against what is told."""
    if any(map(_has_switches, readings)):
        return False
    guest = _is_guest(readings)
    if guest is None:
        return said
    return guest and (said or any(map(_has_none, readings)))


def _is_guest(readings: Sequence[Reading]) -> bool | None:
    """Whether this is a virtual machine, as the driver says of every GPU; None where it does not."""
    told = set(_modes(readings))
    return told <= _GUEST if told else None


def _modes(readings: Sequence[Reading]) -> Iterator[str]:
    for reading in of_kind(readings, "smi-xml", "smi-q"):
        for gpu in reading.data.get("gpus") or ():
            mode = gpu.get("virtualization_mode")
            if mode is not None:
                yield str(mode).lower()


def _has_switches(reading: Reading) -> bool:
    """Whether this tells of an NVSwitch that the machine has, or has had since it was booted."""
    data = reading.data
    if reading.kind == "lspci":
        return bool(data.get("nvswitches"))
    if reading.kind == "kernel-log":
        return bool(data.get("found_nvswitch") or data.get("sxids"))
    return reading.kind == "fabricmanager" and _managed(data)


def _managed(data: Mapping[str, Any]) -> bool:
    """Whether a fabric manager of this machine has found switches; one that ended at once has not."""
    if data.get("nothing_to_do"):
        return False
    unit: Mapping[str, Any] = data.get("unit") or {}
    killed = unit.get("result") in _KILLED or "killed" in str(unit.get("ended") or "")
    return killed or any(data.get(word) for word in ("configured", "serves", "sxids", "wrong_topology"))


def _has_none(reading: Reading) -> bool:
    """Whether this proves that no NVSwitch is on the bus: a whole listing with GPUs, or the fabric manager's word."""
    data = reading.data
    if reading.kind == "fabricmanager":
        return bool(data.get("nothing_to_do"))
    whole = reading.kind == "lspci" and not reading.problems and not data.get("part")
    return bool(whole and data.get("gpus") and not data.get("nvswitches"))
