# SPDX-License-Identifier: Apache-2.0
"""The PCI bus against the driver: GPUs that the driver lacks, NVSwitches, and GPUDirect RDMA."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...parsers.lspci import short
from ...parsers.reading import Reading, of_kind
from ..check import Check, could_not_check, failed, not_applicable, passed
from ..expected import Expected
from ..partition import RUN_BY_HOST

_SMI = ("query-gpu", "smi-xml", "smi-q", "smi-table")
_PEERMEM = ("nvidia_peermem", "nv_peer_mem")
_FIRST_WITH_DMA_BUF = (5, 12)
"""The first kernel whose RDMA devices accept a GPU's memory as a dma-buf."""
_NAMED = 8
_COLD = (
    "look for Xid 79 and RmInitAdapter in `dmesg` and boot the host cold; if the GPU does not come back, reseat the "
    "board and have it replaced"
)


def check_bus(readings: Sequence[Reading], expected: Expected) -> list[Check]:
    """Check the devices on the PCI bus, and the modules that the kernel has loaded for them."""
    checks: list[Check] = []
    for reading in of_kind(readings, "lspci"):
        checks += [_gpus(reading, readings, expected), _nvswitches(reading, expected)]
    checks += [_peermem(reading, readings, expected) for reading in of_kind(readings, "modules")]
    return checks


def _gpus(reading: Reading, readings: Sequence[Reading], expected: Expected) -> Check:
    name, wanted = "gpu.bus", f"{_counted(expected.gpus)} on the PCI bus, each with the driver"
    if not reading.understood:
        return could_not_check(name, reading, wanted, "; ".join(reading.problems) or "nothing was printed")
    on_bus = [str(one["bus"]) for one in reading.data["gpus"]]
    gone = [str(one["bus"]) for one in reading.data["gpus"] if one.get("gone")]
    if gone:
        return failed(name, reading, wanted, f"{_listed(gone)} no longer answers on the bus (revision ff)", _COLD)
    told = [one for one in of_kind(readings, *_SMI, "proc-version") if _addresses(one)]
    answering = {bus for one in told if one.kind in _SMI for bus in _addresses(one)}
    known = answering or {bus for one in told for bus in _addresses(one)}
    there = f"{_counted(len(on_bus))} on the PCI bus"
    unlisted = sorted(known - {*on_bus})
    if unlisted:
        why = f"{there}, and the driver also has {_listed(unlisted)}: the listing is incomplete, or of another host"
        return could_not_check(name, reading, wanted, why)
    missing = [bus for bus in on_bus if known and bus not in known]
    if missing and any(_is_whole(one) for one in told):
        verb = "answers" if len(known) == 1 else "answer"
        lacking = f"{_listed(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        return failed(name, reading, wanted, f"{there}, {len(known)} {verb}: {lacking}", _COLD)
    if reading.problems or (reading.data.get("part") and len(on_bus) < expected.gpus):
        return could_not_check(name, reading, wanted, "; ".join([there, *reading.problems]))
    if len(on_bus) != expected.gpus:
        remedy = (
            "switch the host off, check that every board has power and is seated, and check what the firmware lists; "
            "if there never were others, use this machine's profile"
        )
        return failed(name, reading, wanted, there, remedy)
    if missing or (not known and of_kind(readings, *_SMI)):
        which = f"nothing about {_listed(missing)}" if missing else "no tool lists the GPUs by their address"
        return could_not_check(name, reading, wanted, f"{there}; unknown whether all answer: {which}")
    return passed(name, reading, wanted if known else f"{_counted(expected.gpus)} on the PCI bus", there)


def _addresses(reading: Reading) -> set[str]:
    """The PCI addresses of a reading's GPUs; empty unless every GPU has a distinct one."""
    gpus = reading.data.get("gpus") or ()
    found = {str(gpu["bus"]) for gpu in gpus if gpu.get("bus")}
    return found if len(found) == len(gpus) else set()


def _is_whole(reading: Reading) -> bool:
    """Whether a GPU missing from this reading does not answer, rather than having been cut off."""
    data = reading.data
    if data.get("trouble"):
        return True
    return not reading.problems and not any(data.get(mark) for mark in ("cut", "unread", "torn"))


