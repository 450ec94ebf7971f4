# SPDX-License-Identifier: Apache-2.0
"""Output of a plan: as wide as the terminal; in a pipe, COLUMNS or 120 columns wide and without colours."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Sequence
from typing import NoReturn

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from firstlight.console import NARROWEST, safe

PIPE = 120
"""The default number of columns."""


class Screen(Console):
    """A console that never exceeds its width, and leaves the handling of a broken pipe to the command."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def open_screen() -> Screen:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    size = shutil.get_terminal_size((PIPE, 24))
    # If stdout is not a terminal, do not use the size of a terminal attached to another stream.
    told = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return Screen(highlight=False, width=max(NARROWEST, size.columns if told else PIPE), height=max(2, size.lines))


def print_labelled(
    screen: Console, rows: Sequence[tuple[str, str]], *, style: str = "cyan", indent: int = 2, gap: int = 2
) -> None:
    """Print labels beside values, which wrap in their own column."""
    listed = [(safe(label), safe(value)) for label, value in rows]
    wide = indent + gap + max((cell_len(label) for label, _ in listed), default=0)
    room = max(NARROWEST // 2, screen.width - wide)
    for label, value in listed:
        shown = label
        for line in Text(value).wrap(screen, room, overflow="fold"):
            line.rstrip()
            screen.print(Text.assemble((f"{' ' * indent}{shown}".ljust(wide), style), line))
            shown = ""


def print_grid(screen: Console, rows: Sequence[Sequence[str]]) -> None:
    """Print columns below their headings; the last column takes the remaining width and wraps."""
    listed = [[safe(cell) for cell in row] for row in rows]
    last = len(listed[0]) - 1
    widths = [max(cell_len(row[column]) for row in listed) + 2 for column in range(last)]
    room = screen.width - 2 - sum(widths)
    if room < min(NARROWEST // 2, max(cell_len(row[last]) for row in listed)):
        # Too narrow for columns: print each row as a list.
        for row in listed[1:]:
            print_labelled(screen, [(name, cell) for name, cell in zip(listed[0], row, strict=True) if cell])
        return
    for number, row in enumerate(listed):
        start = "  " + "".join(
            cell + " " * (wide - cell_len(cell)) for cell, wide in zip(row[:last], widths, strict=True)
        )
        for line in Text(row[last]).wrap(screen, room, overflow="fold") or [Text()]:
            text = Text.assemble(start, line)
            text.rstrip()
            if number == 0:
                text.stylize("dim")
            screen.print(text)
            start = " " * len(start)
