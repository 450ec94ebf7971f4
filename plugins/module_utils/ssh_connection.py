# SPDX-License-Identifier: Apache-2.0
"""The SSH connection over which a module was started, which a change must not cut."""

from __future__ import annotations

import os
from collections.abc import Mapping

from .host import Host

_GENERATIONS = 64
"""How many ancestors are searched for the SSH connection; a chain of shells and sudo is far shorter."""


def ssh_ends(host: Host, environment: Mapping[str, str] | None = None) -> tuple[str, str, int] | None:
    """Return the client's address, our address and our port; None if this process was not started over SSH.

    sudo removes the variable, so it is also looked up in the ancestors of this process.
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
