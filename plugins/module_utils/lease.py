# SPDX-License-Identifier: Apache-2.0
"""The lease of a cluster, a file on its head: who is changing the cluster, since when, and the last heartbeat.

The age of a heartbeat is measured by the uptime, never by the clock, which may be set at any moment.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shlex
from collections.abc import Mapping
from typing import Any

from .durable import locked, write_durable
from .host import write_file

PATH = "/var/lib/firstlight/lease.json"
BEAT = ".beat"
"""Suffix of the file beside it that holds the uptime at the last heartbeat and the ID of that boot."""
UPTIME, BOOT_ID = "/proc/uptime", "/proc/sys/kernel/random/boot_id"
LOST = 3
"""Exit status of a heartbeat if another run holds the lease."""

TRIES = 5
FIELDS = ("run", "owner", "machine", "pid", "playbook")


class LeaseError(Exception):
    """Why the lease can be neither taken nor read, in one message."""


class Leases:
    """The lease of the cluster of which this machine is the head."""

    def __init__(self, path: str = PATH, uptime: str = UPTIME, boot_id: str = BOOT_ID) -> None:
        self.path = path
        self._uptime, self._boot_id = uptime, boot_id

    def take(self, wanted: Mapping[str, Any], replace: str = "") -> dict[str, Any]:
        """Take the lease if it is free or held by the run `replace`; else return its holder and heartbeat's age."""
        directory = os.path.dirname(self.path)
        try:
            for _ in range(TRIES):
                os.makedirs(directory, mode=0o755, exist_ok=True)
                # The run that releases the lease at this moment may remove the directory too.
                with contextlib.suppress(FileNotFoundError), locked(directory):
                    return self._take(wanted, replace)
        except OSError as error:
            raise LeaseError(
                f"The cluster's lease cannot be kept in {directory} ({error.strerror or error}), expected free "
                "space there and root's rights: make room, and run with become"
            ) from error
        raise LeaseError(f"{directory} keeps disappearing, expected it to stay: find what removes it")

    def _take(self, wanted: Mapping[str, Any], replace: str) -> dict[str, Any]:
        found = self.read()
        if found is not None and found["run"] not in (wanted["run"], replace):
            return {"taken": False, "lease": found, "age": self.age()}
        since = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        renewed = found is not None and found["run"] == wanted["run"]
        if found is not None and renewed:
            since = found["since"]
        lease = {**{name: wanted[name] for name in FIELDS}, "since": since}
        write_durable(self.path, json.dumps(lease, indent=1) + "\n", 0o644)
        write_file(self.path + BEAT, "\n".join(self._now()) + "\n", 0o644)
        return {"taken": True, "renewed": renewed, "lease": lease, "age": 0.0}

    def read(self) -> dict[str, Any] | None:
        """Return the current lease, or None; raises LeaseError for an invalid file."""
        try:
            with open(self.path, encoding="utf-8") as stream:
                found = json.load(stream)
        except FileNotFoundError:
            return None
        except ValueError:
            found = None
        if not isinstance(found, dict) or any(name not in found for name in (*FIELDS, "since")):
            raise LeaseError(
                f"{self.path} was not written by a run, expected the holder of the cluster's lease: make "
                "sure that nobody else is working on the cluster, and remove the file"
            )
        return found

    def age(self) -> float | None:
        """Return the seconds since the last heartbeat, a lower bound after a reboot; None if unknown."""
        try:
            with open(self.path + BEAT, encoding="ascii") as stream:
                uptime, boot = stream.read().split("\n")[:2]
            now, this_boot = self._now()
            before = float(uptime.split()[0]) if boot == this_boot else 0.0
            return max(0.0, float(now.split()[0]) - before)
        except (OSError, ValueError, IndexError):
            return None

    def _now(self) -> tuple[str, str]:
        """Return the uptime and the boot ID as the kernel reports them."""
        with open(self._uptime, encoding="ascii") as uptime, open(self._boot_id, encoding="ascii") as boot:
            return uptime.read().strip(), boot.read().strip()


def _in_shell(path: str, run: str, then: str) -> str:
    """Return a shell command that runs `then` only while this run holds the lease; it may run every few seconds."""
    script = f"grep -qF {shlex.quote(json.dumps(run))} {shlex.quote(path)} || exit {LOST}; {then}"
    # flock would create a file in place of a missing directory.
    locked = f"flock -w 30 {shlex.quote(os.path.dirname(path))} /bin/sh -c {shlex.quote(script)}"
    return f"[ ! -e {shlex.quote(path)} ] || {locked}"


def beat_command(path: str, run: str) -> str:
    """Return the shell command of a heartbeat on the head; it exits with LOST if another run now holds the lease."""
    return _in_shell(path, run, f"cat {UPTIME} {BOOT_ID} >{shlex.quote(path + BEAT)}")


def release_command(path: str, run: str) -> str:
    """Return the shell command that releases the lease on the head, and removes its directory if that is then empty."""
    names = f"{shlex.quote(path)} {shlex.quote(path + BEAT)}"
    return _in_shell(path, run, f"rm -f {names}; rmdir {shlex.quote(os.path.dirname(path))} 2>/dev/null || :")
