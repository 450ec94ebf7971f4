# SPDX-License-Identifier: Apache-2.0
"""Copies between the host's memory and a GPU, which reveal a slow or narrow PCIe link; computing does not."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

LARGEST = 256 << 20
"""Bytes of one copy: large enough to make its launch time negligible, and affordable on a host of eight GPUs."""
SECONDS = 1.0
"""The longest time to measure each direction: GPUs are measured one after the other."""

Timed = Callable[[Callable[[], Any], float, float], tuple[float, float]]
"""Takes a step, its work and a duration; returns units of work per second, overall and in the best moment."""


def copy_rates(torch: Any, device: Any, on_gpu: bool, size: int, timed: Timed, seconds: float) -> dict[str, Any]:
    """Measure GB/s to the device and back from pinned memory, and whether the data came back unchanged."""
    near = _processors_near(torch, device) if on_gpu else set()
    before = os.sched_getaffinity(0)
    try:
        if near & before:
            # Memory is allocated where the process runs, and that of another processor is farther from the GPU.
            os.sched_setaffinity(0, near & before)
        return _measured(torch, device, on_gpu, size, timed, min(seconds, SECONDS))
    finally:
        os.sched_setaffinity(0, before)


def _measured(torch: Any, device: Any, on_gpu: bool, size: int, timed: Timed, seconds: float) -> dict[str, Any]:
    length = max(1, int(size) // 8)
    source = torch.arange(length, dtype=torch.int64, pin_memory=on_gpu)
    target = torch.zeros(length, dtype=torch.int64, pin_memory=on_gpu)
    there = torch.empty(length, dtype=torch.int64, device=device)
    going, _ = timed(lambda: there.copy_(source, non_blocking=True), 8.0 * length, seconds)
    coming, _ = timed(lambda: target.copy_(there, non_blocking=True), 8.0 * length, seconds)
    facts = {"to_device_gb_s": round(going / 1e9, 1), "from_device_gb_s": round(coming / 1e9, 1)}
    return {"host_copy": {**facts, "bytes": 8 * length, "is_equal": bool(torch.equal(source, target))}}


def _processors_near(torch: Any, device: Any) -> set[int]:
    """Processors of the GPU's own NUMA node; empty if it is unknown, as in some virtual machines."""
    found = torch.cuda.get_device_properties(device)
    try:
        address = f"{found.pci_domain_id:04x}:{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"
        with open(f"/sys/bus/pci/devices/{address}/local_cpulist", encoding="ascii") as stream:
            return processors(stream.read())
    except (AttributeError, OSError, ValueError):
        return set()


def processors(listed: str) -> set[int]:
    """Parse a list of numbers as the kernel prints it: 0-3,8,10-11. Raises ValueError for other text."""
    found: set[int] = set()
    for part in listed.strip().split(","):
        first, dash, last = part.partition("-")
        if part:
            found.update(range(int(first), int(last if dash else first) + 1))
    return found
