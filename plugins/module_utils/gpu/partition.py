# SPDX-License-Identifier: Apache-2.0
"""Who runs the fabric of GPUs behind NVSwitches: this machine, or the owner of the host whose guest it is.

A virtual machine may be given some GPUs of an HGX board and none of its NVSwitches. The fabric manager then runs on the
host, or in another machine of the host's owner, and activates a partition; in the guest it has nothing to manage and
exits with "nothing to do" (NVIDIA's Fabric Manager User Guide, shared NVSwitch and vGPU multitenancy). Such a guest
must not be mistaken for a machine whose NVSwitches have fallen off the bus, nor the other way round. The evidence is
the PCI bus, what the driver reports about virtualisation, and whether an NVSwitch was seen here since the boot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..parsers.reading import Reading, of_kind
from .expected import Expected

RUN_BY_HOST = "the fabric is run by the owner of the host"
ACTIVATE = (
    "have the owner of the host activate the fabric partition of exactly these GPUs; if the driver was changed, "
    "restore the one that the machine came with, as the host's fabric manager may accept no other"
)

_GUEST = frozenset({"pass-through", "passthrough", "vgpu"})
"""Virtualisation modes of a GPU in a guest. `None` is bare metal, and a host of vGPUs reports other modes."""
_KILLED = frozenset({"signal", "core-dump", "watchdog", "oom-kill"})
"""The results by which systemd reports that a running service was killed."""


def as_observed(readings: Sequence[Reading], expected: Expected) -> Expected:
    """The profile, with `fabric_by_host` set from what these readings of one host show."""
    if not expected.nvswitch:
        return expected
    return replace(expected, fabric_by_host=_is_by_host(readings, expected.fabric_by_host))


def _is_by_host(readings: Sequence[Reading], said: bool) -> bool:
    """`said` is the profile's claim: it counts if there is no evidence, and never against evidence."""
    if any(map(_has_switches, readings)):
        return False
    guest = _is_guest(readings)
    if guest is None:
        return said
    return guest and (said or any(map(_has_none, readings)))


def _is_guest(readings: Sequence[Reading]) -> bool | None:
    """Whether this is a virtual machine, according to the driver for every GPU; None if it does not say."""
    told = set(_modes(readings))
    return told <= _GUEST if told else None


def _modes(readings: Sequence[Reading]) -> Iterator[str]:
    for reading in of_kind(readings, "smi-xml", "smi-q"):
        for gpu in reading.data.get("gpus") or ():
            mode = gpu.get("virtualization_mode")
            if mode is not None:
                yield str(mode).lower()


def _has_switches(reading: Reading) -> bool:
    """Whether this reading shows an NVSwitch that the machine has, or has had since boot."""
    data = reading.data
    if reading.kind == "lspci":
        return bool(data.get("nvswitches"))
    if reading.kind == "kernel-log":
        return bool(data.get("found_nvswitch") or data.get("sxids"))
    return reading.kind == "fabricmanager" and _managed(data)


def _managed(data: Mapping[str, Any]) -> bool:
    """Whether a fabric manager of this machine has found switches; one that exited at once has not."""
    if data.get("nothing_to_do"):
        return False
    unit: Mapping[str, Any] = data.get("unit") or {}
    killed = unit.get("result") in _KILLED or "killed" in str(unit.get("ended") or "")
    return killed or any(data.get(word) for word in ("configured", "serves", "sxids", "wrong_topology"))


def _has_none(reading: Reading) -> bool:
    """Whether this proves that no NVSwitch is on the bus: a complete listing with GPUs, or the fabric manager's log."""
    data = reading.data
    if reading.kind == "fabricmanager":
        return bool(data.get("nothing_to_do"))
    whole = reading.kind == "lspci" and not reading.problems and not data.get("part")
    return bool(whole and data.get("gpus") and not data.get("nvswitches"))
