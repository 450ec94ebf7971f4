# SPDX-License-Identifier: Apache-2.0
"""Nodes as they are delivered: one account with a password that may use sudo, password login, no key of ours."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from .host import Engine

USER = "operator"
PASSWORD = "operator-password"  # noqa: S105 - the name of the file
GROUPS = ("--gid", USER, "--groups", "sudo")  # Debian has a group of that name already
PRODUCTS = {"gb10": "NVIDIA DGX Spark"}
"""What the firmware calls a machine; every other one is a plain server."""

# The machine that carries the lab may have no firmware tables, and they would be its own.
DMIDECODE = """\
#!/bin/sh
case "$*" in
    "-s system-serial-number") cat /etc/firstlight-lab/serial ;;
    "-s system-product-name") echo "{product}" ;;
    *) exit 2 ;;
esac
"""


def password(directory: Path) -> str:
    """The lab's password, made when it is first asked for; only the lab's owner can read the file."""
    path = directory / PASSWORD
    if not path.exists():
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(12) + "\n")
    return path.read_text(encoding="ascii").strip()


def serial(node: str, machine: int = 0) -> str:
    """The number on the sticker of a node; `machine` counts those that have replaced each other."""
    return f"LAB-{node.upper()}" + (f"-{machine}" if machine else "")


def firmware(number: str, profile: str) -> dict[str, str]:
    """What a machine says of itself, with this serial number."""
    return {
        "etc/firstlight-lab/serial": number + "\n",
        "usr/local/sbin/dmidecode": DMIDECODE.format(product=PRODUCTS.get(profile, "Server")),
    }


def files() -> dict[str, str]:
    """What such a node has in the place of the lab's key."""
    return {"etc/ssh/sshd_config.d/50-delivered.conf": "PasswordAuthentication yes\n"}


def add_account(engine: Engine, container: str, secret: str) -> None:
    """The account; its password goes through standard input."""
    engine.docker("exec", container, "useradd", "--create-home", "--shell", "/bin/bash", *GROUPS, USER)
    engine.docker("exec", "-i", container, "chpasswd", stdin=f"{USER}:{secret}\n")
