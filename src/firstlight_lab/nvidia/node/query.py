# SPDX-License-Identifier: Apache-2.0
"""Output of `nvidia-smi --query-gpu` and its smaller relatives, as comma-separated values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from .machine import NO_READING, Driver, Gpu, Machine

UNIT = re.compile(r"^(-?\d+(?:\.\d+)?)(?: ?(?:MiB|MHz|W|C|%|us|KB/s|bank\(s\)|x))$")
# Bits of nvmlClocksEventReasons*, by the reading that shows them.
REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}
APPS = {
    "timestamp": ("timestamp", ""),
    "gpu_name": ("gpu_name", ""),
    "gpu_bus_id": ("gpu_bus_id", ""),
    "gpu_serial": ("gpu_serial", ""),
    "gpu_uuid": ("gpu_uuid", ""),
    "pid": ("pid", ""),
    "process_name": ("process_name", ""),
    "name": ("process_name", ""),
    "used_gpu_memory": ("used_gpu_memory", "MiB"),
    "used_memory": ("used_gpu_memory", "MiB"),
}


class UsageError(Exception):
    """Invalid usage; nvidia-smi prints the message and exits with status 2."""


class Format:
    """The value of `--format`: csv, with or without header and units."""

    def __init__(self, text: str) -> None:
        words = text.split(",")
        if set(words) - {"csv", "noheader", "nounits"}:
            raise UsageError("Format modifier is not recognized.")
        self.header = "noheader" not in words
        self.units = "nounits" not in words

    def title(self, name: str, unit: str) -> str:
        """Return a column's heading."""
        return f"{name} [{unit}]" if unit and self.units else name

    def cell(self, value: str, unit: str) -> str:
        """Return a value, with its unit if it has one and units are enabled."""
        return f"{value} {unit}" if unit and self.units and not value.startswith("[") else value


def query_gpu(
    machine: Machine,
    driver: Driver,
    gpus: Sequence[Gpu],
    names: str,
    style: Format,
    fields: Sequence[dict[str, Any]],
) -> list[str]:
    """Return one line per GPU with the requested fields."""
    known = {field["name"]: field for field in fields}
    known.update({field["alias"]: field for field in fields if "alias" in field})
    chosen = [_known(name.strip(), known) for name in names.split(",")]
    lines = []
    if style.header:
        lines.append(", ".join(style.title(field["name"], field.get("unit", "")) for field in chosen))
    for gpu in gpus:
        cells = [style.cell(_value(field, gpu, machine, driver), field.get("unit", "")) for field in chosen]
        lines.append(", ".join(cells))
    return lines


def query_remapped_rows(gpus: Sequence[Gpu], names: str, style: Format, fields: Sequence[dict[str, Any]]) -> list[str]:
    """`--query-remapped-rows`: the same readings and names, with the GPU identified as in process lists."""
    known = {field["name"]: field for field in fields if field["name"].startswith("remapped_rows.")}
    identity = {"gpu_name", "gpu_uuid", "gpu_serial", "gpu_bus_id"}
    known.update({field["alias"]: field for field in fields if field.get("alias") in identity})
    chosen = [(name.strip(), _known(name.strip(), known)) for name in names.split(",")]
    lines = [", ".join(name for name, _ in chosen)] if style.header else []
    return lines + [", ".join(_reading(gpu, field) for _, field in chosen) for gpu in gpus]


def query_compute_apps(gpus: Sequence[Gpu], names: str, style: Format) -> list[str]:
    """`--query-compute-apps`: the processes that use a GPU."""
    chosen = [_known(name.strip(), APPS) for name in names.split(",")]
    lines = [", ".join(style.title(name, unit) for name, unit in chosen)] if style.header else []
    for gpu in gpus:
        for process in gpu.processes:
            values = {
                "timestamp": _now(),
                "gpu_name": gpu.name,
                "gpu_bus_id": gpu.bus,
                "gpu_serial": gpu.values["serial"],
                "gpu_uuid": gpu.values["uuid"],
                "pid": str(process["pid"]),
                "process_name": str(process["process"]),
                "used_gpu_memory": str(process["mib"]),
            }
            lines.append(", ".join(style.cell(values[name], unit) for name, unit in chosen))
    return lines


def reasons_mask(gpu: Gpu) -> int:
    """Return the active clock event reasons as NVML's bit mask."""
    prefix = "clocks_event_reasons/clocks_event_reason_"
    return sum(bit for reason, bit in REASONS.items() if gpu.values[prefix + reason] == "Active")


def _known(name: str, known: dict[str, Any]) -> Any:
    if name not in known:
        raise UsageError(f'Field "{name}" is not a valid field to query.\n')
    return known[name]


def _now() -> str:
    return datetime.now(UTC).astimezone().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]


def _value(field: dict[str, Any], gpu: Gpu, machine: Machine, driver: Driver) -> str:
    if "sum" in field:
        parts = [gpu.values[path] for path in field["sum"]]
        if NO_READING in parts:
            return f"[{NO_READING}]"
        return "[N/A]" if "N/A" in parts else str(sum(int(part) for part in parts))
    if "computed" in field:
        compute: dict[str, Callable[[], str]] = {
            "timestamp": _now,
            "driver_version": lambda: str(driver.loaded),
            "count": lambda: str(len(machine.gpus)),
            "index": lambda: str(gpu.index),
            "clocks_event_reasons.supported": lambda: f"0x{sum(REASONS.values()):016X}",
            "clocks_event_reasons.active": lambda: f"0x{reasons_mask(gpu):016X}",
        }
        return compute[field["name"]]()
    return _reading(gpu, field)


def _reading(gpu: Gpu, field: dict[str, Any]) -> str:
    """Return a reading in csv form: without its unit, and with brackets around what is not a value."""
    value = gpu.values.get(field.get("path", ""), "N/A")
    if value in ("N/A", NO_READING) or value.startswith("Requested functionality"):
        return value if field.get("bare") else f"[{value}]"
    stripped = UNIT.match(value)
    return str(field.get("prefix", "")) + (stripped.group(1) if stripped else value)
