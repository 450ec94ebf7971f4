# SPDX-License-Identifier: Apache-2.0
"""/proc/meminfo."""

from __future__ import annotations


def free_bytes(text: str) -> int:
    """MemFree in bytes, 0 when not told: cache is not free, which is the point of dropping it."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "MemFree:" and words[1].isdigit():
            return int(words[1]) * 1024
    return 0
