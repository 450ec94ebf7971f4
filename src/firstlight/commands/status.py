# SPDX-License-Identifier: Apache-2.0
"""`firstlight status`: how a cluster serves, in one screen."""

from __future__ import annotations

import argparse
import json
import sys
import time
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
        description="Looks once at every host of an inventory and shows how the cluster serves. Nothing is changed, "
        "and no server is asked: its keeper does so all the time. Exits 0 when everything serves, 1 when something "
        "does not, and 3 when nobody could tell.",
    )
    parser.set_defaults(run=run)
    add_host_options(parser)
    add_json_option(parser)
    parser.add_argument("--watch", action="store_true", help="look again and again, until Ctrl-C")
    parser.add_argument(
        "--interval", type=_seconds, default=5, metavar="SECONDS", help="with --watch: between two looks (default: 5)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Look, show, and say with the status how it is."""
    if arguments.watch and not arguments.json:
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
    """The same screen over and over; the last one stays, and its status is the command's."""
    console = open_console()
    status = STATUS[UNKNOWN]
    with Live(console=console, auto_refresh=False, screen=False) as live:
        try:
            while True:
                try:
                    document = _look(arguments)
                    status = exit_status(document)
                    live.update(render(document, console.width, console.height - 1), refresh=True)
                except AskError as error:
                    status = STATUS[UNKNOWN]
                    live.update(Text(f"firstlight: {safe(str(error))}"), refresh=True)
                time.sleep(arguments.interval)
        except KeyboardInterrupt:
            return status


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 1 to 3600")
    return int(text)
