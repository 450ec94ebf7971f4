# SPDX-License-Identifier: Apache-2.0
"""A simple view of nvidia-smi for callers that only need to know which GPUs exist: the list, and one short query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .query_gpu import parse_query_gpu as parse_query
from .smi_list import parse_smi_list

GPU_QUERY = "index,name,memory.total,driver_version,uuid"
"""The --query-gpu fields that `parse_query_gpu` expects, with --format=csv,noheader,nounits."""


@dataclass(frozen=True)
class Gpu:
    """One GPU as the driver reports it; unified-memory parts report no memory of their own (None)."""

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
    """Parse `nvidia-smi -L`; MIG slices are indented below their GPU and are not GPUs."""
    return _reading(*parse_smi_list(text))


def parse_query_gpu(text: str) -> GpuReading:
    """Parse `nvidia-smi --query-gpu=<GPU_QUERY> --format=csv,noheader,nounits`."""
    return _reading(*parse_query(text, GPU_QUERY.split(",")))


def _reading(data: Mapping[str, Any], problems: Sequence[str]) -> GpuReading:
    listed = [gpu for gpu in data.get("gpus", ()) if gpu.get("index") is not None and gpu.get("name")]
    gpus = [
        Gpu(gpu["index"], gpu["name"], gpu.get("uuid") or "", gpu.get("memory.total"), gpu.get("driver_version") or "")
        for gpu in listed
    ]
    # An empty text is not a complaint: the empty list of GPUs is enough.
    said = problems if data or any('"' in one for one in problems) else ()
    library = [f"NVML library version: {data['library']}"] if data.get("library") else []
    return GpuReading(tuple(gpus), (*data.get("trouble", ()), *library, *data.get("warnings", ()), *said))
