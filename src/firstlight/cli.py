# SPDX-License-Identifier: Apache-2.0
"""Command-line entry point: parses arguments, runs a subcommand, and turns errors into a message and an exit status."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from .errors import DONE, FAILED, INTERRUPTED, FirstlightError, UsageError

COMMANDS = {
    "plan": "show what would be done to every host, and what cannot work; no host is contacted",
    "discover": "find machines on the management network and identify them",
    "bootstrap": "prepare hosts that have only a password account for Ansible",
    "init": "write a starter inventory",
    "up": "bring a cluster up, or back to its plan: site.yml",
    "verify": "compare every host with its plan, and change nothing",
    "status": "show how a cluster serves: hosts, ranks, model, memory, requests, last completion",
    "ask": "send one question to a cluster through its endpoint",
    "bench": "measure how fast a cluster serves, with its engine's own benchmark client",
    "tune": "try other serving settings one at a time, and keep those that are faster with equally good answers",
    "quality": "check whether a cluster still gives the accepted answers",
    "report": "write the acceptance report of a cluster as one HTML file; also render, check and compare recorded ones",
    "logs": "show the serving logs of all hosts, ordered by time, without secrets",
    "repin": "move a cluster to another stack release, or show on paper what that would do",
    "list": "list the models, stacks, hardware, profiles and engines that an inventory may name",
    "fit": "compute whether a model fits, and how many tokens its cache holds",
    "estimate": "estimate how fast a model would be on given GPUs: tokens/s, first token, and what bounds it",
    "cost": "compare owning and renting: what a million tokens cost either way, and when owning pays, with every step",
    "flags": "check which flags of a command line a pinned engine knows",
    "catalog": "list what in the catalog has no source, is missing or is old",
    "fabric": "find faults of fabric ports in the output of their hosts' tools",
    "collect": "write the output of a cluster's GPU tools to a directory, without secrets and serial numbers",
    "diagnose": "find faults of GPU hosts in the output of their tools",
    "monitoring": "write the Prometheus and Grafana files of a monitoring host; no host is contacted",
    "completion": "print the script with which bash, zsh or fish completes this command",
    "lab": "a rack in a box: real nodes in containers on this machine",
    "demo": "lab up, site.yml on it, and the completion it served",
}
"""Subcommands and their `--help` text, in display order. Kept here so that `--help` imports none of them."""

_HOME = dict.fromkeys(("lab", "demo"), "firstlight_lab.command")
"""Subcommands that do not live in the module of the same name in `firstlight.commands`."""


class _Parser(argparse.ArgumentParser):
    """Reports usage errors in the same way as the rest of the command."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_usage())


class _Version(argparse.Action):
    """Prints what a bug report needs. Versions are looked up on demand, from the packages' own metadata."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415 - `--help` does not wait for it

        python = ".".join(map(str, sys.version_info[:3]))
        print(f"firstlight {version('firstlight')} (ansible-core {version('ansible-core')}, Python {python})")
        parser.exit()


def build_parser(*names: str) -> argparse.ArgumentParser:
    """Build a parser with the named subcommands in full; without names, list all of them and import none."""
    parser = _Parser(prog="firstlight", description="From bare GPU hosts to the first token.")
    parser.add_argument(
        "--version", nargs=0, action=_Version, help="show the versions of the command, Ansible and Python"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    if not names:
        for name, text in COMMANDS.items():
            commands.add_parser(name, help=text)
    for name in dict.fromkeys(_HOME.get(name, f"firstlight.commands.{name}") for name in names):
        _module(name).add_parser(commands)
    return parser


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in ("firstlight_lab", "firstlight_lab.command"):
            raise
        raise UsageError(
            "the lab is not installed: it comes with the checkout only. Clone the repository, run `make setup` there, "
            "and use its .venv/bin/firstlight"
        ) from None


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _status(words)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has closed the pipe; avoid another write to it when the interpreter exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    return status


def _status(words: list[str]) -> int:
    try:
        return _run(words)
    except BrokenPipeError:
        raise
    except (FirstlightError, OSError) as error:
        return _complain(words, str(error), getattr(error, "status", FAILED), getattr(error, "usage", ""))
    except KeyboardInterrupt:
        return _complain(words, "interrupted; run the same command again to continue", INTERRUPTED)


def _run(words: list[str]) -> int:
    parser = build_parser(*(word for word in words[:1] if word in COMMANDS))
    try:
        arguments = parser.parse_args(words)
    except SystemExit as end:  # of --help and --version
        return int(end.code or DONE)
    if "run" not in arguments:
        parser.error("the first word is not a command: write firstlight COMMAND, then its options")
    os.umask(0o022)  # files for the nodes need the modes that a node expects, whatever the user's umask
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # treat SIGTERM as an interrupt, so that cleanup runs
    from .options import asked_secrets  # noqa: PLC0415 - `--help` does not wait for it

    with asked_secrets(arguments):
        status: int = arguments.run(arguments)
    return status


def _complain(words: Sequence[str], message: str, status: int, usage: str = "") -> int:
    """Print the error, as JSON if `--json` was given, and return the status."""
    if "--json" in words[: words.index("--") if "--" in words else None]:
        print(json.dumps({"error": {"message": message, "status": status}}, indent=2))
        return status
    from .console import safe  # noqa: PLC0415 - `--help` does not wait for it

    print(f"{usage}firstlight: {safe(message)}", file=sys.stderr)
    return status
