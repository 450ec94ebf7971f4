# SPDX-License-Identifier: Apache-2.0
"""Nodes as delivered: one account with a password and sudo, password login enabled, and none of our keys."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from .host import Engine

USER = "operator"
PASSWORD = "operator-password"  # noqa: S105 - the name of the file
GROUPS = ("--gid", USER, "--groups", "sudo")  # Debian already has a group of that name
PRODUCTS = {"gb10": "NVIDIA DGX Spark"}
"""Product names in firmware by profile; any other machine is a plain server."""

# The machine that runs the lab may have no firmware tables, and any it has would describe that machine.
DMIDECODE = """\
#!/bin/sh
case "$*" in
    "-s system-serial-number") cat /etc/firstlight-lab/serial ;;
    "-s system-product-name") echo "{product}" ;;
    *) exit 2 ;;
esac
"""


def password(directory: Path) -> str:
    """Return the lab's password, generated on first use; the file is readable only by the lab's owner."""
    path = directory / PASSWORD
    if not path.exists():
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(12) + "\n")
    return path.read_text(encoding="ascii").strip()


def serial(node: str, machine: int = 0) -> str:
    """Return the serial number of a node; `machine` counts how often its machine was replaced."""
    return f"LAB-{node.upper()}" + (f"-{machine}" if machine else "")


def firmware(number: str, profile: str) -> dict[str, str]:
    """Return the firmware data of a machine with this serial number, as files."""
    return {
        "etc/firstlight-lab/serial": number + "\n",
        "usr/local/sbin/dmidecode": DMIDECODE.format(product=PRODUCTS.get(profile, "Server")),
    }


def files() -> dict[str, str]:
    """Return the files that such a node has instead of the lab's key."""
    return {"etc/ssh/sshd_config.d/50-delivered.conf": "PasswordAuthentication yes\n"}


def add_account(engine: Engine, container: str, secret: str) -> None:
    """Create the account; its password is passed on standard input."""
    engine.docker("exec", container, "useradd", "--create-home", "--shell", "/bin/bash", *GROUPS, USER)
    engine.docker("exec", "-i", container, "chpasswd", stdin=f"{USER}:{secret}\n")
