# SPDX-License-Identifier: Apache-2.0
"""Parses /proc/swaps: a heading, then one line per swap file or partition."""

from __future__ import annotations

from typing import Any

_ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def parse_swaps(text: str) -> list[dict[str, Any]]:
    """Parse the host's swap devices with their priorities: negative ones are the kernel's own choice."""
    found = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) >= 5 and words[-1].removeprefix("-").isdigit():
            device = words[0]
            for escape, character in _ESCAPES.items():
                device = device.replace(escape, character)
            found.append({"device": device, "priority": int(words[-1])})
    return found