def _nvswitches(reading: Reading, expected: Expected) -> Check:
    name, count = "gpu.nvswitches", expected.hardware.get("nvswitches")
    wanted = f"{count} NVSwitches on the PCI bus" if count else "NVSwitches on the PCI bus"
    found = [str(one["bus"]) for one in reading.data.get("nvswitches") or ()]
    if not expected.nvswitch:
        return not_applicable(name, reading, "none", "these GPUs are not joined by NVSwitches")
    if not reading.understood:
        return could_not_check(name, reading, wanted, "; ".join(reading.problems) or "nothing was printed")
    if expected.fabric_by_host and not reading.problems:
        return not_applicable(name, reading, "none in a guest", f"none: {RUN_BY_HOST}")
    gone = [str(one["bus"]) for one in reading.data["nvswitches"] if one.get("gone")]
    if gone:
        remedy = "boot the host cold; if the NVSwitch does not come back, have the baseboard replaced"
        return failed(name, reading, wanted, f"{_listed(gone)} no longer answers on the bus (revision ff)", remedy)
    enough = len(found) >= (count or 1)
    if reading.problems or (reading.data.get("part") and not enough):
        return could_not_check(name, reading, wanted, "; ".join([f"{len(found)} are shown", *reading.problems]))
    if not enough:
        remedy = (
            "boot the host cold and check what the firmware lists; for a virtual machine whose fabric the owner of its "
            "host runs, `nvidia-smi -q` shows it (GPU Virtualization Mode)"
        )
        return failed(name, reading, wanted, f"{len(found) or 'none'}", remedy)
    return passed(name, reading, wanted, str(len(found)))


def _peermem(reading: Reading, readings: Sequence[Reading], expected: Expected) -> Check:
    """Check RDMA between GPUs and network cards: by a module of the driver, or by dma-buf, which needs none."""
    name, wanted = "gpu.peermem", "GPUDirect RDMA: the module nvidia_peermem, or dma-buf"
    if expected.unified:
        return not_applicable(name, reading, wanted, "the GPU shares the host's memory: neither supported nor needed")
    if not expected.fabric.get("rdma"):
        return not_applicable(name, reading, wanted, "the profile's fabric has no RDMA")
    if not reading.understood:
        return could_not_check(name, reading, wanted, "; ".join(reading.problems))
    loaded = set(reading.data["modules"])
    there = sorted(loaded & {*_PEERMEM})
    if there:
        return passed(name, reading, wanted, f"{there[0]} is loaded")
    open_ = {one.data.get("flavour") for one in of_kind(readings, "proc-version")} - {None}
    kernel = _version(reading.data.get("kernel"))
    if reading.problems:
        return could_not_check(name, reading, wanted, "; ".join(reading.problems[:4]))
    if open_ == {"open"} and kernel is None and "ib_uverbs" in loaded:
        return could_not_check(
            name, reading, wanted, "nvidia_peermem is not loaded, and the kernel's release is unknown"
        )
    if open_ == {"open"} and kernel and kernel >= _FIRST_WITH_DMA_BUF and "ib_uverbs" in loaded:
        return passed(name, reading, wanted, f"dma-buf, of the open module and Linux {reading.data['kernel']}")
    if not open_ and "ib_uverbs" in loaded:
        return could_not_check(
            name, reading, wanted, "nvidia_peermem is not loaded, and the driver's flavour is unknown"
        )
    lacks = "ib_uverbs is not loaded either" if "ib_uverbs" not in loaded else "this driver or kernel has no dma-buf"
    remedy = (
        "load the RDMA drivers, then the module, at every boot (a file in /etc/modules-load.d): otherwise NCCL copies"
    )
    return failed(name, reading, wanted, f"nvidia_peermem is not loaded, {lacks}", remedy, "modprobe nvidia-peermem")


def _version(release: object) -> tuple[int, int] | None:
    numbers = str(release or "").split(".")
    return (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 and all(map(str.isdigit, numbers[:2])) else None


def _listed(buses: Iterable[str]) -> str:
    names = [short(bus) for bus in buses]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _counted(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"
