# SPDX-License-Identifier: Apache-2.0
"""SSH options of commands that log in themselves; kept apart so that `--help` does not import the SSH library."""

from __future__ import annotations

import argparse
import getpass

KNOWN_HOSTS = "known_hosts"
DEFAULT_KEY = "~/.ssh/id_ed25519.pub"


def add_ssh_options(parser: argparse.ArgumentParser, *, inventory: bool) -> None:
    """Add the options that select accounts, keys and trusted host keys."""
    parser.add_argument(
        "-i",
        "--inventory",
        metavar="DIR",
        required=inventory,
        help=f"directory with the {KNOWN_HOSTS} file in which keys are pinned",
    )
    parser.add_argument("--user", default=getpass.getuser(), help="the account on the nodes (default: your own name)")
    parser.add_argument("--port", type=int, default=22, help="where sshd listens (default: 22)")
    parser.add_argument(
        "--key", default=DEFAULT_KEY, metavar="FILE.pub", help="the operator's public key (default: %(default)s)"
    )
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument("--ask-password", action="store_true", help="prompt for the account's password")
    secret.add_argument("--password-fd", type=int, metavar="N", help="read it from this file descriptor")
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="NODE",
        help="trust the key that this node presents now, and pin it",
    )
    parser.add_argument("--fingerprints", metavar="FILE", help="lines of `NODE SHA256:...` with the expected keys")
