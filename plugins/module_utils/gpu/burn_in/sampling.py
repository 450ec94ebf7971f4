# SPDX-License-Identifier: Apache-2.0
"""Samples clocks, power, temperature and slowdown reasons from nvidia-smi while the GPUs work."""

from __future__ import annotations

import statistics
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from .messages import one_line

MARGIN = 1.0
"""Seconds at the start of a phase that are not sampled, as clocks and power are still settling."""
PAUSE = 0.2
"""Seconds between two samples."""
MOST_PROBLEMS = 3
"""Failures of the tool after which it is not asked again."""
SAMPLED = ("index", "uuid", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.draw", "power.limit", "temperature.gpu")
SUMMARISED = {
    "sm_mhz": "clocks.sm",
    "memory_mhz": "clocks.mem",
    "power_w": "power.draw",
    "temperature_c": "temperature.gpu",
}
REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""The current field name and the one before driver 535.54."""
NOT_TOLD = frozenset({"N/A", "[N/A]", "[Not Supported]"})
REASON_BITS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}


class Sampler(threading.Thread):
    """Polls nvidia-smi while the GPUs work; if the tool hangs, only samples are lost."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.rows: list[tuple[float, list[str]]] = []
        self.problems: list[str] = []
        self.done = threading.Event()

    def run(self) -> None:
        """Sample until `done` is set or the tool has failed too often."""
        reasons = list(REASONS)
        while not self.done.is_set():
            begin = time.monotonic()
            answer = _ask([*SAMPLED, reasons[0]])
            if isinstance(answer, list):
                self.rows += [((begin + time.monotonic()) / 2, row) for row in answer]
            elif len(reasons) > 1 and "not a valid field" in answer:
                reasons.pop(0)
            else:
                self.problems.append(answer)
                if len(self.problems) >= MOST_PROBLEMS:
                    return
            self.done.wait(PAUSE)

    def of_gpu(self, gpu: dict[str, Any]) -> dict[str, Any]:
        """Summarise a GPU's clocks, power, temperature and active slowdown reasons by phase."""
        found = {}
        for name, begin, end in gpu["phases"]:
            rows = [row for at, row in self.rows if begin + MARGIN <= at <= end and self._belongs(row, gpu)]
            if rows:
                found[name] = _summary(rows)
        return found

    @staticmethod
    def _belongs(row: Sequence[str], gpu: dict[str, Any]) -> bool:
        return row[1].removeprefix("GPU-") == gpu["uuid"] if gpu["uuid"] else row[0] == str(gpu["index"])


def _ask(fields: Iterable[str]) -> list[list[str]] | str:
    """Query one row per GPU, or return why there is none. Warnings printed among the rows are dropped."""
    names = list(fields)
    command = ["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"nvidia-smi: {one_line(error)}"
    if done.returncode != 0:
        return f"nvidia-smi returned {done.returncode}: {one_line(done.stdout or done.stderr)}"
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
    return [row for row in rows if len(row) == len(names)]


def _summary(rows: list[list[str]]) -> dict[str, Any]:
    columns = dict(zip(SAMPLED, zip(*rows, strict=True), strict=False))
    summary: dict[str, Any] = {"samples": len(rows)}
    for key, field in SUMMARISED.items():
        values = [number for cell in columns[field] if (number := _number(cell)) is not None]
        summary[key] = (
            {"least": min(values), "middle": statistics.median(values), "most": max(values)} if values else None
        )
    summary["max_sm_mhz"] = _number(rows[-1][SAMPLED.index("clocks.max.sm")])
    summary["power_limit_w"] = _number(rows[-1][SAMPLED.index("power.limit")])
    summary["reasons"] = _reasons([row[-1] for row in rows])
    return summary


def _reasons(cells: Sequence[str]) -> dict[str, int] | str | None:
    """Count the samples in which each reason was active; None if one is unreadable, N/A if the GPU reports none."""
    counts: dict[str, int] = {}
    if all(cell in NOT_TOLD for cell in cells):
        return "N/A"
    for cell in cells:
        try:
            bits = int(cell, 16)
        except ValueError:
            return None
        for bit in (1 << place for place in range(bits.bit_length())):
            if bits & bit:
                name = REASON_BITS.get(bit, hex(bit))
                counts[name] = counts.get(name, 0) + 1
    return counts


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
