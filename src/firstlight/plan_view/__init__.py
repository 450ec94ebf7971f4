# SPDX-License-Identifier: Apache-2.0
"""Terminal output of a plan: one screen by default, one or all hosts in full, or the changes since another plan."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.hazards import overdue
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from firstlight.console import safe
from firstlight.memory_view import gib, print_memory

from .changes import rows as change_rows
from .details import command_lines, heading, host_rows, unknown_host
from .parts import differences
from .screen import open_screen, print_grid, print_labelled
from .summary import (
    bench_rows,
    host_table,
    many,
    on_host_rows,
    price_text,
    served_rows,
    speed_table,
    speed_text,
    start_text,
    title,
)

__all__ = ["print_errors", "show", "show_changes", "show_host", "unknown_host"]

Document = Mapping[str, Any]


def show(document: Document, *, verbose: bool = False, today: dt.date | None = None) -> None:
    """Print the plan on one screen: errors first, missing inputs last; `verbose` adds every host in full.

    A plan does not depend on the date, so overdue hazards are determined here.
    """
    screen = open_screen()
    print_errors(screen, "Errors: the plan is refused, no host was touched", "red", document["errors"])
    planned = bool(document["hosts"]) and not document["errors"]
    if planned:
        _print_served(screen, document)
        _print_hosts(screen, document)
    _print_memory(screen, document["fit"])
    if planned:
        _print_speed(screen, document, verbose=verbose)
    notes = [*document["notes"], *overdue(document["hazards"], today or dt.datetime.now(dt.UTC).date())]
    _print_notes(screen, notes)
    if planned and verbose:
        for host in document["hosts"].values():
            _print_host(screen, host)
    print_errors(screen, "Required before apply", "yellow", document["missing_inputs"], rule=verbose)
    if planned and not verbose:
        screen.print("[dim]--host NAME shows files, units and commands of a host, --verbose those of all.[/]")
    sys.stdout.flush()


def show_host(document: Document, name: str) -> None:
    """Print everything that is planned for one host, or why nothing is."""
    screen = open_screen()
    print_errors(screen, "Errors: the plan is refused, no host was touched", "red", document["errors"])
    if not document["errors"]:
        _print_host(screen, document["hosts"][name])
    print_errors(screen, "Required before apply", "yellow", document["missing_inputs"])
    sys.stdout.flush()


def show_changes(found: Mapping[str, Any], document: Document) -> None:
    """Print the changes since another plan."""
    screen = open_screen()
    print_errors(screen, "Errors: the plan is refused, no host was touched", "red", document["errors"])
    listed = change_rows(found)
    for words, lines in listed:
        _head(screen, words)
        _print_whole(screen, [f"  {line}" for line in lines])
        screen.print()
    if not listed:
        screen.print("No change.")
    sys.stdout.flush()


def _head(screen: Console, words: str, rest: str = "") -> None:
    for line in Text.assemble((safe(words), "bold"), safe(rest)).wrap(screen, screen.width):
        line.rstrip()
        screen.print(line)


def _print_served(screen: Console, document: Document) -> None:
    _head(screen, title(document))
    print_labelled(screen, served_rows(document))
    screen.print()


def _print_hosts(screen: Console, document: Document) -> None:
    _head(screen, "Hosts")
    print_grid(screen, host_table(document))
    differing = differences(document["hosts"])
    if differing:
        _head(screen, "Differs between hosts")
        print_labelled(screen, differing)
    decided = on_host_rows(document)
    if decided:
        _head(screen, "Decided on the host")
        print_labelled(screen, decided)
    screen.print()


def _print_memory(screen: Console, fit: Mapping[str, Any]) -> None:
    memory = fit["memory"]
    if not memory["total_bytes"]:
        return  # refused because the memory is unknown
    _head(screen, "Memory of each GPU", f", {gib(memory['total_bytes'])}")
    print_memory(screen, memory)
    if fit["fits"]:
        held = many(f"{fit['max_concurrency']:.1f}", "request")
        screen.print(f"Cache for {fit['kv_tokens']:,} tokens, {held} of {fit['context']:,} tokens at a time\n")
    else:
        screen.print("[red]It does not fit.[/]\n")


def _print_speed(screen: Console, document: Document, *, verbose: bool) -> None:
    expected, start = speed_text(document["expected"]), document["startup"]
    if expected:
        print_labelled(screen, [("Expected", expected)], style="bold", indent=0)
    table = speed_table(document)
    if table:
        _head(screen, "Advice", f" by the model in docs/advice.md, {price_text(document['served'])}")
        print_grid(screen, table)
    if verbose or not table:
        print_labelled(screen, [(one["workload"], one["why"]) for one in document["advice"]])
    measured = bench_rows(document.get("bench") or {})
    if measured:
        when = "after bring-up" if document["bench"]["after_bring_up"] else "by `firstlight bench`"
        _head(screen, "Measured", f" {when}, expected tokens/s")
        print_labelled(screen, measured)
    if start:
        print_labelled(screen, [("Start", start_text(start))], style="bold", indent=0)
    screen.print()


def _print_notes(screen: Console, notes: Sequence[str]) -> None:
    if notes:
        print_labelled(screen, [("Note", note) for note in notes], style="bold", indent=0)
        screen.print()


def _print_host(screen: Console, host: Mapping[str, Any]) -> None:
    _head(screen, heading(host))
    print_labelled(screen, host_rows(host))
    for name, lines in command_lines(host):
        screen.print(Text(f"  {safe(name)}", style="cyan"))
        _print_whole(screen, [f"{'    ' if number == 0 else '      '}{line}" for number, line in enumerate(lines)])
    screen.print()


def _print_whole(screen: Console, lines: Sequence[str]) -> None:
    """Print lines of commands and files without wrapping or cutting, so that they can be copied and run."""
    for line in lines:
        screen.print(Text(safe(line)), soft_wrap=True)


def print_errors(
    screen: Console, words: str, colour: str, errors: Sequence[Mapping[str, str]], *, rule: bool = True
) -> None:
    """Print a numbered list of errors: the finding, the rule, and the fix."""
    if not errors:
        return
    screen.print(f"[bold {colour}]{words}:[/]")
    for number, error in enumerate(errors, 1):
        screen.print(f"{number}. {escape(safe(error['found']))} [dim]{escape('[' + error['id'] + ']')}[/]")
        rows = [("rule:", error["rule"])] if rule else []
        print_labelled(screen, [*rows, ("fix:", error["remedy"])], style="", indent=3, gap=1)
    screen.print()
