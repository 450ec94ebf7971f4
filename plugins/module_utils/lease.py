# SPDX-License-Identifier: Apache-2.0
"""The lease of a cluster, a file on its head: who changes the cluster now, since when, and when was last heard of it.

How long ago something was heard is told by the time since the boot, never by the clock: that may be set at any moment.
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
"""Ends the name of the file beside it with the time since the boot of the last heartbeat, and that boot's name."""
UPTIME, BOOT_ID = "/proc/uptime", "/proc/sys/kernel/random/boot_id"
LOST = 3
"""What a heartbeat exits with when the lease is another run's."""

TRIES = 5
FIELDS = ("run", "owner", "machine", "pid", "playbook")


class LeaseError(Exception):
    """Why the lease can be neither taken nor told of, in one message."""


class Leases:
    """The lease of the cluster whose head this is."""

    def __init__(self, path: str = PATH, uptime: str = UPTIME, boot_id: str = BOOT_ID) -> None:
        self.path = path
        self._uptime, self._boot_id = uptime, boot_id

    def take(self, wanted: Mapping[str, Any], replace: str = "") -> dict[str, Any]:
        """Hold the lease where nobody does, or only the run `replace`; else whose it is, and when that was heard."""
        directory = os.path.dirname(self.path)
        try:
            for _ in range(TRIES):
                os.makedirs(directory, mode=0o755, exist_ok=True)
                # Whoever gives it back in this moment may take the directory along.
                with contextlib.suppress(FileNotFoundError), locked(directory):
                    return self._take(wanted, replace)
        except OSError as error:
            raise LeaseError(
                f"The cluster's lease cannot be kept in {directory} ({error.strerror or error}), expected room for it "
                "and root's rights: make room there, and run with become"
            ) from error
        raise LeaseError(f"{directory} goes away again and again, expected it to stay: look for what removes it")

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
        """The lease that is held; raises LeaseError for a file that is none."""
        try:
            with open(self.path, encoding="utf-8") as stream:
                found = json.load(stream)
        except FileNotFoundError:
            return None
        except ValueError:
            found = None
        if not isinstance(found, dict) or any(name not in found for name in (*FIELDS, "since")):
            raise LeaseError(
                f"{self.path} is not what a run writes there, expected who holds the cluster's lease: make sure that "
                "nobody else is at work on the cluster, and remove the file"
            )
        return found

    def age(self) -> float | None:
        """Seconds since the last heartbeat, at least; None where nobody can tell."""
        try:
            with open(self.path + BEAT, encoding="ascii") as stream:
                uptime, boot = stream.read().split("\n")[:2]
            now, this_boot = self._now()
            before = float(uptime.split()[0]) if boot == this_boot else 0.0
            return max(0.0, float(now.split()[0]) - before)
        except (OSError, ValueError, IndexError):
            return None

    def _now(self) -> tuple[str, str]:
        """The time since the boot, and the boot's name, as the kernel has them."""
        with open(self._uptime, encoding="ascii") as uptime, open(self._boot_id, encoding="ascii") as boot:
            return uptime.read().strip(), boot.read().strip()


def _in_shell(path: str, run: str, then: str) -> str:
    """A command that does something about the lease while it is this run's; it may come every few seconds."""
    script = f"grep -qF {shlex.quote(json.dumps(run))} {shlex.quote(path)} || exit {LOST}; {then}"
    # flock would make a file of a directory that is not there.
    locked = f"flock -w 30 {shlex.quote(os.path.dirname(path))} /bin/sh -c {shlex.quote(script)}"
    return f"[ ! -e {shlex.quote(path)} ] || {locked}"


def beat_command(path: str, run: str) -> str:
    """A heartbeat, for a shell on the head; exits with LOST where the lease is another run's by now."""
    return _in_shell(path, run, f"cat {UPTIME} {BOOT_ID} >{shlex.quote(path + BEAT)}")


def release_command(path: str, run: str) -> str:
    """Gives the lease back, for a shell on the head. Where a teardown left nothing else, its directory goes too."""
    names = f"{shlex.quote(path)} {shlex.quote(path + BEAT)}"
    return _in_shell(path, run, f"rm -f {names}; rmdir {shlex.quote(os.path.dirname(path))} 2>/dev/null || :")
