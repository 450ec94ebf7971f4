# SPDX-License-Identifier: Apache-2.0
"""Which entry of the catalog a name means: its own, another name under which people know it, or one that is near."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any


def find_entry(entries: Mapping[str, Mapping[str, Any]], name: str) -> tuple[Mapping[str, Any] | None, str | None]:
    """The entry of this name, in any case, and a note where it goes by another; None where there is none."""
    if name in entries:
        return entries[name], None
    wanted = name.lower()
    for own in sorted(entries):
        if own.lower() == wanted:
            return entries[own], None
    for own in sorted(entries):
        entry = entries[own]
        if wanted in (str(alias).lower() for alias in entry.get("aliases") or ()):
            why = f": {str(entry['note']).rstrip('.')}" if entry.get("note") else ""
            return entry, f"{name} is {own} in the catalog{why}."
    return None, None


def suggest(name: str, known: Iterable[str], cutoff: float = 0.6, otherwise: str = "") -> str:
    """What a name that nobody knows may have been meant to be, and what else to do."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    if close:
        return f"did you mean {close[0]}?" + (f" Or {otherwise}" if otherwise else "")
    return f"known are {', '.join(known)}" + (f"; or {otherwise}" if otherwise else "")
