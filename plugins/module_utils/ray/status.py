# SPDX-License-Identifier: Apache-2.0
"""Summarise `ray status` of a cluster that is forming, for a message."""

from __future__ import annotations

from ..parsers.ray_status import parse_ray_status
from ..text import said_lines


def status_words(text: str) -> str:
    """Return the nodes and GPUs, the failures and the pending demands. Raises ValueError for other text."""
    data, _ = parse_ray_status(text)
    if not data.keys() & {"nodes", "pending", "failures", "resources", "demands"}:
        first = (said_lines(text) or ["nothing"])[0]
        raise ValueError(f"expected the report of `ray status`, found {first[:200]!r}")
    gpus = (data.get("resources") or {}).get("GPU", {"total": 0})["total"]
    told = f"{data.get('nodes', 0)} active nodes with {gpus:g} GPUs"
    if data.get("failures"):
        told += f", recent failures: {'; '.join(data['failures'])}"
    if data.get("demands"):
        told += f", waiting: {'; '.join(data['demands'])}"
    return told
