# SPDX-License-Identifier: Apache-2.0
"""`firstlight status`: show how a cluster serves, on one screen."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.status import STATUS, UNKNOWN, exit_status
from rich.live import Live
from rich.text import Text

from firstlight.ask_hosts import AskError, ask
from firstlight.console import open_console, safe
from firstlight.options import add_host_options, add_json_option
from firstlight.status_view import render, show

PLAYBOOK = "status.yml"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "status",
        description="Queries every host of an inventory once and shows how the cluster serves. Nothing is changed, "
        "and no server is queried: its supervisor does that all the time. Exits 0 when everything serves, 1 when "
        "something does not, and 3 when that could not be determined.",
    )
    parser.set_defaults(run=run)
    add_host_options(parser)
    add_json_option(parser)
    parser.add_argument(
        "--watch",
        nargs="?",
        type=_seconds,
        const=5,
        metavar="SECONDS",
        help="repeat until Ctrl-C, with this pause between queries (default: 5)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Query and show the status, and return it as the exit status."""
    if arguments.watch:
        return _watch(arguments)
    document = _look(arguments)
    if arguments.json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        show(document)
    return exit_status(document)


def _look(arguments: argparse.Namespace) -> dict[str, Any]:
    document = ask(PLAYBOOK, "status_document", arguments)
    document.pop("lines", None)
    return document


def _watch(arguments: argparse.Namespace) -> int:
    """Redraw the screen in a loop, or append each status to a pipe; return the exit status of the last one."""
    status = STATUS[UNKNOWN]
    with contextlib.ExitStack() as stack, contextlib.suppress(KeyboardInterrupt):
        tell = _teller(arguments, stack)
        while True:
            try:
                document = _look(arguments)
                status = exit_status(document)
                tell(document)
            except AskError as error:
                status = STATUS[UNKNOWN]
                tell(str(error))
            time.sleep(arguments.watch)
    return status


def _teller(arguments: argparse.Namespace, stack: contextlib.ExitStack) -> Callable[[dict[str, Any] | str], None]:
    """Return a function that displays a status document, or the reason why there is none."""
    if sys.stdout.isatty() and not arguments.json:
        console = open_console()
        live = stack.enter_context(Live(console=console, auto_refresh=False, screen=False))

        def redraw(told: dict[str, Any] | str) -> None:
            console.size = open_console().size  # the window may have been resized
            if isinstance(told, str):
                live.update(Text(f"firstlight: {safe(told)}"), refresh=True)
            else:
                live.update(render(told, console.width, console.height - 1), refresh=True)

        return redraw

    def append(told: dict[str, Any] | str) -> None:
        if isinstance(told, str):
            print(f"firstlight: {safe(told)}", file=sys.stderr)
        elif arguments.json:
            sys.stdout.write(json.dumps(told) + "\n")
        else:
            show(told)
        sys.stdout.flush()

    return append


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 3600")
    return int(text)
