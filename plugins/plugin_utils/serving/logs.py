# SPDX-License-Identifier: Apache-2.0
"""What many hosts wrote, in one order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.status import why_silent


def merged_logs(answers: Mapping[str, Any]) -> dict[str, Any]:
    """One document from what the module `serving_logs` answered for each host: lines by time, and where to go on.

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
        if answer.get("cursor"):
            cursors[host] = str(answer["cursor"])
        latest = 0
        for number, entry in enumerate(entries):
            if not isinstance(entry, Mapping):
                continue
            at = entry.get("at")
            latest = max(latest, at if isinstance(at, int) else 0)
            runs.append((latest, place, number, {"host": host, **entry}))
    runs.sort(key=lambda one: one[:3])
    return {"entries": [entry for *_, entry in runs], "cursors": cursors, "silent": silent}
