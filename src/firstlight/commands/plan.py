# SPDX-License-Identifier: Apache-2.0
"""`firstlight plan`: what would be done to every host and what is expected of it, on paper."""

from __future__ import annotations

import argparse
import json
import sys

from firstlight.inventory import plan_inventory
from firstlight.plan_view import show

REFUSED = 2


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "plan",
        help="what would be done to every host, and what cannot work; no host is contacted",
        description="Turns an inventory and the catalog into the plan that site.yml carries out. No host is contacted. "
        "Ends with 0, or with 2 when the plan is refused.",
    )
    parser.set_defaults(run=run)
    parser.add_argument("-J", "--ask-vault-pass", action="store_true", help="ask for the password of the vault")
    parser.add_argument("-i", "--inventory", action="append", required=True, help="as for ansible-playbook")
    parser.add_argument("-e", "--extra-vars", action="append", default=[], help="as for ansible-playbook")
    parser.add_argument("--vault-password-file", action="append", default=[], help="as for ansible-playbook")
    parser.add_argument("--json", action="store_true", help="the whole plan for programs")


def run(arguments: argparse.Namespace) -> int:
    """Plan, print, and say with the status whether it is refused."""
    plan = plan_inventory(
        arguments.inventory,
        extra_vars=arguments.extra_vars,
        vault_password_files=arguments.vault_password_file,
    )
    if arguments.json:
        sys.stdout.write(json.dumps(plan.document(), indent=2) + "\n")
    else:
        show(plan)
    return REFUSED if plan.refusals else 0
