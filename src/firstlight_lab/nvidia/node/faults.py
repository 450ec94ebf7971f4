# SPDX-License-Identifier: Apache-2.0
"""Faults of a described machine: strings or objects in machine.json, whose effects are defined in faults.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .machine import Gpu


@dataclass(frozen=True)
class Fault:
    """A fault: its name, the position of the affected GPU, and its parameters."""

    name: str
    gpu: int
    parameters: dict[str, Any] = field(default_factory=dict)


def release_fault(document: Any, name: str, version: str) -> dict[str, Any] | None:
    """Return the parameters of this fault for a driver release, or None if that release does not have it.

    Uses only the description, because the files that define faults may be missing while packages are replaced.
    """
    listed = document.get("faults", []) if isinstance(document, dict) else []
    for item in listed if isinstance(listed, list) else []:
        found, given = _words(item)
        if found == name and given.get("version", "any") in ("any", version):
            return given
    return None


def parse_faults(listed: Any, known: Mapping[str, Any], gpus: int) -> list[Fault]:
    """Parse `"name"`, `"name:2"`, `"name:key=value"` or `{"fault": "name", "gpu": 2, ...}`. Raises ValueError."""
    if not isinstance(listed, list):
        raise ValueError(f"faults must be a list, found {listed!r}")
    return [_parse(item, known, gpus) for item in listed]


def _words(item: Any) -> tuple[str, dict[str, Any]]:
    """Return the name of a fault and its given parameters."""
    if isinstance(item, str):
        name, _, rest = item.partition(":")
        if rest.isdigit():
            return name, {"gpu": int(rest)}
        pairs = [word.partition("=") for word in rest.split(",")] if rest else []
        if not all(key and assigned for key, assigned, _ in pairs):
            raise ValueError(f'a fault is "name", "name:GPU" or "name:key=value"; found {item!r}')
        return name, {key: value for key, _, value in pairs}
    if isinstance(item, dict) and isinstance(item.get("fault"), str):
        return item["fault"], {key: value for key, value in item.items() if key != "fault"}
    raise ValueError(f'a fault is "name", "name:GPU" or {{"fault": name, "gpu": N}}; found {item!r}')


def _parse(item: Any, known: Mapping[str, Any], gpus: int) -> Fault:
    name, given = _words(item)
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
    """Apply a fault to the readings of its GPU. Most faults of the whole machine are handled by the caller."""
    if fault.name == "nvlink_absent":
        for each in gpus:
            each.links = [None] * len(each.links)
    whole = bool(meaning.get("machine"))
    for each in gpus if whole else [gpus[fault.gpu]]:
        for path, template in meaning.get("values", {}).items():
            if each.values.get(path) != "N/A":
                each.values[path] = str(template).format(**fault.parameters)
    if whole:
        return
    gpu = gpus[fault.gpu]
    if fault.name == "gpu_missing":
        gpu.trouble = "missing"
    elif fault.name in ("device_handle_error", "gpu_lost"):
        gpu.trouble = str(fault.parameters["reason"])
        gpu.lost = fault.name == "gpu_lost"
    elif fault.name in ("nvlink_inactive", "nvlink_slow"):
        listed = fault.parameters["links"]
        for link in _links(listed, len(gpu.links)):
            gpu.links[link] = str(fault.parameters["speed"]) if fault.name == "nvlink_slow" else None
    elif fault.name == "nvlink_errors":
        counted = {name: int(fault.parameters[name]) for name in ("replay", "recovery", "crc")}
        gpu.link_errors |= dict.fromkeys(_links(fault.parameters["links"], len(gpu.links)), counted)
    elif fault.name == "mig_enabled":
        gpu.instances = [int(slices) for slices in _listed(fault.parameters["instances"])]
    elif fault.name == "gpu_busy":
        _occupy(gpu, fault.parameters)


def _listed(given: Any) -> list[Any]:
    """Return a list, which is written with dots on a command line: `links=7.12`."""
    return str(given).split(".") if isinstance(given, (str, int)) else list(given)


def _links(given: Any, links: int) -> list[int]:
    """Return the links named by a fault that the GPU actually has."""
    named = range(links) if given == "all" else [int(link) for link in _listed(given)]
    return [link for link in named if link < links]


def _occupy(gpu: Gpu, parameters: Mapping[str, Any]) -> None:
    """Add a process that holds memory, keeping used and free memory consistent."""
    gpu.processes.append(dict(parameters))
    memory = "fb_memory_usage/"
    if gpu.values[memory + "used"] != "N/A":
        used = int(gpu.values[memory + "used"].split()[0]) + int(parameters["mib"])
        free = int(gpu.values[memory + "free"].split()[0]) - int(parameters["mib"])
        gpu.values[memory + "used"], gpu.values[memory + "free"] = f"{used} MiB", f"{free} MiB"
    gpu.values["clocks_event_reasons/clocks_event_reason_gpu_idle"] = "Not Active"
