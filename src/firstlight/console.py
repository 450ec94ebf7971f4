# SPDX-License-Identifier: Apache-2.0
"""Terminal output for people: any terminal width, a pipe, any encoding."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

NARROWEST = 30
"""The smallest usable width in columns; a terminal that reports less is not believed."""


class _Console(Console):
    """Passes a broken pipe on to the command, which then exits 0; rich itself would exit 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def open_console() -> Console:
    """Open a console that wraps lines on a terminal but not in a pipe, and escapes what cannot be encoded."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    size = shutil.get_terminal_size()
    width = max(NARROWEST, size.columns)
    return _Console(highlight=False, soft_wrap=not sys.stdout.isatty(), width=width, height=max(2, size.lines))


def encodable(marks: str) -> bool:
    """Return whether the output encoding supports these characters."""
    try:
        marks.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def safe(text: str) -> str:
    """Escape characters on which a terminal would act."""
    return "".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in text)


def print_rows(console: Console, rows: Iterable[tuple[str, str]], *, style: str = "", gap: int = 1) -> None:
    """Print labels beside values: on a terminal values wrap in their own column; in a pipe each row is one line."""
    listed = [(safe(label), safe(value)) for label, value in rows]
    if not listed:
        return
    wide = max(len(label) for label, _ in listed) + gap
    if console.soft_wrap:
        for label, value in listed:
            console.print(Text.assemble((label.ljust(wide) if value else label, style), value.rstrip()))
        return
    table = Table.grid()
    table.add_column(style=style, no_wrap=True, width=wide)
    table.add_column(overflow="fold")
    for label, value in listed:
        table.add_row(Text(label), Text(value))
    console.print(table)
