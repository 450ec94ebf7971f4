# SPDX-License-Identifier: Apache-2.0
"""The journal of a move on the host's disk: one open journal, the closed ones, and a lock for writers."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ..durable import remove_durable, sync_directory, write_durable
from ..host import Host
from . import journal as book

DIRECTORY = "/var/lib/firstlight/repin"
MARKER = "/var/lib/firstlight/drained"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
_PRIVATE = "private-"


class Journals:
    """The journals of a host."""

    def __init__(self, host: Host, directory: str = DIRECTORY, boot_id: str = BOOT_ID) -> None:
        self.host = host
        self.directory = directory
        self.path = os.path.join(directory, "journal.json")
        self.history = os.path.join(directory, "history")
        self._boot_id = boot_id

    def boot_id(self) -> str:
        """Return the ID of the current boot."""
        return (self.host.read_text(self._boot_id) or "").strip()

    def now(self) -> datetime.datetime:
        """Return the host's current time."""
        return datetime.datetime.now(datetime.timezone.utc)

    def read(self) -> dict[str, Any] | None:
        """Return the open journal, or None; raises JournalError for an invalid file."""
        try:
            with open(self.path, encoding="utf-8") as stream:
                document = json.load(stream)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise book.JournalError(
                f"{self.path} cannot be read as a journal: {error}. Check the host, then move the file away"
            ) from error
        return book.validated(document, self.path)

    def closed(self) -> list[dict[str, Any]]:
        """Return the closed journals; unreadable ones are skipped, and no longer count for reboots."""
        found = []
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(self.history)):
                with contextlib.suppress(OSError, ValueError, book.JournalError):
                    path = os.path.join(self.history, name)
                    with open(path, encoding="utf-8") as stream:
                        found.append(book.validated(json.load(stream), path))
        return found

    def reboots(self, journal: Mapping[str, Any] | None) -> list[str]:
        """Return the reboots within the last 12 hours that moves requested."""
        return book.reboots([*self.closed(), *([journal] if journal else [])], self.now())

    def write(self, journal: Mapping[str, Any]) -> dict[str, Any]:
        """Write the journal durably and return it."""
        os.makedirs(self.directory, mode=0o755, exist_ok=True)
        write_durable(self.path, json.dumps(journal, indent=1) + "\n", 0o644)
        return dict(journal)

    def add(
        self, journal: Mapping[str, Any], state: str, way: str, detail: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Add an entry; raises JournalError if it may not follow."""
        at = book.stamp(self.now())
        return self.write(book.with_entry(journal, state, way, at, self.boot_id(), detail))

    def private_path(self, name: str) -> str:
        """Return the path of a move's root-only file for what its journal must not contain."""
        return os.path.join(self.directory, f"{_PRIVATE}{name}.json")

    def write_private(self, name: str, contents: Mapping[str, str]) -> None:
        """Keep the contents of files that are not world-readable; remove those kept by earlier moves."""
        self._remove_private()
        if contents:
            os.makedirs(self.directory, mode=0o755, exist_ok=True)
            write_durable(self.private_path(name), json.dumps(dict(contents)) + "\n", 0o600)

    def read_private(self, name: str) -> dict[str, str]:
        """Return those contents in base64 by path; empty if none were kept."""
        try:
            with open(self.private_path(name), encoding="utf-8") as stream:
                document = json.load(stream)
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise book.JournalError(
                f"{self.private_path(name)} is damaged, expected the former content of files. "
                "Restore these files by hand, then move it away"
            ) from error
        return {str(path): str(content) for path, content in document.items()}

    def _remove_private(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.directory):
                if name.startswith(_PRIVATE):
                    remove_durable(os.path.join(self.directory, name))

    def close(self, journal: Mapping[str, Any]) -> str:
        """Move the journal to the closed ones; return its new path."""
        os.makedirs(self.history, mode=0o755, exist_ok=True)
        there = os.path.join(self.history, f"{journal['id']}.json")
        os.replace(self.path, there)
        sync_directory(self.history)
        sync_directory(self.directory)
        self._remove_private()
        return there

    @contextlib.contextmanager
    def locked(self, limit: float) -> Iterator[None]:
        """Hold the lock for writing, waiting for a module that still runs although its controller disconnected."""
        os.makedirs(self.directory, mode=0o755, exist_ok=True)
        with open(os.path.join(self.directory, "lock"), "w", encoding="utf-8") as stream:
            end = time.monotonic() + limit
            while True:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise book.JournalError(
                            f"Another run has been working on this host's move for {limit:g} s. Find it with "
                            f"`fuser -v {self.directory}/lock`, wait for it, and run again"
                        ) from None
                    time.sleep(0.5)
            yield


class Marker:
    """The marker file that keeps the serving units from starting while it exists."""

    def __init__(self, host: Host, path: str = MARKER) -> None:
        self.host = host
        self.path = path

    def read(self) -> dict[str, Any] | None:
        """Return its content, {} if it was created by hand, or None if there is no marker."""
        if not os.path.exists(self.path):
            return None
        try:
            document = json.loads(self.host.read_text(self.path) or "")
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}

    def write(self, content: Mapping[str, Any]) -> None:
        """Take the host out of service, across reboots."""
        os.makedirs(os.path.dirname(self.path), mode=0o755, exist_ok=True)
        write_durable(self.path, json.dumps(dict(content), indent=1) + "\n", 0o644)

    def remove(self) -> bool:
        """Let the serving units start again."""
        return remove_durable(self.path)
