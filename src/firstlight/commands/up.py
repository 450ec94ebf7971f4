# SPDX-License-Identifier: Apache-2.0
"""`firstlight up`: check the cluster first, and run site.yml only if needed."""

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
        description="Brings a cluster up, or back to its plan. It checks all hosts first, as `firstlight verify` "
        "does, and stops if nothing differs and the server answers. Otherwise it runs `ansible-playbook site.yml`; "
        "with -e or an option of Ansible's it does so at once. Running it again changes only what differs. Exits 0 "
        "when everything is right, and 1 when a host failed or did not answer.",
    )
    parser.set_defaults(run=run)
    add_host_options(parser)
    add_limit_option(parser)
    parser.add_argument("-t", "--tags", action="append", default=[], help="as for ansible-playbook")
    parser.add_argument("--skip-tags", action="append", default=[], metavar="TAGS", help="as for ansible-playbook")
    parser.add_argument("-C", "--check", action="store_true", help="show what would change, change nothing")
    parser.add_argument("-D", "--diff", action="store_true", help="show what changes in files")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="as for ansible-playbook")


def run(arguments: argparse.Namespace) -> int:
    """Return DONE if a check finds nothing to do; otherwise run the playbook in this terminal."""
    more = options(arguments)
    if not more and not arguments.extra_vars and is_right(arguments):
        return DONE
    from firstlight.playbooks import playbook_words, run_playbook

    return run_playbook(playbook_words(PLAYBOOK, arguments, more=more))


def options(arguments: argparse.Namespace) -> list[str]:
    """Return the options that are passed on to ansible-playbook unchanged."""
    words = [f"--tags={value}" for value in arguments.tags] + [f"--skip-tags={value}" for value in arguments.skip_tags]
    words += [f"--{option}" for option in ("check", "diff") if vars(arguments)[option]]
    return [*words, *(["-" + "v" * arguments.verbose] if arguments.verbose else [])]


def is_right(arguments: argparse.Namespace) -> bool:
    """Return whether every host matches its plan and the server answers; print each reason why site.yml must run."""
    use_own_settings()
    gc.disable()  # as for a plan: it creates almost no garbage
    try:
        import firstlight.inventory  # noqa: F401 - first: it sets up Ansible's collection import hook
        from firstlight.looking import read, reasons_to_run

        reasons = reasons_to_run(read(arguments))
    except FirstlightError:
        return False  # the playbook itself reports what cannot be read or is refused
    finally:
        gc.enable()
    for reason in reasons:
        print(f"site.yml runs: {reason}", file=sys.stderr)
    return not reasons
