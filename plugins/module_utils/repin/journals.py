# SPDX-License-Identifier: Apache-2.0
"""The journal of a move on the host's disk: one open journal, the closed ones, and a lock for who writes."""

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
        """This boot's own name."""
        return (self.host.read_text(self._boot_id) or "").strip()

    def now(self) -> datetime.datetime:
        """The host's time."""
        return datetime.datetime.now(datetime.timezone.utc)

    def read(self) -> dict[str, Any] | None:
        """The open journal; raises JournalError for a file that is none."""
        try:
            with open(self.path, encoding="utf-8") as stream:
                document = json.load(stream)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise book.JournalError(
                f"{self.path} cannot be read as a journal: {error}. Look at the host, then move the file away"
            ) from error
        return book.validated(document, self.path)

    def closed(self) -> list[dict[str, Any]]:
        """The closed journals that can be read; one that cannot be says nothing about reboots any more."""
        found = []
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(self.history)):
                with contextlib.suppress(OSError, ValueError, book.JournalError):
                    path = os.path.join(self.history, name)
                    with open(path, encoding="utf-8") as stream:
                        found.append(book.validated(json.load(stream), path))
        return found

    def reboots(self, journal: Mapping[str, Any] | None) -> list[str]:
        """Reboots within the last 12 hours that moves asked for."""
        return book.reboots([*self.closed(), *([journal] if journal else [])], self.now())

    def write(self, journal: Mapping[str, Any]) -> dict[str, Any]:
        """Put the journal on disk; it is there when this returns, whatever happens next."""
        os.makedirs(self.directory, mode=0o755, exist_ok=True)
        write_durable(self.path, json.dumps(journal, indent=1) + "\n", 0o644)
        return dict(journal)

    def add(
        self, journal: Mapping[str, Any], state: str, way: str, detail: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Add an entry; raises JournalError where it must not follow."""
        at = book.stamp(self.now())
        return self.write(book.with_entry(journal, state, way, at, self.boot_id(), detail))

    def private_path(self, name: str) -> str:
        """The file of a move, for root alone, with what its journal must not tell."""
        return os.path.join(self.directory, f"{_PRIVATE}{name}.json")

    def write_private(self, name: str, contents: Mapping[str, str]) -> None:
        """Keep the contents of files that not everybody may read; those of moves that are over go."""
        self._remove_private()
        if contents:
            os.makedirs(self.directory, mode=0o755, exist_ok=True)
            write_durable(self.private_path(name), json.dumps(dict(contents)) + "\n", 0o600)

    def read_private(self, name: str) -> dict[str, str]:
        """Those contents in base64 by path; none where none were kept."""
        try:
            with open(self.private_path(name), encoding="utf-8") as stream:
                document = json.load(stream)
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise book.JournalError(
                f"{self.private_path(name)} is damaged, expected what files had in them before the move. Put these "
                "files back by hand, then move it away"
            ) from error
        return {str(path): str(content) for path, content in document.items()}

    def _remove_private(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.directory):
                if name.startswith(_PRIVATE):
                    remove_durable(os.path.join(self.directory, name))

    def close(self, journal: Mapping[str, Any]) -> str:
        """Move the journal to the closed ones; its path there."""
        os.makedirs(self.history, mode=0o755, exist_ok=True)
        there = os.path.join(self.history, f"{journal['id']}.json")
        os.replace(self.path, there)
        sync_directory(self.history)
        sync_directory(self.directory)
        self._remove_private()
        return there

    @contextlib.contextmanager
    def locked(self, limit: float) -> Iterator[None]:
        """Only one writes: a module whose controller is gone may still be at its work, and is waited for."""
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
                            f"Another run has been at work on this host's move for {limit:g} s. Find it with "
                            f"`fuser -v {self.directory}/lock`, let it end, and run again"
                        ) from None
                    time.sleep(0.5)
            yield


class Marker:
    """The file whose presence keeps the serving units from starting."""

    def __init__(self, host: Host, path: str = MARKER) -> None:
        self.host = host
        self.path = path

    def read(self) -> dict[str, Any] | None:
        """What it says; {} for one that somebody made by hand."""
        if not os.path.exists(self.path):
            return None
        try:
            document = json.loads(self.host.read_text(self.path) or "")
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}

    def write(self, content: Mapping[str, Any]) -> None:
        """Take the host out of service; it stays so over a reboot."""
        os.makedirs(os.path.dirname(self.path), mode=0o755, exist_ok=True)
        write_durable(self.path, json.dumps(dict(content), indent=1) + "\n", 0o644)

    def remove(self) -> bool:
        """Let the serving units start again."""
        return remove_durable(self.path)
