# SPDX-License-Identifier: Apache-2.0
"""Which entry of the catalog a name means: its own, or another name under which people know it."""

from __future__ import annotations

from collections.abc import Mapping
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
