# SPDX-License-Identifier: Apache-2.0
"""/proc/swaps: a heading, then one line for each file or partition that is swapped to."""

from __future__ import annotations

from typing import Any

_ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def parse_swaps(text: str) -> list[dict[str, Any]]:
    """What the host swaps to, each with its priority: negative ones are the kernel's own choice."""
    found = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) >= 5 and words[-1].removeprefix("-").isdigit():
            device = words[0]
            for escape, character in _ESCAPES.items():
                device = device.replace(escape, character)
            found.append({"device": device, "priority": int(words[-1])})
    return found
