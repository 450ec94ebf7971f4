# SPDX-License-Identifier: Apache-2.0
"""What many hosts wrote, in one order. A host may be a hostile one: it speaks for itself, and says nothing but text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.status import why_silent

_CURSOR = re.compile(r"[A-Za-z0-9=;._-]{1,512}")
"""A place in a journal. It goes back to its host in a variable of the next run, where a template would run."""
_LATEST = 253_402_300_799_999_999
"""Microseconds until the end of the year 9999, after which there are no dates."""
_MOST, _LONGEST = 20_000, 8_192
"""Lines of a host and characters of a line that are kept: as many as the module gives, and room for what it adds."""


def merged_logs(answers: Mapping[str, Any]) -> dict[str, Any]:
    """One document from what the module `serving_status` answered for each host: lines by time, and where to go on.

    Lines of one host keep their order, whatever their times say: a clock that is set back does not turn causes round.
    """
    runs: list[tuple[int, int, int, dict[str, Any]]] = []
    cursors: dict[str, str] = {}
    silent: dict[str, str] = {}
    for place, (host, answer) in enumerate(answers.items()):
        entries = answer.get("entries") if isinstance(answer, Mapping) else None
        if not isinstance(entries, list):
            silent[host] = why_silent(answer)
            continue
        if _CURSOR.fullmatch(str(answer.get("cursor") or "")):
            cursors[host] = str(answer["cursor"])
        latest = 0
        for number, entry in enumerate(entries[-_MOST:]):
            if not isinstance(entry, Mapping):
                continue
            at = _number(entry.get("at"), 0, _LATEST)
            line = {
                "host": host,
                "at": at,
                "unit": str(entry.get("unit") or "")[:_LONGEST],
                "priority": _number(entry.get("priority"), 6, 7),
                "text": str(entry.get("text") or "")[:_LONGEST],
            }
            latest = max(latest, at)
            runs.append((latest, place, number, line))
    runs.sort(key=lambda one: one[:3])
    return {"entries": [entry for *_, entry in runs], "cursors": cursors, "silent": silent}


def _number(value: Any, otherwise: int, most: int) -> int:
    return value if isinstance(value, int) and 0 <= value <= most else otherwise
