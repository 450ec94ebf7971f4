# SPDX-License-Identifier: Apache-2.0
"""Who runs Ansible, where, and as which process."""

from __future__ import annotations

import hashlib
import os
import pwd
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.firstlight.cluster.plugins.module_utils.host import process_started


def login_name(uid: int, environment: Mapping[str, str]) -> str:
    """The name of this user; where nobody knows one, the number."""
    sudo = environment.get("SUDO_USER", "").strip()
    if uid == 0 and sudo:
        return sudo
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        named = (environment.get(name, "").strip() for name in ("LOGNAME", "USER"))
        return next((name for name in named if name), f"user {uid}")


@dataclass(frozen=True)
class Run:
    """One run of Ansible."""

    owner: str
    machine: str
    """Where a process number means the same: this machine, and in a container this container."""
    pid: int
    started: str

    @property
    def name(self) -> str:
        """No other run has it."""
        return f"{self.machine}-{self.pid}-{self.started}"

    @classmethod
    def of(cls, pid: int) -> Run:
        """The run whose main process this is."""
        host = socket.gethostname()
        known = [host]
        for place in ("/etc/machine-id", "/proc/self/ns/pid"):
            path = Path(place)
            try:
                known.append(os.readlink(path) if path.is_symlink() else path.read_text().strip())
            except OSError:
                continue
        machine = hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]
        return cls(f"{login_name(os.getuid(), os.environ)}@{host}", machine, pid, process_started(pid))


def is_over(name: str, here: str) -> bool | None:
    """Whether a run has ended, by its name; None for one that is not of this machine."""
    machine, _, process = name.rpartition("-")[0].rpartition("-")
    if machine != here or not process.isdecimal():
        return None
    started = name.rpartition("-")[2]
    # Not every system tells when a process was started.
    return process_started(int(process)) != started if started else not exists(int(process))


def exists(pid: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
