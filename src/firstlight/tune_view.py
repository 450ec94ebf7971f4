# SPDX-License-Identifier: Apache-2.0
"""Terminal output of a tuning run: what was tried and kept, what to write to the inventory, and how to restore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from .console import open_console, print_rows, safe

STYLES = {"kept": "green", "measured": "green", "refused": "yellow", "illegal": "dim", "failed": "bold red"}
HEADINGS = ("stage", "rung", "change", "tok/s", "±", "first token p95", "per token p95", "answers", "decision")
UNTOLD = "-"


def show(document: Mapping[str, Any]) -> None:
    """Print the ladder with its figures, then the reasons, then the result."""
    console = open_console()
    workload = document["workload"]
    named = f"{document['cluster']}, ladder {document['ladder']}: {workload['name']} at {workload['streams']} streams"
    console.print(Text(safe(named), "bold"))
    start = document["journal"]["start"]
    rows = [("", "baseline", change_words(start), *_figures(document["baseline"]), UNTOLD, "")]
    rows += [
        (
            one["stage"],
            one["name"],
            change_words(one["change"]),
            *_figures(one["summary"]),
            _answers(one),
            "to be tried" if one["decision"] == "pending" else one["decision"],
        )
        for one in document["rungs"]
    ]
    print_table(console, HEADINGS, rows, ["", *(one["decision"] for one in document["rungs"])])
    print_rows(
        console, [(one["name"], one["reason"]) for one in document["rungs"] if one["reason"]], style="dim", gap=2
    )
    _show_result(console, document)


def _show_result(console: Console, document: Mapping[str, Any]) -> None:
    result = document["result"]
    if result is None:
        return
    before, after = document["baseline"], None
    for rung in document["rungs"]:
        after = rung["summary"] if rung["decision"] == "kept" else after
    if not result["change"]:
        console.print("No better settings were found: the former ones are served.")
        return
    if before and after and before["output_tokens_per_s"]:
        gain = after["output_tokens_per_s"] / before["output_tokens_per_s"]
        console.print(Text(f"{gain:.2f} times the tokens per second of the baseline.", "bold"))
    console.print(
        "It serves with the kept settings. Write this into the inventory, or the next run of site.yml undoes it:"
    )
    for line in result["diff"].splitlines():
        console.print(Text(safe(line), "green" if line.startswith("+") else "red" if line.startswith("-") else ""))
    print_rows(console, [("rollback", result["restore"])], style="dim", gap=2)


def change_words(change: Mapping[str, Any]) -> str:
    """Format a change on one line."""
    return ", ".join(f"{path.removeprefix('flags.')}={_value(value)}" for path, value in change.items()) or UNTOLD


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "/".join(str(one) for one in value.values())
    return "default" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _figures(summary: Mapping[str, Any] | None) -> tuple[str, str, str, str]:
    if not summary:
        return (UNTOLD,) * 4
    times = [(summary.get(name) or {}).get("95") for name in ("ttft_ms", "tpot_ms")]
    spread = (summary.get("spread") or {}).get("output_tokens_per_s")
    first, each = (UNTOLD if one is None else f"{one:,.0f} ms" if one >= 100 else f"{one:.3g} ms" for one in times)
    return f"{summary['output_tokens_per_s']:,.0f}", UNTOLD if spread is None else f"{spread:.0%}", first, each


def _answers(rung: Mapping[str, Any]) -> str:
    return str((rung["quality"] or {}).get("status") or UNTOLD).replace("_", " ")


def print_table(
    console: Console, headings: Sequence[str], rows: Iterable[Sequence[str]], verdicts: Sequence[str]
) -> None:
    """Print the rows as a table, or one after the other if the terminal is too narrow for columns."""
    listed = [[safe(str(cell)) for cell in row] for row in rows]
    widths = [max(cell_len(row[column]) for row in (headings, *listed)) for column in range(len(headings))]
    if not console.soft_wrap and sum(widths) + 2 * len(widths) > console.width:
        for row, verdict in zip(listed, verdicts, strict=True):
            told = [f"{name} {cell}" for name, cell in zip(headings, row, strict=True) if cell not in ("", UNTOLD)]
            console.print(Text(", ".join(told), STYLES.get(verdict, "")))
        return
    for row, style in zip(([*headings], *listed), ("bold", *(STYLES.get(one, "") for one in verdicts)), strict=True):
        cells = [cell + " " * (wide - cell_len(cell) + 2) for cell, wide in zip(row[:-1], widths, strict=False)]
        console.print(Text.assemble(("".join(cells), "bold" if style == "bold" else ""), (row[-1], style)))
