# SPDX-License-Identifier: Apache-2.0
"""The ledger on a host's disk: written before anything is changed, and removed once everything is restored."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

from ..durable import remove_durable, write_durable
from ..problems import SettingsError
from .settings import Ledger, forgotten, new_ledger, parse_ledger, remembered, rendered
from .tree import Tree


class Book:
    """A ledger and its directory, readable by root only: it contains the contents of files."""

    def __init__(self, tree: Tree, path: str) -> None:
        self.tree = tree
        self.path = path
        self.place = tree.real(path)

    def read(self) -> Ledger | None:
        """Return the ledger, or None. Raises SettingsError for one that cannot be used."""
        try:
            with open(self.place, encoding="utf-8") as stream:
                return parse_ledger(stream.read())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"{self.path} records this host's former settings, and cannot be used: {error}. Nothing was "
                "changed. Restore a copy of it, or move it away: the present settings then "
                "count as the host's own"
            ) from error

    def remember(self, things: Mapping[str, Any], directories: Iterable[str] = ()) -> None:
        """Add the current state to the ledger, on disk before anything is changed; existing entries are kept."""
        if not things:
            return
        before = self.read()
        ledger = before
        if ledger is None:
            folder = os.path.dirname(self.path)
            made = self.tree.missing_directories([self.path])
            self.tree.make_directory(os.path.dirname(folder))
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.tree.real(folder), mode=0o700)
            ledger = new_ledger(made)
        ledger = remembered(ledger, things, directories)
        if ledger != before:
            write_durable(self.place, rendered(ledger), 0o600)

    def amend(self, name: str, entry: Any) -> None:
        """Replace an existing entry: what a package has brought along is only known after its installation."""
        ledger = self.read()
        if ledger is not None and name in ledger["things"]:
            ledger["things"][name] = entry
            write_durable(self.place, rendered(ledger), 0o600)

    def forget(self, things: Iterable[str], directories: Iterable[str] = ()) -> None:
        """Remove restored entries from the ledger; an empty ledger is deleted with the directories made for it."""
        before = self.read()
        if before is None:
            return
        ledger = forgotten(before, things, directories)
        if ledger["things"]:
            if ledger != before:
                write_durable(self.place, rendered(ledger), 0o600)
            return
        remove_durable(self.place)
        for folder in sorted(ledger["made"], reverse=True):
            self.tree.remove_directory(folder)
