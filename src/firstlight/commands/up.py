# SPDX-License-Identifier: Apache-2.0
"""`firstlight up`: a look first, and site.yml where that does not suffice."""

from __future__ import annotations

import argparse
import gc
import sys

from firstlight.configuration import use_own_settings
from firstlight.errors import DONE, FirstlightError
from firstlight.options import add_host_options, add_limit_option

PLAYBOOK = "site.yml"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "up",
        description="Brings a cluster up, or back to its plan. It looks at all hosts first, as `firstlight verify` "
        "does; where nothing differs and the server answers, that is all. Else it runs `ansible-playbook site.yml`; "
        "with -e or an option of Ansible's it does so at once. Running it again changes only what differs. Exits 0 "
        "when everything is right, and 1 when a host failed or did not answer.",
    )
    parser.set_defaults(run=run)
    add_host_options(parser)
    add_limit_option(parser)
    parser.add_argument("-t", "--tags", action="append", default=[], help="as for ansible-playbook")
    parser.add_argument("--skip-tags", action="append", default=[], metavar="TAGS", help="as for ansible-playbook")
    parser.add_argument("-C", "--check", action="store_true", help="say what would change, change nothing")
    parser.add_argument("-D", "--diff", action="store_true", help="show what changes in files")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="as for ansible-playbook")


def run(arguments: argparse.Namespace) -> int:
    """Done where a look shows that nothing is to be done; else the playbook, in this terminal."""
    more = options(arguments)
    if not more and not arguments.extra_vars and is_right(arguments):
        return DONE
    from firstlight.playbooks import playbook_words, run_playbook

    return run_playbook(playbook_words(PLAYBOOK, arguments, more=more))


def options(arguments: argparse.Namespace) -> list[str]:
    """The options that ansible-playbook takes in the same words."""
    words = [f"--tags={value}" for value in arguments.tags] + [f"--skip-tags={value}" for value in arguments.skip_tags]
    words += [f"--{option}" for option in ("check", "diff") if vars(arguments)[option]]
    return [*words, *(["-" + "v" * arguments.verbose] if arguments.verbose else [])]


def is_right(arguments: argparse.Namespace) -> bool:
    """Whether every host is as its plan has it and the server answers; says what is not, and so is left to site.yml."""
    use_own_settings()
    gc.disable()  # as for a plan: next to nothing of it is garbage
    try:
        import firstlight.inventory  # noqa: F401 - first: it prepares Ansible's own way to import collections
        from firstlight.looking import read, reasons_to_run

        reasons = reasons_to_run(read(arguments))
    except FirstlightError:
        return False  # what cannot be read, or is refused, the playbook says
    finally:
        gc.enable()
    for reason in reasons:
        print(f"site.yml runs: {reason}", file=sys.stderr)
    return not reasons
