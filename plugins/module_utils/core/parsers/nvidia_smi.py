# SPDX-License-Identifier: Apache-2.0
"""nvidia-smi: the list of GPUs and the CSV query."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .text import strip_ansi

GPU_QUERY = "index,name,memory.total,driver_version,uuid"
"""The --query-gpu fields `parse_query_gpu` reads, with --format=csv,noheader,nounits."""

_LISTED = re.compile(r"^GPU (?P<index>\d+): (?P<name>.+?) \(UUID: (?P<uuid>[^)]+)\)\s*$")


@dataclass(frozen=True)
class Gpu:
    """One GPU as the driver tells of it; unified-memory parts report no memory of their own (None)."""

    index: int
    name: str
    uuid: str = ""
    memory_mib: int | None = None
    driver: str = ""


@dataclass(frozen=True)
class GpuReading:
    """The GPUs that answered, and every line that was not a GPU: a lost one is only mentioned in passing."""

    gpus: tuple[Gpu, ...] = ()
    complaints: tuple[str, ...] = field(default=())


def parse_gpu_list(text: str) -> GpuReading:
    """`nvidia-smi -L`; MIG slices are indented below their GPU and are not GPUs."""
    gpus: list[Gpu] = []
    complaints: list[str] = []
    for line in strip_ansi(text).splitlines():
        found = _LISTED.match(line)
        if found:
            gpus.append(Gpu(int(found["index"]), found["name"], found["uuid"]))
        elif line.strip() and not line.startswith(("  MIG", "\tMIG")):
            complaints.append(line.strip())
    return GpuReading(tuple(gpus), tuple(complaints))


def parse_query_gpu(text: str) -> GpuReading:
    """`nvidia-smi --query-gpu=<GPU_QUERY> --format=csv,noheader,nounits`."""
    gpus: list[Gpu] = []
    complaints: list[str] = []
    for line in strip_ansi(text).splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(GPU_QUERY.split(",")) and cells[0].isdigit():
            memory = cells[2].removesuffix("MiB").strip()
            gpus.append(
                Gpu(
                    index=int(cells[0]),
                    name=cells[1],
                    uuid=cells[4],
                    memory_mib=int(memory) if memory.isdigit() else None,
                    driver=cells[3],
                )
            )
        elif line.strip():
            complaints.append(line.strip())
    return GpuReading(tuple(gpus), tuple(complaints))
