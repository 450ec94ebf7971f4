# SPDX-License-Identifier: Apache-2.0
"""The memory of a GPU as a bar: what takes how much of it."""

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
"""Where the output cannot carry the others."""
WIDEST = 72
SMALL = 1 << 26
"""A part smaller than this is not named: rounding, not memory."""


def print_memory(console: Console, memory: Mapping[str, int]) -> None:
    """The bar and what its marks mean, no wider than a terminal."""
    marks = MARKS if encodable(MARKS) else PLAIN_MARKS
    console.print(memory_bar(memory, max(14, min(console.width - 8, WIDEST)), marks))
    for line in memory_legend(memory, None if console.soft_wrap else console.width, marks):
        console.print(line)


def memory_bar(memory: Mapping[str, int], width: int, marks: str = MARKS) -> Text:
    """One GPU's memory, each part a share of the width; a part worth naming is at least one mark wide."""
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
    """What each mark stands for; as many of them on a line as the width takes, all without one."""
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
