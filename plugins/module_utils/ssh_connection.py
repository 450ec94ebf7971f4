# SPDX-License-Identifier: Apache-2.0
"""The SSH connection that a module was started over: a change must not cut it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from .host import Host

_GENERATIONS = 64
"""Ancestors that are asked for their SSH connection; a chain of shells and sudo is far shorter."""


def ssh_ends(host: Host, environment: Mapping[str, str] | None = None) -> tuple[str, str, int] | None:
    """Address of the client, our own, and our port; None when this process was not started over SSH.

    sudo takes the variable away, so it is looked for in the processes that this one descends from.
    """
    text = (os.environ if environment is None else environment).get("SSH_CONNECTION") or _inherited(host)
    words = text.split()
    if len(words) != 4 or not words[3].isdecimal():
        return None
    client, server = (word.partition("%")[0] for word in (words[0], words[2]))
    return client, server, int(words[3])


def _inherited(host: Host) -> str:
    process = "self"
    for _ in range(_GENERATIONS):
        for entry in (host.read_text(f"/proc/{process}/environ") or "").split("\0"):
            name, _, value = entry.partition("=")
            if name == "SSH_CONNECTION" and value:
                return value
        status = (host.read_text(f"/proc/{process}/status") or "").splitlines()
        process = next((line.split()[1] for line in status if line.startswith("PPid:")), "0")
        if process == "0":
            break
    return ""
