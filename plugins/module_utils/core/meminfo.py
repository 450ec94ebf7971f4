# SPDX-License-Identifier: Apache-2.0
"""/proc/meminfo."""

from __future__ import annotations


def total_bytes(text: str) -> int | None:
    """MemTotal in bytes; None when it is not told."""
    return _bytes(text, "MemTotal")


def free_bytes(text: str) -> int:
    """MemFree in bytes, 0 when not told: cache is not free, which is the point of dropping it."""
    return _bytes(text, "MemFree") or 0


def _bytes(text: str, field: str) -> int | None:
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == f"{field}:" and words[1].isdigit():
            return int(words[1]) * 1024
    return None
