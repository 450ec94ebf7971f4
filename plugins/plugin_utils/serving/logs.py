# SPDX-License-Identifier: Apache-2.0
"""Merge the logs of many hosts. Hosts are not trusted: a host's lines bear its own name, and are only text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.status import why_silent

_CURSOR = re.compile(r"[A-Za-z0-9=;._-]{1,512}")
"""A valid journal cursor. The next run passes it back in a variable, where a template would be evaluated."""
_LATEST = 253_402_300_799_999_999
"""The end of the year 9999 in microseconds, the last date that can be represented."""
_MOST, _LONGEST = 20_000, 8_192
"""Maximum lines per host and characters per line: as many as the module returns, with room for what it adds."""


def merged_logs(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the results of module `serving_status` into one document: lines by time, and cursors to continue from.

    Lines of one host keep their order regardless of their times, so that a clock set back does not reverse causality.
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
