# SPDX-License-Identifier: Apache-2.0
"""A change that the host itself rolls back unless it is confirmed.

All state of a pending change is in one directory, such as /var/lib/firstlight/netplan/undo:
  armed       exists while the change is undecided; undo and confirmation both start by renaming it
  journal     describes the change, and the state of the host before it
  former      the original file (absent if there was none)
  keep/       records to keep once the change is confirmed
  undo.sh     rolls the change back;  apply.sh  applies it;  apply.rc, apply.log  exit status and output of apply.sh
  reason      why the change is rolled back, if not because of the timer
The directory is removed when the change is over. After a rollback, the outcome lies next to it until a controller has
read it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..durable import remove_durable, sync_directory, write_durable
from ..host import Host, Result
from .program import FormerFile, Places, parse_outcome, render_service, render_timer

UNDO_LIMIT = 330.0
ADOPTED, BEFORE = "adopted", "before"
"""Kept as long as our file is there: the operator's file that ours replaced, and the original state of the ports."""


class ChangeError(Exception):
    """A change that could not be prepared, confirmed or rolled back; the message is for the operator."""


@dataclass(frozen=True)
class KeptFile:
    """The content and metadata of a file."""

    content: bytes
    mode: int
    uid: int
    gid: int

    @classmethod
    def read(cls, path: str) -> KeptFile | None:
        """Read a file; return None if it does not exist. Raises OSError if it cannot be read."""
        try:
            with open(path, "rb") as stream:
                found = os.fstat(stream.fileno())
                return cls(stream.read(), stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)
        except FileNotFoundError:
            return None

    def put(self, path: str) -> None:
        """Restore the file atomically; until the rename it has a name that netplan ignores."""
        scratch = os.path.join(os.path.dirname(path), ".firstlight-kept.new")
        write_durable(scratch, self.content, 0o600)
        os.chown(scratch, self.uid, self.gid)
        os.chmod(scratch, self.mode)
        os.replace(scratch, path)
        sync_directory(os.path.dirname(path))

    def facts(self) -> dict[str, int]:
        return {"mode": self.mode, "uid": self.uid, "gid": self.gid}


class Records:
    """Records kept between the first run and the removal."""

    def __init__(self, places: Places) -> None:
        self.directory = places.state

    def adopted(self) -> KeptFile | None:
        """Return the operator's file that ours replaced."""
        facts = _read_json(os.path.join(self.directory, f"{ADOPTED}.json"))
        kept = KeptFile.read(os.path.join(self.directory, ADOPTED))
        if facts is None or kept is None:
            return None
        return KeptFile(kept.content, int(facts["mode"]), int(facts["uid"]), int(facts["gid"]))

    def before(self) -> dict[str, Any]:
        """Return the state of the ports before our file was there."""
        return _read_json(os.path.join(self.directory, f"{BEFORE}.json")) or {}

    def forget(self) -> None:
        for name in (ADOPTED, f"{ADOPTED}.json", f"{BEFORE}.json"):
            if os.path.lexists(os.path.join(self.directory, name)):
                remove_durable(os.path.join(self.directory, name))


