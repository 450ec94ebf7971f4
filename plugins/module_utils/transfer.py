# SPDX-License-Identifier: Apache-2.0
"""The progress of a transfer: bytes, rate and time left, from samples of a clock and a counter."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

WINDOW = 20.0
"""The window in seconds for the rate: a shorter one jumps with every file, a longer one hides a stall."""


class Rate:
    """Bytes per second over the last moments."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def at(self, now: float, done: int) -> float:
        """Add a sample and return the current rate, 0 while it is unknown."""
        self._samples.append((now, done))
        while len(self._samples) > 2 and now - self._samples[1][0] >= WINDOW:
            self._samples.popleft()
        since, before = self._samples[0]
        return max(0.0, (done - before) / (now - since)) if now > since else 0.0


def progress(doing: str, done: int, total: int, rate: float) -> dict[str, Any]:
    """Return the state of a transfer for a status file."""
    left = (total - done) / rate if rate > 0 and total >= done else None
    return {
        "doing": doing,
        "done": done,
        "total": total,
        "rate": round(rate),
        "left": None if left is None else round(left, 1),
    }


def progress_words(state: Mapping[str, Any]) -> str:
    """Format as `copying 3.1 of 407.0 GB, 1.2 GB/s, 5 min 40 s left`; without a total, only what is being done."""
    total, done = _number(state.get("total")), _number(state.get("done"))
    if not total:
        return str(state.get("doing") or "")
    words = f"{state.get('doing') or 'at'} {amount(done, total)} of {amount(total, total, unit=True)}"
    rate = _number(state.get("rate"))
    if rate:
        words += f", {amount(rate, rate, unit=True)}/s"
    left = state.get("left")
    if isinstance(left, int | float) and not isinstance(left, bool):
        words += f", {time_left(left)} left"
    elif done < total:
        words += ", no data received lately"
    return words


def amount(count: float, scale: float, unit: bool = False) -> str:
    """Format bytes in the unit that suits `scale`: MB below a gigabyte, else GB."""
    size, name = (1e9, "GB") if scale >= 1e9 else (1e6, "MB")
    return f"{count / size:.1f}" + (f" {name}" if unit else "")


def time_left(seconds: float) -> str:
    """Format as `8 s`, `5 min 40 s` or `2 h 05 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _number(value: object) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
