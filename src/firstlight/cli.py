# SPDX-License-Identifier: Apache-2.0
"""The command line: parses, calls, and turns errors into one message and a status."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence

from .errors import FirstlightError

COMMANDS = (
    "plan",  # first: it brings Ansible's own way to import collections, which must be there before any other is used
    "discover",
    "bootstrap",
    "init",
    "status",
    "ask",
    "logs",
    "repin",
    "fit",
    "flags",
    "catalog",
    "fabric",
    "collect",
    "diagnose",
    "monitoring",
    "lab",
    "demo",
)
"""Subcommands in the order `--help` lists them; `demo` is one of the lab's."""

_HOME = {"demo": "lab"}


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The whole parser, or with `only` one that knows a single subcommand: the others' imports are not paid for."""
    parser = argparse.ArgumentParser(prog="firstlight", description="From bare GPU hosts to the first token.")
    commands = parser.add_subparsers(dest="command", required=True)
    wanted = [only] if only in COMMANDS else list(COMMANDS)
    for name in dict.fromkeys(_HOME.get(command, command) for command in wanted):
        importlib.import_module(f"firstlight.commands.{name}").add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    arguments = build_parser(words[0] if words else None).parse_args(words)
    os.umask(0o022)  # files for the nodes keep the modes a node expects, whatever the user's own habit
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended is interrupted: clean up on the way out
    try:
        status: int = arguments.run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing may be written to it when the interpreter ends either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (FirstlightError, OSError) as error:
        from .console import safe  # noqa: PLC0415 - `--help` does not wait for it

        print(f"firstlight: {safe(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("firstlight: interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    return status
