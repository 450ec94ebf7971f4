# SPDX-License-Identifier: Apache-2.0
"""`firstlight completion`: print the completion script for a shell."""

from __future__ import annotations

import argparse
import sys

from firstlight.completion import SHELLS, script
from firstlight.errors import DONE


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "completion",
        description="Prints the completion script for a shell. It is static: the shell runs no program while you type. "
        "Example: firstlight completion bash > ~/.local/share/bash-completion/completions/firstlight",
    )
    parser.set_defaults(run=run)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    sys.stdout.write(script(arguments.shell))
    return DONE
