# SPDX-License-Identifier: Apache-2.0
"""The journal of a move: the allowed sequence of entries, the number of reboots, and the timeline.

A move goes forward from `planned` to `uncordoned`. Any failure is an entry `failed`; from then on the move can only go
back, which ends with `rolled-back` and `uncordoned`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Journal = Mapping[str, Any]
Entry = Mapping[str, Any]

FORMAT = 1
FORWARD, BACK = "forward", "back"
PLANNED, DRAINED, STAGED, INSTALLED = "planned", "drained", "staged", "installed"
REBOOT_REQUESTED, BOOTED, VERIFIED = "reboot-requested", "booted", "verified"
FAILED, ROLLED_BACK, UNCORDONED = "failed", "rolled-back", "uncordoned"
STATES = (
    PLANNED,
    DRAINED,
    STAGED,
    INSTALLED,
    REBOOT_REQUESTED,
    BOOTED,
    VERIFIED,
    FAILED,
    ROLLED_BACK,
    UNCORDONED,
)
REBOOT_WINDOW = datetime.timedelta(hours=12)

Place = tuple[str, str]
_TURNS = frozenset({(FORWARD, FAILED)})
# After a `failed` during the rollback, all of it may be tried again.
_AFTER_TURN = frozenset({(BACK, INSTALLED), (BACK, ROLLED_BACK), (BACK, FAILED)})
_FOLLOWS: dict[Place | None, frozenset[Place]] = {
    None: frozenset({(FORWARD, PLANNED)}),
    (FORWARD, PLANNED): frozenset({(FORWARD, DRAINED)}) | _TURNS,
    (FORWARD, DRAINED): frozenset({(FORWARD, STAGED)}) | _TURNS,
    (FORWARD, STAGED): frozenset({(FORWARD, INSTALLED)}) | _TURNS,
    (FORWARD, INSTALLED): frozenset({(FORWARD, REBOOT_REQUESTED), (FORWARD, VERIFIED)}) | _TURNS,
    (FORWARD, REBOOT_REQUESTED): frozenset({(FORWARD, REBOOT_REQUESTED), (FORWARD, BOOTED)}) | _TURNS,
    (FORWARD, BOOTED): frozenset({(FORWARD, VERIFIED)}) | _TURNS,
    (FORWARD, VERIFIED): frozenset({(FORWARD, UNCORDONED)}) | _TURNS,
    # A fault of the endpoint may show only once the host serves again.
    (FORWARD, UNCORDONED): _TURNS,
    (FORWARD, FAILED): _AFTER_TURN,
    (BACK, FAILED): _AFTER_TURN,
    (BACK, INSTALLED): frozenset({(BACK, REBOOT_REQUESTED), (BACK, ROLLED_BACK), (BACK, FAILED)}),
    (BACK, REBOOT_REQUESTED): frozenset({(BACK, REBOOT_REQUESTED), (BACK, BOOTED), (BACK, FAILED)}),
    (BACK, BOOTED): frozenset({(BACK, ROLLED_BACK), (BACK, FAILED)}),
    (BACK, ROLLED_BACK): frozenset({(BACK, UNCORDONED)}),
    (BACK, UNCORDONED): frozenset(),
}


class JournalError(Exception):
    """Why a journal is invalid or an action is not allowed, in one message."""


def new_journal(fields: Mapping[str, Any], at: str, boot_id: str) -> dict[str, Any]:
    """Return a journal with the single entry `planned`."""
    return {
        "format": FORMAT,
        **fields,
        "started": at,
        "boot_id": boot_id,
        "way_back": None,
        "move": None,
        "move_back": None,
        "debs": {},
        "drain": None,
        "entries": [{"state": PLANNED, "direction": FORWARD, "at": at, "boot_id": boot_id, "detail": {}}],
    }


def last(journal: Journal | None) -> Entry | None:
    """Return the latest entry."""
    entries = (journal or {}).get("entries") or []
    return entries[-1] if entries else None


def place(journal: Journal | None) -> Place | None:
    """Return the direction and state of the latest entry."""
    entry = last(journal)
    return (str(entry["direction"]), str(entry["state"])) if entry else None


def state(journal: Journal | None) -> str | None:
    """Return the state of the latest entry."""
    found = place(journal)
    return found[1] if found else None


def direction(journal: Journal | None) -> str | None:
    """Return the current direction of the move: back once anything has failed."""
    if not journal:
        return None
    return BACK if any(entry["state"] == FAILED for entry in journal["entries"]) else FORWARD


def has(journal: Journal, wanted: str, way: str | None = None) -> bool:
    """Whether the journal has an entry of this state, in this direction if one is given."""
    return any(entry["state"] == wanted and way in (None, entry["direction"]) for entry in journal["entries"])


def beyond(journal: Journal, wanted: str) -> bool:
    """Whether the move has reached or passed this state going forward, or has turned back."""
    return direction(journal) == BACK or has(journal, wanted)


def check(journal: Journal | None, wanted: str, way: str) -> None:
    """Raise JournalError if this entry may not follow the latest one."""
    now = place(journal)
    if (way, wanted) not in _FOLLOWS.get(now, frozenset()):
        may = sorted(f"{one} ({there})" for there, one in _FOLLOWS.get(now, frozenset()))
        raise JournalError(
            f"The journal's latest entry is {f'{now[1]} ({now[0]})' if now else 'none'}, and {wanted} ({way}) must not "
            f"follow it; allowed next: {', '.join(may) or 'nothing'}. Read the journal and continue from there"
        )


def with_entry(
    journal: Journal, wanted: str, way: str, at: str, boot_id: str, detail: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the journal with one more entry; raises JournalError if it may not follow."""
    check(journal, wanted, way)
    entry = {"state": wanted, "direction": way, "at": at, "boot_id": boot_id, "detail": dict(detail or {})}
    return {**journal, "entries": [*journal["entries"], entry]}