class Change:
    """The pending change on this host, if any."""

    def __init__(self, host: Host, places: Places, clock: Callable[[], float] = time.time) -> None:
        self.host = host
        self.places = places
        self.clock = clock

    # --- state -------------------------------------------------------------------------------------------------------
    def journal(self) -> dict[str, Any] | None:
        """Return the journal of the pending change; None if there is none."""
        return _read_json(self._at("journal"))

    def is_open(self) -> bool:
        """Whether there is any trace of a change, from whatever run and in whatever state."""
        return os.path.isdir(self.places.undo)

    def is_armed(self) -> bool:
        return os.path.exists(self._at("armed"))

    def outcome(self) -> dict[str, Any] | None:
        """Return the outcome that a rollback left."""
        return parse_outcome(self.host.read_text(self.places.outcome))

    # --- prepare and confirm -----------------------------------------------------------------------------------------
    def prepare(
        self,
        journal: Mapping[str, Any],
        path: str,
        timeout: int,
        programs: Mapping[str, str],
        keep: Mapping[str, bytes] | None = None,
    ) -> None:
        """Save the file at `path` and start the timer; `programs` includes the one that rolls the change back."""
        identifier = str(journal["id"])
        try:
            os.makedirs(self.places.state, mode=0o755, exist_ok=True)
            os.mkdir(self.places.undo, mode=0o700)
        except OSError as error:
            # Not cleaned up: the directory may hold another run's change.
            raise self._unprepared(error) from error
        try:
            os.mkdir(self._at("keep"), mode=0o700)
            kept = KeptFile.read(path)
            if kept is not None:
                write_durable(self._at("former"), kept.content, 0o600)
            for name, content in (keep or {}).items():
                write_durable(os.path.join(self._at("keep"), name), content, 0o600)
            for name, program in programs.items():
                write_durable(self._at(name), program, 0o700)
            write_durable(self._at("journal"), json.dumps(journal), 0o600)
            write_durable(self.places.service, render_service(self.places), 0o644)
            write_durable(self.places.timer, render_timer(timeout, self.places.subject), 0o644)
            write_durable(self._at("armed"), identifier, 0o600)
            self._systemctl("daemon-reload")
            self._systemctl("enable", "--now", f"{self.places.unit}.timer")
        except (OSError, ChangeError) as error:
            self.clear()
            raise self._unprepared(error) from error

    def _unprepared(self, error: Exception) -> ChangeError:
        return ChangeError(
            f"The rollback of the change cannot be prepared, nothing was changed: {error}. It needs systemd, and room "
            f"in {self.places.state}"
        )

    def wait_anew(self) -> None:
        """Restart the timer: the controller is connected and is checking the change."""
        self.host.run(["systemctl", "restart", f"{self.places.unit}.timer"], timeout=30)

    def confirm(self) -> bool:
        """Keep the change; return False if the rollback came first."""
        try:
            os.rename(self._at("armed"), self._at("confirmed"))
        except FileNotFoundError:
            if not os.path.exists(self._at("confirmed")):
                return False
        sync_directory(self.places.undo)
        self._commit()
        self.clear()
        return True

    def _commit(self) -> None:
        """Move the records to keep into place, and drop those that the journal marks as obsolete."""
        journal = self.journal() or {}
        if journal.get("forget"):
            Records(self.places).forget()
        keep = self._at("keep")
        for name in sorted(os.listdir(keep)) if os.path.isdir(keep) else []:
            os.replace(os.path.join(keep, name), os.path.join(self.places.state, name))
        sync_directory(self.places.state)

    # --- roll back ---------------------------------------------------------------------------------------------------
    def undo(self, reason: str) -> dict[str, Any]:
        """Roll the change back now, with the program that the timer would start, and return the outcome."""
        if self.is_armed():
            # If there is no space for the reason, roll back without one.
            with contextlib.suppress(OSError):
                write_durable(self._at("reason"), " ".join(reason.split()) + "\n", 0o600)
        ran = self.host.run(["systemctl", "start", f"{self.places.unit}.service"], timeout=UNDO_LIMIT)
        found = self.outcome()
        if found is None and not self.is_open():
            raise ChangeError(
                f"{reason}. The host rolled the change back, but could not record the outcome: make room in "
                f"{self.places.state}, and run again"
            )
        if found is None:
            raise ChangeError(
                f"{reason}. The change could not be rolled back ({ran.summary}): check "
                f"`journalctl -u {self.places.unit}` and run `sh {self._at('undo.sh')}` on the host's console"
            )
        return found

    def finish_leftover(self) -> str:
        """Finish what an interrupted run left pending, so that a new change starts clean; return a description."""
        if not self.is_open():
            self._remove_units()
            return ""
        if os.path.exists(self._at("confirmed")):
            self._commit()
            self.clear()
            subject = self.places.subject
            return f"An interrupted run had confirmed its {subject}, but left its rollback program; it was removed."
        if self.is_armed() or os.path.exists(self._at("undoing")):
            self.undo("the run that made the change was interrupted before it confirmed it")
            self.forget_outcome()
            subject = self.places.subject
            return f"An interrupted run left a {subject} that was never confirmed; it was rolled back first."
        # Interrupted before anything was armed, so nothing was changed.
        self.clear()
        return ""

    def forget_outcome(self) -> None:
        """Remove the outcome, once the controller has read it."""
        if os.path.exists(self.places.outcome):
            remove_durable(self.places.outcome)

    def clear(self) -> None:
        """Remove the timer, the units and the directory."""
        self._remove_units()
        shutil.rmtree(self.places.undo, ignore_errors=True)

    def _remove_units(self) -> None:
        units = [path for path in (self.places.timer, self.places.service) if os.path.exists(path)]
        if not units:
            return
        self.host.run(["systemctl", "disable", "--now", f"{self.places.unit}.timer"], timeout=30)
        for path in units:
            remove_durable(path)
        self.host.run(["systemctl", "daemon-reload"], timeout=60)

    # --- helpers -----------------------------------------------------------------------------------------------------
    def _at(self, name: str) -> str:
        return os.path.join(self.places.undo, name)

    def _systemctl(self, *arguments: str) -> Result:
        ran = self.host.run(["systemctl", *arguments], timeout=60)
        if not ran.ok:
            raise ChangeError(f"systemctl {arguments[0]} failed ({ran.summary})")
        return ran


def former_file(path: str) -> FormerFile:
    """Return what a rollback needs to know about the present file. Raises OSError if it cannot be read."""
    kept = KeptFile.read(path)
    return FormerFile(path) if kept is None else FormerFile(path, kept.mode, kept.uid, kept.gid)


def _read_json(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
