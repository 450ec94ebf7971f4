# SPDX-License-Identifier: Apache-2.0
"""Decide the controller's next step for a host, from its journal and observation.

The journal records the progress of the host, not of a controller: a controller that starts now reaches the same
decision as the one that was interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.repin import journal as book

DONE, STOP = "done", "stop"
STAGE, INSTALL, REBOOT, WAIT, LOOK, NOTE = "stage", "install", "request_reboot", "wait", "look", "note"
_NOTHING_CHANGED = (book.PLANNED, book.DRAINED)


@dataclass(frozen=True)
class Seen:
    """What the controller knows beside the journal.

    `reboot_required` and `problems` are None until the host was observed after its latest step. `requested` is the
    boot in which this controller requested a reboot; `gave_up` is true once its own rollback failed.
    """

    boot_id: str
    direction: str = book.FORWARD
    reason: str = ""
    reboot_required: bool | None = None
    problems: list[str] | None = None
    requested: str = ""
    gave_up: bool = False


@dataclass(frozen=True)
class Next:
    """One step: an action of the module `repin`, or `wait` (for a boot), `look` (observe), `done`, `stop`."""

    action: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    words: str = ""


def next_step(journal: book.Journal | None, seen: Seen) -> Next:
    """Return the next step; `done` with the outcome or `stop` with the reason is the last."""
    where = book.place(journal)
    if journal is None or where is None:
        return Next(STOP, words="the host has no journal of a move: begin one first")
    way, state = where
    if state == book.FAILED:
        return _after_failure(journal, way, seen)
    if way == book.BACK:
        return _back(journal, state, seen)
    if seen.direction == book.BACK:
        reason = seen.reason or "the group is put back"
        return _failed(book.FORWARD, state, reason)
    return _forward(journal, state, seen)


def _forward(journal: book.Journal, state: str, seen: Seen) -> Next:
    if state == book.PLANNED:
        return Next(STOP, words="the host still serves: drain it before it is moved")
    if state == book.DRAINED:
        if not journal.get("move"):
            return Next(STOP, words="the packages of the move are not available: fetch them first")
        return Next(STAGE, words="staging")
    if state == book.STAGED:
        return Next(INSTALL, {"direction": book.FORWARD}, "installing")
    if state in (book.VERIFIED, book.UNCORDONED):
        return Next(DONE, {"outcome": book.VERIFIED})
    return _running(journal, state, book.FORWARD, seen)


def _back(journal: book.Journal, state: str, seen: Seen) -> Next:
    if state in (book.ROLLED_BACK, book.UNCORDONED):
        return Next(DONE, {"outcome": book.ROLLED_BACK})
    return _running(journal, state, book.BACK, seen)


def _running(journal: book.Journal, state: str, way: str, seen: Seen) -> Next:
    """Return the next step between transaction and verdict: reboot if due, then observe, then verify or fail."""
    entry = book.last(journal) or {}
    if state == book.REBOOT_REQUESTED:
        if seen.boot_id != entry["boot_id"]:
            return Next(NOTE, {"state": book.BOOTED, "direction": way}, "booted")
        if seen.requested == seen.boot_id:
            return Next(WAIT, words="waiting for the boot")
        # Requested by a controller that is gone, or never started: requesting twice causes one reboot.
        return Next(REBOOT, {"direction": way}, "rebooting")
    if seen.reboot_required is None or seen.problems is None:
        return Next(LOOK, {"direction": way}, "looking")
    if seen.reboot_required and state == book.INSTALLED:
        return Next(REBOOT, {"direction": way}, "rebooting")
    if seen.problems:
        return _failed(way, state, "; ".join(seen.problems))
    verdict = book.VERIFIED if way == book.FORWARD else book.ROLLED_BACK
    return Next(NOTE, {"state": verdict, "direction": way}, verdict)


def _after_failure(journal: book.Journal, way: str, seen: Seen) -> Next:
    if way == book.BACK and seen.gave_up:
        return Next(STOP, words=str(book.failure(journal).get("reason") or "the rollback failed"))
    if not changed(journal):
        return Next(NOTE, {"state": book.ROLLED_BACK, "direction": book.BACK}, book.ROLLED_BACK)
    if journal.get("way_back") is False:
        return Next(
            STOP,
            words=(
                "there is no rollback, because the packages of the old set were not available and the move was begun "
                "without them"
            ),
        )
    return Next(INSTALL, {"direction": book.BACK}, "installing the previous set")


def changed(journal: book.Journal) -> bool:
    """Return whether packages may have changed: from `staged` on, the transaction may have started at any time."""
    return any(entry["state"] not in (*_NOTHING_CHANGED, book.FAILED, book.ROLLED_BACK) for entry in journal["entries"])


def _failed(way: str, at: str, reason: str) -> Next:
    detail = {"at": at, "reason": reason}
    return Next(NOTE, {"state": book.FAILED, "direction": way, "detail": detail}, f"failed at {at}: {reason}")


def failure_step(journal: book.Journal, reason: str) -> Next:
    """Return the step that records a failure."""
    where = book.place(journal)
    way, at = where or (book.FORWARD, book.PLANNED)
    return _failed(book.BACK if book.direction(journal) == book.BACK else way, at, reason)
