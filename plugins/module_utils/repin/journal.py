# SPDX-License-Identifier: Apache-2.0
"""The journal of one move: which entries may follow which, how often a host was rebooted, and the story it tells.

A move goes forward from `planned` to `uncordoned`. Whatever goes wrong is an entry `failed`; from then on there is only
the way back, which ends with `rolled-back` and `uncordoned`.
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
# A `failed` of the way back may be followed by another try of all of it.
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
    # The endpoint may turn out bad only after the host serves again.
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
    """What is wrong with a journal or with what is asked of it, in one message."""


def new_journal(fields: Mapping[str, Any], at: str, boot_id: str) -> dict[str, Any]:
    """A journal whose only entry is `planned`."""
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
    """The latest entry."""
    entries = (journal or {}).get("entries") or []
    return entries[-1] if entries else None


def place(journal: Journal | None) -> Place | None:
    """Direction and state of the latest entry."""
    entry = last(journal)
    return (str(entry["direction"]), str(entry["state"])) if entry else None


def state(journal: Journal | None) -> str | None:
    """The state of the latest entry."""
    found = place(journal)
    return found[1] if found else None


def direction(journal: Journal | None) -> str | None:
    """Where the move goes now: a journal that has failed goes back."""
    if not journal:
        return None
    return BACK if any(entry["state"] == FAILED for entry in journal["entries"]) else FORWARD


def has(journal: Journal, wanted: str, way: str | None = None) -> bool:
    """Whether the journal has an entry of this state, in this direction where one is given."""
    return any(entry["state"] == wanted and way in (None, entry["direction"]) for entry in journal["entries"])


def beyond(journal: Journal, wanted: str) -> bool:
    """Whether this state of the way forward is reached or passed, or the move has turned back."""
    return direction(journal) == BACK or has(journal, wanted)


def check(journal: Journal | None, wanted: str, way: str) -> None:
    """Raise JournalError when this entry must not follow the latest one."""
    now = place(journal)
    if (way, wanted) not in _FOLLOWS.get(now, frozenset()):
        may = sorted(f"{one} ({there})" for there, one in _FOLLOWS.get(now, frozenset()))
        raise JournalError(
            f"The journal's latest entry is {f'{now[1]} ({now[0]})' if now else 'none'}, and {wanted} ({way}) must not "
            f"follow it; what may is {', '.join(may) or 'nothing'}. Read the journal and go on from there"
        )


def with_entry(
    journal: Journal, wanted: str, way: str, at: str, boot_id: str, detail: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The journal with one more entry; raises JournalError where it must not follow."""
    check(journal, wanted, way)
    entry = {"state": wanted, "direction": way, "at": at, "boot_id": boot_id, "detail": dict(detail or {})}
    return {**journal, "entries": [*journal["entries"], entry]}


def validated(document: object, path: str) -> dict[str, Any]:
    """A journal that was read from a file, if it is one; raises JournalError."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise JournalError(
            f"{path} is no journal of format {FORMAT} (found {found}). Go on with the release of Firstlight that wrote "
            "it, or, once the host is known to be right, move the file away"
        )
    before: dict[str, Any] = {"entries": []}
    for entry in document.get("entries") or []:
        try:
            check(before, entry["state"], entry["direction"])
        except (JournalError, KeyError, TypeError) as error:
            raise JournalError(
                f"{path} has an entry that cannot be there: {error}. Somebody edited it: look at the host, then move "
                "the file away"
            ) from error
        before["entries"].append(entry)
    if not before["entries"]:
        raise JournalError(f"{path} has no entries. Look at the host, then move the file away")
    return document


# -- reboots --------------------------------------------------------------------------------------------------------


def reboots(journals: Iterable[Journal], now: datetime.datetime) -> list[str]:
    """When the host was rebooted within the last 12 hours, by these journals.

    Two requests in one boot are one reboot: the second only repeats the first. One that is dated later than in 12 hours
    was written under a wrong clock, and says nothing: counted, it would keep the host from its way back until then.
    """
    found: dict[str, str] = {}
    for journal in journals:
        for entry in journal.get("entries") or []:
            if entry["state"] == REBOOT_REQUESTED and abs(now - moment(entry["at"])) < REBOOT_WINDOW:
                found.setdefault(str(entry["boot_id"]), str(entry["at"]))
    return sorted(found.values())


def reboot_refusal(used: Sequence[str], most: int, way: str) -> str:
    """Why this host must not be rebooted once more; empty when it may. Going forward leaves one for the way back."""
    reserve = 1 if way == FORWARD else 0
    if len(used) + 1 + reserve <= most:
        return ""
    free = moment(used[0]) + REBOOT_WINDOW if used else None
    kept = ", one of which is kept for the way back" if reserve else ""
    until = f"Wait until {stamp(free)} and run again" if free else "Allow more reboots"
    return (
        f"The host was rebooted {len(used)} times in the last 12 hours, and at most {most} reboots are allowed in that "
        f"time{kept}. {until}, or find out why it needed so many"
    )


def moment(text: str) -> datetime.datetime:
    """A time of an entry."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def stamp(at: datetime.datetime) -> str:
    """A time as entries have it: UTC, to the second."""
    return at.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- the story ------------------------------------------------------------------------------------------------------


def timeline(journal: Journal | None) -> list[dict[str, Any]]:
    """The entries with the seconds since the first one; a clock that was set back makes no time negative."""
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
    """Detail of the latest `failed` entry, {} where nothing failed."""
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
    """What an operator does about a journal that is open, for a message."""
    name, before = journal.get("stack"), journal.get("previous_stack")
    where = place(journal)
    told = f"{where[1]} ({where[0]})" if where else "nothing"
    if direction(journal) == BACK:
        return (
            f"The move {journal['id']} to {name} is on its way back and stands at {told}: run the re-pin to {name} "
            "again, which finishes it"
        )
    other = f", or, to go back, to {before}" if before else ""
    return f"The move {journal['id']} to {name} is open and stands at {told}: run the re-pin to {name} again{other}"
