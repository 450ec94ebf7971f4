# SPDX-License-Identifier: Apache-2.0
"""Options shared by commands, and prompts for secrets, which are never passed as options."""

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
    """Add the options of every command that reads an inventory."""
    parser.add_argument(
        "-i", "--inventory", action="append", required=required, metavar="INVENTORY", help="as for ansible-playbook"
    )
    parser.add_argument(
        "-e", "--extra-vars", action="append", default=[], metavar="VARIABLES", help="as for ansible-playbook"
    )
    parser.add_argument(
        "--vault-password-file", action="append", default=[], metavar="FILE", help="as for ansible-playbook"
    )
    parser.add_argument("-J", "--ask-vault-pass", action="store_true", help="prompt for the vault password")


def add_host_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the options of every command that contacts the hosts of an inventory."""
    add_inventory_options(parser, required=required)
    parser.add_argument("-K", "--ask-become-pass", action="store_true", help="prompt for the sudo password")
    parser.set_defaults(become_password_file=[])


def add_limit_option(parser: argparse.ArgumentParser) -> None:
    """Add `--limit`, for commands that can skip hosts."""
    parser.add_argument("-l", "--limit", metavar="PATTERN", help="only these hosts, as for ansible-playbook")


def add_json_option(parser: argparse.ArgumentParser, what: str = "print the result as JSON") -> None:
    """Add `--json`: print the result as one document, and errors as well."""
    parser.add_argument("--json", action="store_true", help=what)


def count(text: str) -> int:
    """Parse a number in the notation of an inventory: 32768, 128k or 128K."""
    # Imported late: commands that read an inventory first set up Ansible's collection import hook.
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.serving_values import (  # noqa: PLC0415
        read_count,
    )

    try:
        return read_count(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, expected one such as 32768, 128k or 1M") from None


@contextlib.contextmanager
def asked_secrets(arguments: argparse.Namespace) -> Iterator[None]:
    """Prompt once for the secrets of `-J` and `-K`, and pass them on as files that nobody else can read.

    Ansible only accepts a file by its real path, so neither a pipe nor an unnamed file works.
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
            "there is no terminal to prompt for a password, expected one for -J and -K: name a file with "
            "--vault-password-file, or set ansible_become_password in a vault"
        )
    # Prefer the session's in-memory directory, which is never written to disk.
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