def validated(document: object, path: str) -> dict[str, Any]:
    """Validate a journal that was read from a file; raises JournalError if it is invalid."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise JournalError(
            f"{path} is not a journal of format {FORMAT} (found {found}). Continue with the release of Firstlight "
            "that wrote it, or, once the host is known to be in order, move the file away"
        )
    before: dict[str, Any] = {"entries": []}
    for entry in document.get("entries") or []:
        try:
            check(before, entry["state"], entry["direction"])
        except (JournalError, KeyError, TypeError) as error:
            raise JournalError(
                f"{path} has an impossible entry: {error}. Somebody edited it: check the host, then move the file away"
            ) from error
        before["entries"].append(entry)
    if not before["entries"]:
        raise JournalError(f"{path} has no entries. Check the host, then move the file away")
    return document


# -- reboots --------------------------------------------------------------------------------------------------------


def reboots(journals: Iterable[Journal], now: datetime.datetime) -> list[str]:
    """Return the times of the host's reboots within the last 12 hours, according to these journals.

    Two requests in the same boot count as one reboot: the second only repeats the first. An entry dated more than 12
    hours in the future was written with a wrong clock and is ignored: counting it would block the rollback until then.
    """
    found: dict[str, str] = {}
    for journal in journals:
        for entry in journal.get("entries") or []:
            if entry["state"] == REBOOT_REQUESTED and abs(now - moment(entry["at"])) < REBOOT_WINDOW:
                found.setdefault(str(entry["boot_id"]), str(entry["at"]))
    return sorted(found.values())


def reboot_refusal(used: Sequence[str], most: int, way: str) -> str:
    """Return why this host must not be rebooted again; empty if it may.

    Going forward, one reboot is reserved for the rollback.
    """
    reserve = 1 if way == FORWARD else 0
    if len(used) + 1 + reserve <= most:
        return ""
    free = moment(used[0]) + REBOOT_WINDOW if used else None
    kept = ", one of which is kept for the rollback" if reserve else ""
    until = f"Wait until {stamp(free)} and run again" if free else "Allow more reboots"
    return (
        f"The host was rebooted {len(used)} times in the last 12 hours, and at most {most} reboots are allowed in that "
        f"time{kept}. {until}, or find out why it needed so many"
    )


def moment(text: str) -> datetime.datetime:
    """Parse the time of an entry."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def stamp(at: datetime.datetime) -> str:
    """Format a time for an entry: UTC, to the second."""
    return at.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- timeline and messages ------------------------------------------------------------------------------------------


def timeline(journal: Journal | None) -> list[dict[str, Any]]:
    """Return the entries with the seconds since the first one; never negative, even if the clock was set back."""
    entries = (journal or {}).get("entries") or []
    if not entries:
        return []
    start = moment(entries[0]["at"])
    return [
        {
            "at": entry["at"],
            "state": entry["state"],
            "direction": entry["direction"],
            "seconds_since_start": max(0, int((moment(entry["at"]) - start).total_seconds())),
            "detail": dict(entry.get("detail") or {}),
        }
        for entry in entries
    ]


def failure(journal: Journal | None) -> dict[str, Any]:
    """Return the detail of the latest `failed` entry, or {}."""
    for entry in reversed((journal or {}).get("entries") or []):
        if entry["state"] == FAILED:
            return dict(entry.get("detail") or {})
    return {}


def same_target(journal: Journal, target: Mapping[str, Any]) -> bool:
    """Whether an open journal moves to this set."""
    there = journal["to"]
    return (
        dict(there["packages"]) == dict(target["packages"])
        and sorted(there["holds"]) == sorted(target["holds"])
        and dict(there["files"]) == dict(target["files"])
    )


def how_to_finish(journal: Journal) -> str:
    """Describe how an operator finishes an open journal, for a message."""
    name, before = journal.get("stack"), journal.get("previous_stack")
    where = place(journal)
    told = f"{where[1]} ({where[0]})" if where else "nothing"
    if direction(journal) == BACK:
        return (
            f"The move {journal['id']} to {name} is rolling back and is at {told}: run the re-pin to {name} "
            "again, which finishes it"
        )
    other = f", or, to go back, to {before}" if before else ""
    return f"The move {journal['id']} to {name} is open at {told}: run the re-pin to {name} again{other}"
