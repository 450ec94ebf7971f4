# SPDX-License-Identifier: Apache-2.0
"""`firstlight logs`: show the serving logs of all hosts, ordered by time."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from typing import Any

from firstlight.ask_hosts import AskError, ask
from firstlight.console import safe
from firstlight.errors import DONE, OPEN
from firstlight.logs_view import Printer, check_since, unit_name
from firstlight.options import add_host_options, add_json_option, add_limit_option

PLAYBOOK = "logs.yml"
EVERY_SECONDS = 3
MANY_LINES = 5000


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "logs",
        description="Reads the journals of Ray, servers, balancer and supervisors of every host at once and shows them "
        "merged, ordered by time. Secrets are removed on each host, before anything leaves it. Exits 0, or 3 when a "
        "host could not be queried.",
    )
    parser.set_defaults(run=run)
    add_host_options(parser)
    add_limit_option(parser)
    parser.add_argument(
        "--unit",
        action="append",
        default=[],
        type=unit_name,
        metavar="NAME",
        help="only this unit: ray, server, server-0, balancer or supervisor; may be repeated",
    )
    parser.add_argument(
        "--since", type=check_since, metavar="TIME", help="only later entries: 15m, 2h, 1d or 2026-11-15T09:00"
    )
    parser.add_argument("--lines", type=_count, default=None, metavar="N", help="the last N lines of each host")
    parser.add_argument("--follow", action="store_true", help="continue until Ctrl-C or the time of --for")
    parser.add_argument(
        "--for",
        dest="period",
        type=_seconds,
        default=3600,
        metavar="SECONDS",
        help="with --follow: for how long (default: 3600)",
    )
    add_json_option(parser, "print JSON: one object per line")


def run(arguments: argparse.Namespace) -> int:
    """Read and show the logs, repeatedly with --follow."""
    printer = Printer(as_json=arguments.json)
    end = time.monotonic() + arguments.period
    cursors: dict[str, str] = {}
    asked = False
    try:
        while True:
            try:
                document = ask(PLAYBOOK, "logs_document", arguments, settings(arguments, cursors))
            except AskError as error:
                if not asked:
                    raise
                print(f"firstlight: {safe(str(error))}", file=sys.stderr)
                document = {"entries": [], "cursors": {}, "silent": {}}
            asked = True
            cursors |= document["cursors"]
            printer.show(document)
            if not arguments.follow or time.monotonic() + EVERY_SECONDS > end:
                return OPEN if document["silent"] else DONE
            time.sleep(EVERY_SECONDS)
    except KeyboardInterrupt:
        if not arguments.follow:
            raise
        return DONE


def settings(arguments: argparse.Namespace, cursors: Mapping[str, str]) -> dict[str, Any]:
    """The extra variables of the playbook. With --since, the default line limit is much higher."""
    lines = arguments.lines or (MANY_LINES if arguments.since else 200)
    if cursors:
        # The number of lines applies to the first read; later reads fetch everything new.
        lines = max(lines, MANY_LINES)
    own: dict[str, Any] = {"logs_lines": lines, "logs_since": arguments.since or ""}
    if arguments.unit:
        own["logs_units"] = arguments.unit
    if cursors:
        own["logs_cursors"] = dict(cursors)
    return own


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 20000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines from 1 to 20000")
    return int(text)


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 86400")
    return int(text)
