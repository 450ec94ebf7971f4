# SPDX-License-Identifier: Apache-2.0
"""How long the engine took to start, by what the supervisor wrote down, for the durations of the run."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from tests.suite.events import Event, note

STARTS, SERVES = "all nodes are ready: starts", "serves"


def start_seconds(history: Sequence[Mapping[str, str]]) -> list[float]:
    """The seconds of every start that ended with an answer."""
    found = []
    began: float | None = None
    for entry in history:
        at = datetime.datetime.fromisoformat(entry["at"]).timestamp()
        if entry["event"].startswith(STARTS):
            began = at
        elif entry["event"].startswith(SERVES) and began is not None:
            found.append(round(at - began, 1))
            began = None
    return found


def note_engine_starts(name: str, groups: Mapping[str, Mapping[str, Sequence[Mapping[str, str]]]]) -> None:
    """Note the last start of each group of a supervisor's state."""
    for group, state in groups.items():
        for seconds in start_seconds(state.get("history", ()))[-1:]:
            note(Event("engine start", f"{name}: {group}", seconds))
