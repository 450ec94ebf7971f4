# SPDX-License-Identifier: Apache-2.0
"""`firstlight collect`: what the GPU tools of a cluster print, in a directory that may be handed on."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from pathlib import Path

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN
from ansible_collections.firstlight.cluster.plugins.plugin_utils.collection import CollectionError, check_directory

from firstlight.errors import FirstlightError

PLAYBOOK = BUILT_IN.parent / "playbooks" / "collect.yml"
USAGE = 2


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "collect",
        description="Asks every host of an inventory at once and writes what its tools print into a directory, for "
        "`firstlight diagnose` or a ticket: the same as `ansible-playbook playbooks/collect.yml -e "
        "collect_directory=DIR`. Secrets are removed, and serial numbers, UUIDs, GUIDs, MAC and public addresses "
        "replaced by pseudonyms, on each host before anything leaves it. Nothing is changed on any host.",
    )
    parser.set_defaults(run=run)
    parser.add_argument("-i", "--inventory", action="append", required=True, help="as for ansible-playbook")
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="a directory that is empty or not there (default: firstlight-DATE-TIME)"
    )
    parser.add_argument(
        "--anonymous", action="store_true", help="also replace names of hosts and users, and private addresses"
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=30, metavar="SECONDS", help="for each command (default: 30)"
    )
    parser.add_argument("-l", "--limit", help="as for ansible-playbook")
    parser.add_argument("-e", "--extra-vars", action="append", default=[], help="as for ansible-playbook")
    parser.add_argument("--vault-password-file", action="append", default=[], help="as for ansible-playbook")


def run(arguments: argparse.Namespace) -> int:
    """Hand over to the playbook; what can be known to be wrong before is said at once."""
    directory = os.path.abspath(arguments.output or _new_name())
    try:
        check_directory(directory)
    except CollectionError as error:
        print(f"firstlight: {error}", file=sys.stderr)
        return USAGE
    return _hand_over(playbook_arguments(arguments, directory))


def _hand_over(words: list[str]) -> int:
    program = Path(sys.executable).with_name("ansible-playbook")
    if not program.exists():
        raise FirstlightError(f"{program} is missing: run `make setup`, or call your own ansible-playbook")
    os.execv(program, [str(program), *words])


def playbook_arguments(arguments: argparse.Namespace, directory: str) -> list[str]:
    """The words after `ansible-playbook`."""
    own = {
        "collect_directory": directory,
        "collect_anonymous": arguments.anonymous,
        "collect_timeout": arguments.timeout,
    }
    words = [str(PLAYBOOK)]
    for option, values in (
        ("-i", arguments.inventory),
        ("--limit", [arguments.limit] if arguments.limit else []),
        ("-e", [*arguments.extra_vars, json.dumps(own)]),
        ("--vault-password-file", arguments.vault_password_file),
    ):
        words += [word for value in values for word in (option, value)]
    return words


def _new_name() -> str:
    return f"firstlight-{datetime.datetime.now().astimezone():%Y%m%d-%H%M%S}"


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 1 to 3600")
    return int(text)
