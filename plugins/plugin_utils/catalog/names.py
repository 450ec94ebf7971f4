# SPDX-License-Identifier: Apache-2.0
"""Look up catalog entries by name, alias or near match."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any


def find_entry(entries: Mapping[str, Mapping[str, Any]], name: str) -> tuple[Mapping[str, Any] | None, str | None]:
    """Return the entry with this name or alias, ignoring case, and a note if an alias matched; None if not found."""
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
    """Suggest what an unknown name may have been meant to be, and the alternative."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    if close:
        return f"did you mean {close[0]}?" + (f" Or {otherwise}" if otherwise else "")
    return f"use one of {', '.join(known)}" + (f"; or {otherwise}" if otherwise else "")
