# SPDX-License-Identifier: Apache-2.0
"""Whether the awaited state is reached, still possible or impossible, judging by a supervisor's state of its groups."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .files import DRAINED, FAILED, SERVING, groups_of

OLD_SECONDS = 30.0
"""A supervisor writes every few seconds; an older state means that it has ended or hangs."""

DONE, WAITING, HOPELESS, OUT = "done", "waiting", "hopeless", "drained"
"""OUT: nothing is served because hosts are drained, and will not be until they are uncordoned."""


@dataclass(frozen=True)
class Standing:
    """The current standing of a wait for serving."""

    verdict: str
    words: str
    epochs: Mapping[str, str]


def parse_time(text: object) -> datetime.datetime | None:
    """Parse a time as supervisors write it; one without a zone is UTC. None if it is invalid."""
    try:
        found = datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)


def age(state: Mapping[str, Any] | None, now: datetime.datetime) -> float | None:
    """Return the seconds since the supervisor wrote its state; None if it does not record when."""
    written = parse_time((state or {}).get("written_at"))
    return None if written is None else (now - written).total_seconds()


def epochs(state: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the epoch of each group."""
    return {name: str(group.get("epoch") or "") for name, group in groups_of(state).items()}


def standing(
    state: Mapping[str, Any] | None,
    now: datetime.datetime,
    *,
    former: Mapping[str, str] | None = None,
    since: datetime.datetime | None = None,
    supervisor: str = "",
) -> Standing:
    """Determine whether every group serves, in an epoch other than the `former` one if that is given.

    A state that was written before `since` does not count. `supervisor` is the state of the supervisor's unit according
    to systemd, empty while it runs.
    """
    found = epochs(state)
    groups = groups_of(state)
    lost = [name for name, group in groups.items() if group.get("phase") == FAILED]
    written = parse_time((state or {}).get("written_at"))
    current = written is not None and (since is None or written >= since)
    if current and lost:
        told = "; ".join(f"{name} {groups[name].get('why') or 'was given up by its supervisor'}" for name in lost)
        return Standing(HOPELESS, told, found)
    if supervisor:
        return Standing(HOPELESS, f"the supervisor does not run: its unit is {supervisor}", found)
    if state is None or not groups:
        return Standing(WAITING, "the supervisor has not written anything yet", found)
    seconds = age(state, now)
    if not current:
        return Standing(WAITING, "the supervisor has not written anything since", found)
    if seconds is None or seconds > OLD_SECONDS:
        return Standing(WAITING, f"the supervisor has written nothing for {seconds or 0:.0f} s", found)
    waiting = [
        name
        for name, group in groups.items()
        if group.get("phase") != SERVING or found[name] == (former or {}).get(name)
    ]
    if not waiting:
        return Standing(DONE, "it serves", found)
    words = "; ".join(describe(name, groups[name]) for name in waiting)
    out = all(groups[name].get("phase") == DRAINED for name in waiting)
    return Standing(OUT if out else WAITING, words, found)


def describe(name: str, group: Mapping[str, Any]) -> str:
    """Describe a group in one sentence: its phase, the reason, and the nodes it waits for."""
    told = f"{name} is {group.get('phase') or 'in no phase'}"
    why = str(group.get("why") or "")
    if why:
        told += f": {why}"
    missing = group.get("missing")
    if isinstance(missing, Mapping) and missing:
        named = "; ".join(f"{node} ({reason})" for node, reason in sorted(missing.items()) if str(reason) not in why)
        told += f"; waits for {named}" if named else ""
    attempts = group.get("attempts")
    return f"{told}; {attempts} failed starts in a row" if isinstance(attempts, int) and attempts else told
