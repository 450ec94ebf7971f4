# SPDX-License-Identifier: Apache-2.0
"""Evaluate the SSH options of commands that log in themselves, and read secrets, which are never passed as options."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from firstlight.errors import UsageError

from .arguments import KNOWN_HOSTS
from .faults import Fault, NodeError
from .host_keys import HostKey, parse_fingerprints
from .session import Credentials, Session, closing, read_keys
from .targets import Target
from .trust import Trust

_MOST_PASSWORD = 1024


def read_password(arguments: argparse.Namespace) -> str | None:
    """Read the password from the terminal or a file descriptor; None if neither option was given."""
    if arguments.ask_password:
        secret = getpass.getpass(f"Password of {arguments.user} on the nodes: ")
    elif arguments.password_fd is not None:
        try:
            with open(arguments.password_fd, encoding="utf-8") as file:
                secret = file.read(_MOST_PASSWORD).partition("\n")[0]
        except (OSError, UnicodeDecodeError):
            raise UsageError(
                f"file descriptor {arguments.password_fd} gives no password; expected one line. "
                "For example: --password-fd 3 3< <(pass show nodes)"
            ) from None
    else:
        return None
    if not secret or not secret.isprintable():
        raise UsageError("the password is empty or has unprintable characters; expected one line.")
    return secret


def credentials(arguments: argparse.Namespace) -> Credentials:
    public = Path(arguments.key).expanduser()
    return Credentials(arguments.user, read_keys(public.with_suffix("")), read_password(arguments))


def public_key(arguments: argparse.Namespace) -> str:
    """Return the line of the operator's public key. Raises UsageError."""
    path = Path(arguments.key).expanduser()
    if not path.is_file() or path.suffix != ".pub":
        raise UsageError(
            f"{arguments.key} is not a public key; expected a file that ends in .pub. "
            "Make one with `ssh-keygen -t ed25519`, or name yours with --key."
        )
    return path.read_text(encoding="utf-8").strip()


def trust(arguments: argparse.Namespace, *, keep: bool = True) -> Trust:
    listed: Mapping[str, str] = {}
    if arguments.fingerprints:
        listed = parse_fingerprints(Path(arguments.fingerprints).read_text(encoding="utf-8"))
    replaces = list(getattr(arguments, "replaces", None) or [])
    known = Path(arguments.inventory) / KNOWN_HOSTS
    return Trust(known, dict(listed), list(arguments.accept), keep, replaces=replaces)


def shown_key(target: Target, port: int, trusted: Trust) -> HostKey | Fault:
    """Return the key that a host presents before any login, or the fault."""
    try:
        kinds = [key.kind for key in trusted.known(target, port)]
        with closing(Session.open(target.address, port, kinds)) as session:
            return session.host_key
    except NodeError as error:
        return error.fault


def confirm(trusted: Trust, keys: Mapping[Target, HostKey], port: int, ask: Callable[[str], str] = input) -> None:
    """Let the person at the terminal confirm unknown keys one by one; a yes applies to exactly that key."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    for target, key in keys.items():
        verdict = trusted.evaluate(target, port, key)
        if isinstance(verdict, Fault) and verdict.kind == "host-key-unknown":
            print(f"{target.name} ({target.address}) presents the {key.kind} key {key.fingerprint}", file=sys.stderr)
            if ask("Is that its key? [y/N] ").strip().lower() in ("y", "yes"):
                trusted.listed = {**trusted.listed, target.name: key.fingerprint}


def refuse_missing_private(found: Credentials, key_line: str) -> None:
    """Require the private key, without which the installed public key cannot be verified. Raises UsageError."""
    blob = key_line.split()[1] if len(key_line.split()) > 1 else ""
    if not any(key.get_base64() == blob for key in found.keys):
        raise UsageError(
            "the operator's private key is neither beside the .pub file without a passphrase nor in an SSH "
            "agent; expected one of them, to check that the key works. Run ssh-add, or name another key with --key."
        )
