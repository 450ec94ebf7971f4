# SPDX-License-Identifier: Apache-2.0
"""GPU data of nvidia-smi and the kernel log, as series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from .page import Family, family, gauge

FIELDS = (
    "index",
    "uuid",
    "name",
    "temperature.gpu",
    "utilization.gpu",
    "memory.used",
    "memory.total",
    "power.draw",
    "clocks.sm",
    "ecc.errors.uncorrected.volatile.total",
    "clocks_event_reasons.active",
)
"""Fields queried with `nvidia-smi --query-gpu`; those that a driver does not know are dropped from the query."""

REASONS = {
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}
"""Reasons why a GPU is slower than it could be; idling and deliberate settings are not reported."""

_MIB = 1048576
_READINGS = (
    ("temperature.gpu", "firstlight_gpu_temperature_celsius", "The temperature of a GPU.", 1.0),
    ("utilization.gpu", "firstlight_gpu_utilization_ratio", "The share of time in which a GPU computed.", 0.01),
    ("memory.used", "firstlight_gpu_memory_used_bytes", "The memory of a GPU that is in use.", _MIB),
    ("memory.total", "firstlight_gpu_memory_bytes", "The memory of a GPU.", _MIB),
    ("power.draw", "firstlight_gpu_power_watts", "The power draw of a GPU.", 1.0),
    ("clocks.sm", "firstlight_gpu_clock_hertz", "The SM clock of a GPU.", 1_000_000.0),
    (
        "ecc.errors.uncorrected.volatile.total",
        "firstlight_gpu_uncorrected_errors",
        "Uncorrected memory errors of a GPU since the driver was loaded.",
        1.0,
    ),
)


def parse_rows(text: str, fields: Sequence[str]) -> list[dict[str, str]]:
    """Parse the GPUs from `--format=csv,noheader,nounits`; a cell with [N/A] or the like is left out."""
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(fields):
            continue
        rows.append({name: cell for name, cell in zip(fields, cells, strict=True) if cell and not cell.startswith("[")})
    return [row for row in rows if row.get("index", "").isdecimal()]


def gpu_families(rows: Sequence[Mapping[str, str]], expected: int) -> list[Family]:
    """The readings of each GPU, and the actual and expected number of GPUs."""
    families = [
        gauge("firstlight_gpus", "GPUs that the driver shows.", [({}, len(rows))]),
        gauge("firstlight_gpus_expected", "GPUs that this node has according to its profile.", [({}, expected)]),
        gauge(
            "firstlight_gpu_info",
            "The number, UUID and model of each GPU.",
            [({"gpu": row["index"], "uuid": row.get("uuid", ""), "model": row.get("name", "")}, 1.0) for row in rows],
        ),
    ]
    for field, name, meaning, scale in _READINGS:
        told = [
            ({"gpu": row["index"]}, value * scale) for row in rows if (value := _number(row.get(field))) is not None
        ]
        families.append(gauge(name, meaning, told))
    masks = [
        (row["index"], mask) for row in rows if (mask := _mask(row.get("clocks_event_reasons.active"))) is not None
    ]
    families.append(
        gauge(
            "firstlight_gpu_throttled",
            "Whether a GPU is throttled, by reason.",
            [
                ({"gpu": index, "reason": reason}, float(bool(mask & bit)))
                for index, mask in masks
                for reason, bit in REASONS.items()
            ],
        )
    )
    return [one for one in families if one.lines]


def xid_families(xids: Iterable[Mapping[str, Any]]) -> list[Family]:
    """Faults that the driver wrote to the kernel log since the last boot."""
    found = list(xids)
    moments = [at for one in found if (at := _moment(str(one.get("last") or ""))) is not None]
    rows: dict[tuple[str, str], int] = {}
    for one in found:
        key = str(one.get("number")), str(one.get("bus"))
        rows[key] = rows.get(key, 0) + int(one.get("count") or 1)
    families = [
        family(
            "firstlight_gpu_faults_total",
            "counter",
            "Xid errors of all GPUs in the kernel log of this boot.",
            [({}, sum(rows.values()))],
        ),
        family(
            "firstlight_gpu_xid_total",
            "counter",
            "Xid errors in the kernel log of this boot, by number and GPU.",
            [({"xid": number, "bus": bus}, count) for (number, bus), count in sorted(rows.items())],
        ),
        gauge(
            "firstlight_gpu_last_fault_timestamp_seconds",
            "When the last Xid error was logged; 0 if there is none.",
            [({}, max(moments, default=0.0))],
        ),
    ]
    return [one for one in families if one.lines]


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def _mask(text: str | None) -> int | None:
    try:
        return int(text, 16) if text is not None else None
    except ValueError:
        return None


def _moment(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except ValueError:
        return None
