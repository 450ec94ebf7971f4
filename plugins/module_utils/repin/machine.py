# SPDX-License-Identifier: Apache-2.0
"""What every action of a move works with, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..host import Host
from ..packages.apt import AptError
from ..packages.apt_local import LocalApt
from ..packages.deb_store import Store, StoreError
from . import journal as book
from .files import FilesError
from .journal import JournalError
from .journals import Journals, Marker

STATUS = "/var/lib/dpkg/status"
PROBLEMS = (AptError, StoreError, FilesError, JournalError)
"""The exceptions of actions; each is a message for an operator."""


@dataclass
class Machine:
    """The parts of a host that a move works with; tests substitute others."""

    host: Host
    apt: LocalApt
    store: Store
    journals: Journals
    marker: Marker
    lock_timeout: float = 600
    status: str = STATUS
    root: str = "/"
    check_mode: bool = False


@dataclass
class Answer:
    """The result of an action."""

    journal: Mapping[str, Any] | None
    changed: bool = False
    more: dict[str, Any] = field(default_factory=dict)

    def result(self) -> dict[str, Any]:
        """Return the result for Ansible."""
        return {
            "changed": self.changed,
            "journal": self.journal,
            "state": book.state(self.journal),
            "direction": book.direction(self.journal),
            **self.more,
        }


def open_journal(machine: Machine) -> dict[str, Any]:
    journal = machine.journals.read()
    if journal is None:
        raise JournalError(
            f"There is no journal of a move in {machine.journals.path}, expected an open one: begin a move first"
        )
    return journal
