# SPDX-License-Identifier: Apache-2.0
"""Faults of a described machine: strings or objects in machine.json, with their meaning in faults.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .machine import Gpu


@dataclass(frozen=True)
class Fault:
    """One fault: its name, the position of the GPU it hits, and its parameters."""

    name: str
    gpu: int
    parameters: dict[str, Any] = field(default_factory=dict)


def parse_faults(listed: Any, known: Mapping[str, Any], gpus: int) -> list[Fault]:
    """Read `"name"`, `"name:2"` or `{"fault": "name", "gpu": 2, ...}`; refuse what would do nothing."""
    if not isinstance(listed, list):
        raise ValueError(f"faults must be a list, found {listed!r}")
    return [_parse(item, known, gpus) for item in listed]


def _parse(item: Any, known: Mapping[str, Any], gpus: int) -> Fault:
    if isinstance(item, str):
        name, _, position = item.partition(":")
        given: dict[str, Any] = {"gpu": int(position)} if position.isdigit() else {}
    elif isinstance(item, dict) and isinstance(item.get("fault"), str):
        given = {key: value for key, value in item.items() if key != "fault"}
        name = item["fault"]
    else:
        raise ValueError(f'a fault is "name", "name:GPU" or {{"fault": name, "gpu": N}}; found {item!r}')
    if name not in known:
        raise ValueError(f'fault "{name}" is not known; use one of: {", ".join(sorted(known))}')
    gpu = int(given.pop("gpu", 0))
    if not 0 <= gpu < gpus:
        raise ValueError(f'fault "{name}" names GPU {gpu}, but the profile has GPUs 0 to {gpus - 1}')
    parameters = dict(known[name].get("parameters", {}))
    unknown = sorted(set(given) - set(parameters))
    if unknown:
        allowed = ", ".join(sorted(parameters)) or "none"
        raise ValueError(f'fault "{name}" has no parameter {", ".join(unknown)}; it takes: {allowed}')
    return Fault(name, gpu, {**parameters, **given})


def apply(fault: Fault, meaning: Mapping[str, Any], gpus: Sequence[Gpu]) -> None:
    """Change the readings of the GPU that the fault names. Faults of the whole machine are the caller's."""
    if meaning.get("machine"):
        return
    gpu = gpus[fault.gpu]
    for path, template in meaning.get("values", {}).items():
        if gpu.values.get(path) != "N/A":
            gpu.values[path] = str(template).format(**fault.parameters)
    if fault.name == "gpu_missing":
        gpu.trouble = "missing"
    elif fault.name in ("device_handle_error", "gpu_lost"):
        gpu.trouble = str(fault.parameters["reason"])
        gpu.lost = fault.name == "gpu_lost"
    elif fault.name in ("nvlink_inactive", "nvlink_slow"):
        listed = fault.parameters["links"]
        hit = range(len(gpu.links)) if listed == "all" else [int(link) for link in listed]
        for link in hit:
            if link < len(gpu.links):
                gpu.links[link] = str(fault.parameters["speed"]) if fault.name == "nvlink_slow" else None
    elif fault.name == "gpu_busy":
        _occupy(gpu, fault.parameters)


def _occupy(gpu: Gpu, parameters: Mapping[str, Any]) -> None:
    """Let a process hold memory, so that used and free add up."""
    gpu.processes.append(dict(parameters))
    memory = "fb_memory_usage/"
    if gpu.values[memory + "used"] != "N/A":
        used = int(gpu.values[memory + "used"].split()[0]) + int(parameters["mib"])
        free = int(gpu.values[memory + "free"].split()[0]) - int(parameters["mib"])
        gpu.values[memory + "used"], gpu.values[memory + "free"] = f"{used} MiB", f"{free} MiB"
    gpu.values["clocks_event_reasons/clocks_event_reason_gpu_idle"] = "Not Active"
