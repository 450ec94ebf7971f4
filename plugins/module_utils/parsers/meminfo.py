# SPDX-License-Identifier: Apache-2.0
"""Parses /proc/meminfo."""

from __future__ import annotations


def total_bytes(text: str) -> int | None:
    """MemTotal in bytes; None if it is missing."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "MemTotal:" and words[1].isdigit():
            return int(words[1]) * 1024
    return None
