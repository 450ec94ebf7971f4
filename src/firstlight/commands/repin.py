# SPDX-License-Identifier: Apache-2.0
"""`firstlight repin`: move a cluster to another stack release; with --plan, only show the effect."""

from __future__ import annotations

import argparse
import json
import sys

from firstlight.errors import REFUSED
from firstlight.options import add_host_options


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "repin",
        description="Moves every host of an inventory to another stack release as one transaction with a rollback: "
        "the same as `ansible-playbook playbooks/repin.yml -e stack=NAME`. With --plan no host is contacted, and the "
        "command exits 0, or 2 when the move is refused.",
    )
    parser.set_defaults(run=run)
    parser.add_argument("--plan", action="store_true", help="show what would be done; no host is contacted")
    parser.add_argument("--stack", required=True, metavar="NAME", help="the stack release to move to")
    add_host_options(parser)
    parser.add_argument("--json", action="store_true", help="with --plan: print the whole document as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Compare the two plans and print the result, or run the playbook."""
    if not arguments.plan:
        from firstlight.playbooks import playbook_words, run_playbook

        return run_playbook(playbook_words("repin.yml", arguments, {"stack": arguments.stack}))
    from firstlight.inventory import Asked, plan_inventory  # first: it sets up Ansible's collection import hook
    from firstlight.repin_view import on_paper, show

    present, wanted = (
        plan_inventory(
            arguments.inventory,
            extra_vars=arguments.extra_vars,
            vault_password_files=arguments.vault_password_file,
            asked=Asked(stack=stack),
        )
        for stack in (None, arguments.stack)
    )
    document = on_paper(present, wanted, arguments.stack)
    if arguments.json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        show(document)
    return REFUSED if document["errors"] else 0
