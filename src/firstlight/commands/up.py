# SPDX-License-Identifier: Apache-2.0
"""`firstlight up` and `firstlight verify`: the short way to the two playbooks that people run every day."""

from __future__ import annotations

import argparse

from firstlight.options import add_host_options, add_limit_option
from firstlight.playbooks import playbook_words, run_playbook

PLAYBOOKS = {
    "up": (
        "site.yml",
        (
            "Brings a cluster up, or back to its plan: the same as `ansible-playbook site.yml`. Running it again "
            "changes only what differs. Exits 0 when everything is right, and 1 when a host failed or did not answer."
        ),
    ),
    "verify": (
        "verify.yml",
        (
            "Compares every host with its plan and changes nothing: the same as `ansible-playbook playbooks/verify.yml`"
            ". Exits 0 when every check on every host is right, and 1 when one is not."
        ),
    ),
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    for name, (playbook, text) in PLAYBOOKS.items():
        parser = commands.add_parser(name, description=text)
        parser.set_defaults(run=run, playbook=playbook)
        add_host_options(parser)
        add_limit_option(parser)
        parser.add_argument("-t", "--tags", action="append", default=[], help="as for ansible-playbook")
        parser.add_argument("--skip-tags", action="append", default=[], metavar="TAGS", help="as for ansible-playbook")
        parser.add_argument("-C", "--check", action="store_true", help="say what would change, change nothing")
        parser.add_argument("-D", "--diff", action="store_true", help="show what changes in files")
        parser.add_argument("-v", "--verbose", action="count", default=0, help="as for ansible-playbook")


def run(arguments: argparse.Namespace) -> int:
    """Run the playbook in this terminal."""
    return run_playbook(playbook_words(arguments.playbook, arguments, more=options(arguments)))


def options(arguments: argparse.Namespace) -> list[str]:
    """The options that ansible-playbook takes in the same words."""
    words = [f"--tags={value}" for value in arguments.tags] + [f"--skip-tags={value}" for value in arguments.skip_tags]
    words += [f"--{option}" for option in ("check", "diff") if vars(arguments)[option]]
    return [*words, *(["-" + "v" * arguments.verbose] if arguments.verbose else [])]
