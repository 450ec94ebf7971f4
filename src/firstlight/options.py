# SPDX-License-Identifier: Apache-2.0
"""The options that commands share, and the secrets they ask for, which no option holds."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .errors import UsageError


def add_inventory_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """The options of every command that reads an inventory."""
    parser.add_argument(
        "-i", "--inventory", action="append", required=required, metavar="INVENTORY", help="as for ansible-playbook"
    )
    parser.add_argument(
        "-e", "--extra-vars", action="append", default=[], metavar="VARIABLES", help="as for ansible-playbook"
    )
    parser.add_argument(
        "--vault-password-file", action="append", default=[], metavar="FILE", help="as for ansible-playbook"
    )
    parser.add_argument("-J", "--ask-vault-pass", action="store_true", help="ask for the password of the vault")


def add_host_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """The options of every command that contacts the hosts of an inventory."""
    add_inventory_options(parser, required=required)
    parser.add_argument("-K", "--ask-become-pass", action="store_true", help="ask for the password of sudo")
    parser.set_defaults(become_password_file=[])


def add_limit_option(parser: argparse.ArgumentParser) -> None:
    """For commands that may leave hosts out."""
    parser.add_argument("-l", "--limit", metavar="PATTERN", help="only these hosts, as for ansible-playbook")


def add_json_option(parser: argparse.ArgumentParser, what: str = "for programs") -> None:
    """`--json`: the answer as one document; an error is one, too."""
    parser.add_argument("--json", action="store_true", help=what)


def count(text: str) -> int:
    """A number as an inventory may have it, too: 32768, 128k or 128K."""
    # Not before it is needed: commands that read an inventory first prepare Ansible's way to import collections.
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.serving_values import (  # noqa: PLC0415
        read_count,
    )

    try:
        return read_count(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number, expected one such as 32768, 128k or 1M") from None


@contextlib.contextmanager
def asked_secrets(arguments: argparse.Namespace) -> Iterator[None]:
    """Ask once for what `-J` and `-K` promise, and hand it over as files that nobody else can read.

    Ansible takes a file by its real name only, so that it can be neither a pipe nor a file without a name.
    """
    wanted = [
        (files, prompt)
        for option, files, prompt in (
            ("ask_vault_pass", "vault_password_file", "Vault password: "),
            ("ask_become_pass", "become_password_file", "BECOME password: "),
        )
        if getattr(arguments, option, False)
    ]
    if not wanted:
        yield
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask for a password at, expected one for -J and -K: name a file with "
            "--vault-password-file, or set ansible_become_password in a vault"
        )
    # The memory of the session where there is one, which is never written to a disk.
    memory = os.environ.get("XDG_RUNTIME_DIR")
    where = memory if memory and os.path.isdir(memory) else None
    with tempfile.TemporaryDirectory(prefix="firstlight-", dir=where) as directory:
        for files, prompt in wanted:
            secret = getpass.getpass(prompt)
            if not secret:
                raise UsageError("the password is empty, expected one: run the command again")
            path = Path(directory) / files
            path.touch(mode=0o600)
            path.write_text(f"{secret}\n", encoding="utf-8")
            setattr(arguments, files, [*getattr(arguments, files), str(path)])
        yield
