# SPDX-License-Identifier: Apache-2.0
"""Identify who runs Ansible, on which machine and in which process."""

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
    """Return the name of a user (under sudo, of the invoking one), or the number if no name is known."""
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
    """Identifies the PID namespace: this machine or, in a container, this container."""
    pid: int
    started: str

    @property
    def name(self) -> str:
        """Unique name of the run."""
        return f"{self.machine}-{self.pid}-{self.started}"

    @classmethod
    def of(cls, pid: int) -> Run:
        """Return the run with this main process."""
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
    """Return whether the named run has ended; None if it belongs to another machine."""
    machine, _, process = name.rpartition("-")[0].rpartition("-")
    if machine != here or not process.isdecimal():
        return None
    started = name.rpartition("-")[2]
    # Not every system provides the start time of a process.
    return process_started(int(process)) != started if started else not exists(int(process))


def exists(pid: int) -> bool:
    """Return whether a process with this PID exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
