# SPDX-License-Identifier: Apache-2.0
"""Lines of systemd's journal without secrets, which are removed on the host before anything leaves it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..redact_secrets import REMOVED, without_secrets
from ..systemd import redact

FIELDS = "__REALTIME_TIMESTAMP,__CURSOR,MESSAGE,PRIORITY,UNIT,_SYSTEMD_UNIT,SYSLOG_IDENTIFIER"
"""The --output-fields of journalctl; for messages of systemd about a unit, UNIT is that unit."""
TOO_LONG = "(a line of more than 4096 characters: `journalctl --all` on the host shows it)"
"""The replacement for a line that journalctl omits as too long."""
LONGEST = 4000
"""The most characters of a line to keep: an engine may print a whole configuration in one."""


def parse_entries(text: str) -> tuple[list[dict[str, Any]], str]:
    """Parse `journalctl --output=json` into the entries and the last cursor; lines that are no entries are skipped."""
    entries: list[dict[str, Any]] = []
    cursor = ""
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, Mapping):
            continue
        cursor = str(entry.get("__CURSOR") or cursor)
        at = str(entry.get("__REALTIME_TIMESTAMP") or "")
        if not at.isdecimal():
            continue
        unit = str(entry.get("UNIT") or entry.get("_SYSTEMD_UNIT") or entry.get("SYSLOG_IDENTIFIER") or "")
        entries.append(
            {
                "at": int(at),
                "unit": unit,
                "priority": _priority(entry.get("PRIORITY")),
                "text": TOO_LONG if entry.get("MESSAGE", "") is None else message(entry.get("MESSAGE")),
            }
        )
    return entries, cursor


def _priority(value: Any) -> int:
    told = str(value if value is not None else "")
    return int(told) if told.isdecimal() else 6


def message(value: Any) -> str:
    """Return the text of a message; journalctl prints bytes that are not text as a list of numbers."""
    if isinstance(value, list):
        return bytes(one for one in value if isinstance(one, int) and 0 <= one < 256).decode("utf-8", "replace")
    return "" if value is None else str(value)


def cleaned(
    entries: Iterable[Mapping[str, Any]], secrets: Iterable[str], hide: Callable[[str], str] = without_secrets
) -> list[dict[str, Any]]:
    """Return the entries without these secrets and anything else that looks like a secret."""
    listed = [dict(entry) for entry in entries]
    known = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
    texts = redact((str(entry.get("text") or "").rstrip("\n") for entry in listed), known)
    private = _inside_keys(texts)
    for number, (entry, text) in enumerate(zip(listed, texts, strict=True)):
        told = REMOVED if number in private else hide(text)
        entry["text"] = told if len(told) <= LONGEST else told[:LONGEST] + " ..."
    return listed


def _inside_keys(texts: Iterable[str]) -> set[int]:
    """Return the numbers of the lines inside private keys that span several lines."""
    found: set[int] = set()
    inside = False
    for number, text in enumerate(texts):
        if "-----BEGIN" in text and "PRIVATE KEY" in text:
            inside = "-----END" not in text
            continue
        if inside:
            found.add(number)
            inside = "-----END" not in text
    return found
