# SPDX-License-Identifier: Apache-2.0
"""Terminal output of a benchmark: measured and expected values of every point, then where to look first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.verdict import (
    NOT_MEASURED,
    PASS,
    SLOW,
    figure_words,
    metric_words,
    point_words,
    range_words,
)
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from .console import open_console, print_rows, safe

STYLES = {PASS: "green", SLOW: "bold red", NOT_MEASURED: "bold yellow"}
HEADINGS = ("workload", "load", "metric", "measured", "expected", "by", "verdict")
UNTOLD = "-"


def show(document: Mapping[str, Any], verdict: Mapping[str, Any]) -> None:
    """Print the verdict with its reasons, followed by one row per comparison."""
    console = open_console()
    told = str(verdict["verdict"])
    # Keys may be missing: the document may come from a run that was cut off.
    configuration, client = document.get("configuration") or {}, document.get("client") or {}
    named = (configuration.get("model"), configuration.get("hardware"), document.get("run"))
    rest = "".join(f"  {safe(str(words))}" for words in named if words)
    console.print(Text.assemble((told.upper(), STYLES.get(told, "bold")), (rest, "dim")))
    _print_table(console, [_cells(line) for line in verdict["lines"]], [line["verdict"] for line in verdict["lines"]])
    if client.get("host"):
        through = f" through the {client['through']}" if client.get("through") else ""
        print_rows(console, [("client", f"{client['host']}{through}")], style="dim", gap=2)
    notes = [(_place(line), str(line["note"])) for line in verdict["lines"] if line["note"]]
    print_rows(console, notes, style="dim", gap=2)
    if verdict["look_at"]:
        console.print(Text("Look at first", "bold"))
        print_rows(console, [(f"{number}.", one) for number, one in enumerate(verdict["look_at"], 1)])


def _place(line: Mapping[str, Any]) -> str:
    return f"{line['workload']}, {point_words(line)}"


def _cells(line: Mapping[str, Any]) -> list[str]:
    compared = line["of"] is not None
    return [
        safe(str(line["workload"])),
        point_words(line),
        UNTOLD if line["metric"] is None else metric_words(line["metric"]),
        UNTOLD if line["measured"] is None else figure_words(line["measured"]),
        range_words(line) if compared else UNTOLD,
        safe(str(line["source"])) if compared else UNTOLD,
        str(line["verdict"]),
    ]


def _print_table(console: Console, rows: Sequence[Sequence[str]], verdicts: Sequence[str]) -> None:
    """Print the rows as a table, or one comparison after the other if the terminal is too narrow for columns."""
    if not rows:
        return
    listed = [HEADINGS, *rows]
    widths = [max(cell_len(row[column]) for row in listed) for column in range(len(HEADINGS))]
    if not console.soft_wrap and sum(widths) + 2 * len(widths) > console.width:
        for row, verdict in zip(rows, verdicts, strict=True):
            told = [f"{name} {cell}" for name, cell in zip(HEADINGS[2:-1], row[2:-1], strict=True) if cell != UNTOLD]
            console.print(
                Text.assemble(f"{row[0]}, {row[1]}: ", (verdict, STYLES[verdict]), *(f", {one}" for one in told))
            )
        return
    for number, row in enumerate(listed):
        cells = [cell + " " * (wide - cell_len(cell) + 2) for cell, wide in zip(row[:-1], widths, strict=False)]
        style = "bold" if number == 0 else STYLES[verdicts[number - 1]]
        console.print(Text.assemble(("".join(cells), "bold" if number == 0 else ""), (row[-1], style)))
