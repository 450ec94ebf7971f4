# SPDX-License-Identifier: Apache-2.0
"""Progress display of a bootstrap, and the result for each node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from firstlight.console import print_rows, safe

from .touch import Outcome


def line_of(outcome: Outcome) -> tuple[str, str]:
    """Return the state of one node and a sentence that describes it."""
    if outcome.fault:
        return "FAILED", outcome.fault.text
    changed = [step for step, state in outcome.steps.items() if state == "changed"]
    would = [step for step, state in outcome.steps.items() if state == "would change"]
    text = "changed: " + ", ".join(changed) if changed else "everything was there"
    if would:
        text = "would change: " + ", ".join(would)
    return "done", text + ("; it rebooted during the run and was finished afterwards" if outcome.rebooted else "")


@contextlib.contextmanager
def progress(count: int) -> Iterator[Callable[[Outcome], None]]:
    """Show a progress bar on a terminal; in a pipe, print only a line for each node that is finished."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    columns = (SpinnerColumn(), TextColumn("bootstrap"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("nodes", total=count)

        def tell(outcome: Outcome) -> None:
            state, text = line_of(outcome)
            style = "bold red" if outcome.fault else "green"
            console.print(Text.assemble((f"{state:7}", style), safe(f"{outcome.target.name}: {text}")))
            bar.advance(task)

        yield tell


def show(console: Console, outcomes: Sequence[Outcome], keys: Sequence[tuple[str, str]], *, check: bool) -> None:
    """Print the complete result in the order of the node list."""
    if keys:
        console.print("Host keys that were trusted for the first time:")
        print_rows(console, [(f"  {name}", text) for name, text in keys])
    failed = [one for one in outcomes if one.fault]
    for one in outcomes:
        state, text = line_of(one)
        print_rows(console, [(f"{one.target.name} {one.target.address} {state}", text)])
    verb = "could be made ready" if check else "are ready"
    console.print(f"{len(outcomes) - len(failed)} of {len(outcomes)} nodes {verb} for Ansible")
