# SPDX-License-Identifier: Apache-2.0
"""The memory of a GPU as a bar: what takes how much of it."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.firstlight.cluster.plugins.plugin_utils.fit.activation import gib
from rich.text import Text

__all__ = ["WIDEST", "gib", "legend", "memory_bar"]

PARTS = (
    ("os_bytes", "operating system", "bright_black"),
    ("weights_bytes", "weights", "blue"),
    ("activation_bytes", "activations", "magenta"),
    ("runtime_bytes", "runtime", "yellow"),
    ("kv_bytes", "cache", "green"),
    ("free_bytes", "unused", "white"),
)
MARKS = "░█▓▒▚·"
WIDEST = 72
SMALL = 1 << 26
"""A part smaller than this is not named: rounding, not memory."""


def memory_bar(memory: Mapping[str, int], width: int) -> Text:
    """One GPU's memory, each part a share of the width; a part worth naming is at least one mark wide."""
    needed = sum(memory[key] for key, _, _ in PARTS)
    total = max(memory["total_bytes"], needed, 1)
    bar = Text("[")
    reached = drawn = 0
    for (key, _, colour), mark in zip(PARTS, MARKS, strict=True):
        reached += memory[key]
        cells = max(round(reached / total * width) - drawn, 1 if memory[key] >= SMALL else 0)
        bar.append(mark * cells, colour)
        drawn += cells
    bar.append("]")
    return bar


def legend(memory: Mapping[str, int]) -> Text:
    text = Text()
    for (key, words, colour), mark in zip(PARTS, MARKS, strict=True):
        if memory[key] >= SMALL:
            text.append(f"{mark} ", colour)
            text.append(f"{words} {gib(memory[key])}   ")
    return text
