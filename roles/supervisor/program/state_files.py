# SPDX-License-Identifier: Apache-2.0
"""The supervisor's files: the state for everybody, what to continue from after a restart, and what outlives a boot.

None of them may take the supervisor down: if the disk is full or not writable, that is reported in one sentence, and
the work continues from memory.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.durable import sync_directory
from ansible_collections.firstlight.cluster.plugins.module_utils.host import write_file

STATE_NAME = "supervisor.json"
EPOCH_NAME = "supervisor-epoch.json"
LOCK_NAME = "supervisor.lock"
REMEMBERED_NAME = "supervisor.json"
DRAINED_NAME = "drained"
RUN_DIRECTORY = "/run/firstlight"
STATE_DIRECTORY = "/var/lib/firstlight"
VERSION = 1


class StateFiles:
    """The files under the two directories of one supervisor. Its methods block, so call them in threads."""

    def __init__(self, run: str = RUN_DIRECTORY, state: str = STATE_DIRECTORY) -> None:
        self.state_path = os.path.join(run, STATE_NAME)
        self.epoch_path = os.path.join(run, EPOCH_NAME)
        self.lock_path = os.path.join(run, LOCK_NAME)
        self.remembered_path = os.path.join(state, REMEMBERED_NAME)
        self.drained_path = os.path.join(state, DRAINED_NAME)
        self._lock: int | None = None
        """Held until the process ends, however it ends."""

    def lock(self) -> bool:
        """Take the lock; False if another supervisor holds it, as two would manage the same units."""
        try:
            os.makedirs(os.path.dirname(self.lock_path), mode=0o755, exist_ok=True)
            self._lock = os.open(self.lock_path, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # No file can be created in /run: risking a second supervisor is better than having none.
            return True
        return True

    def drained(self) -> bool:
        return os.path.exists(self.drained_path)

    def show(self, document: Mapping[str, Any]) -> str:
        """Replace the public state file; return an error message, or an empty string."""
        return self._write(self.state_path, document, 0o644)

    def shown(self) -> dict[str, Any]:
        """Return the state that an earlier supervisor of this boot has written."""
        return _read(self.state_path)

    def epochs(self, boot: str) -> dict[str, dict[str, Any]]:
        """Return for each group what was started in this boot; nothing of an earlier boot still runs."""
        document = _read(self.epoch_path)
        return _mappings(document.get("groups")) if document.get("boot") == boot else {}

    def keep_epochs(self, boot: str, groups: Mapping[str, Mapping[str, Any]]) -> str:
        return self._write(self.epoch_path, {"boot": boot, "groups": groups}, 0o600)

    def remembered(self) -> dict[str, dict[str, Any]]:
        """Return for each group what outlives a boot; an invalid file counts as missing."""
        document = _read(self.remembered_path)
        return _mappings(document.get("groups")) if document.get("version") == VERSION else {}

    def remember(self, groups: Mapping[str, Mapping[str, Any]]) -> str:
        """Write what outlives a boot; if this returns an empty string, it survives a power cut."""
        problem = self._write(self.remembered_path, {"version": VERSION, "groups": groups}, 0o600)
        if problem:
            return problem
        try:
            sync_directory(os.path.dirname(self.remembered_path))
        except OSError as error:
            return _problem(self.remembered_path, error)
        return ""

    def _write(self, path: str, document: Mapping[str, Any], mode: int) -> str:
        try:
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            write_file(path, json.dumps(document, indent=1) + "\n", mode)
        except OSError as error:
            return _problem(path, error)
        return ""


def boot_id(path: str = "/proc/sys/kernel/random/boot_id") -> str:
    """Return the ID of the current boot; empty if the kernel does not provide it."""
    try:
        with open(path, encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def moment(seconds: float) -> str:
    """Format seconds since 1970 as ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _problem(path: str, error: OSError) -> str:
    return (
        f"{path} cannot be written ({error.strerror or error}), expected free space and a writable file system: "
        "free space there; the supervisor continues meanwhile"
    )


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as stream:
            document = json.load(stream)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _mappings(value: object) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict):
        return {}
    return {str(name): one for name, one in value.items() if isinstance(one, dict)}
