# SPDX-License-Identifier: Apache-2.0
"""The memory of a GPU as a bar chart of its parts."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.activation import gib
from rich.console import Console
from rich.text import Text

from .console import encodable

__all__ = ["gib", "memory_bar", "memory_legend", "print_memory"]

PARTS = (
    ("os_bytes", "operating system", "bright_black"),
    ("weights_bytes", "weights", "blue"),
    ("activation_bytes", "activations", "magenta"),
    ("runtime_bytes", "runtime", "yellow"),
    ("kv_bytes", "cache", "green"),
    ("free_bytes", "unused", "white"),
)
MARKS = "░█▓▒▚·"
PLAIN_MARKS = "-#+=%."
"""Used if the output cannot encode the others."""
WIDEST = 72
SMALL = 1 << 26
"""A part smaller than this is not shown: it is a rounding error rather than memory."""


def print_memory(console: Console, memory: Mapping[str, int]) -> None:
    """Print the bar and its legend, no wider than the terminal."""
    marks = MARKS if encodable(MARKS) else PLAIN_MARKS
    console.print(memory_bar(memory, max(14, min(console.width - 8, WIDEST)), marks))
    for line in memory_legend(memory, None if console.soft_wrap else console.width, marks):
        console.print(line)


def memory_bar(memory: Mapping[str, int], width: int, marks: str = MARKS) -> Text:
    """Draw one GPU's memory, with each part scaled to the width; a part worth showing is at least one cell wide."""
    needed = sum(memory[key] for key, _, _ in PARTS)
    total = max(memory["total_bytes"], needed, 1)
    bar = Text("[")
    reached = drawn = 0
    for (key, _, colour), mark in zip(PARTS, marks, strict=True):
        reached += memory[key]
        cells = max(round(reached / total * width) - drawn, 1 if memory[key] >= SMALL else 0)
        bar.append(mark * cells, colour)
        drawn += cells
    bar.append("]")
    return bar


def memory_legend(memory: Mapping[str, int], width: int | None, marks: str = MARKS) -> list[Text]:
    """Return the legend, with as many items per line as fit the width; on one line if the width is None."""
    lines: list[Text] = []
    for (key, words, colour), mark in zip(PARTS, marks, strict=True):
        if memory[key] < SMALL:
            continue
        item = Text.assemble((mark, colour), f" {words} {gib(memory[key])}")
        if lines and (width is None or lines[-1].cell_len + 3 + item.cell_len <= width):
            lines[-1].append("   ").append_text(item)
        else:
            lines.append(item)
    return lines
