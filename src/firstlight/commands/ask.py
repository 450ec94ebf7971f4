# SPDX-License-Identifier: Apache-2.0
"""`firstlight ask`: send one question to a cluster through its endpoint, like any OpenAI client."""

from __future__ import annotations

import argparse
import sys

from firstlight.options import add_inventory_options


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "ask",
        description="Sends a question to the model of a cluster through its endpoint, with a key that the bring-up "
        "copied to this machine, and shows the answer as it is generated. With --how nothing is sent: it shows what "
        "any other client needs.",
    )
    parser.set_defaults(run=run)
    parser.add_argument("question", nargs="?", default="Say hello.", help="what to ask; - reads it from standard input")
    add_inventory_options(parser)
    parser.add_argument("--key", default="", metavar="NAME", help="which key to use (default: the first)")
    parser.add_argument("--model", default="", help="the model's name (default: the one that the inventory serves)")
    parser.add_argument("--no-stream", action="store_true", help="show the answer when it is complete")
    parser.add_argument("--json", action="store_true", help="print the whole answer as JSON; not streamed")
    parser.add_argument("--how", action="store_true", help="show address, files and a curl command instead")


def run(arguments: argparse.Namespace) -> int:
    """Send the question and print the answer."""
    from firstlight.inventory import plan_inventory  # first: it sets up Ansible's collection import hook
    from firstlight.known_endpoint import find_help, show_how

    plan = plan_inventory(
        arguments.inventory, extra_vars=arguments.extra_vars, vault_password_files=arguments.vault_password_file
    )
    help_ = find_help(plan, arguments)
    if arguments.how:
        show_how(help_)
        return 0
    from firstlight.asking import ask  # importing the client takes a second

    question = sys.stdin.read() if arguments.question == "-" else arguments.question
    ask(help_, question, stream=not (arguments.no_stream or arguments.json), as_json=arguments.json)
    return 0
