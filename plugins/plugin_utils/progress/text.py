# SPDX-License-Identifier: Apache-2.0
"""Format text for a terminal or a log: sanitised, of limited width, with readable durations and host lists."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.text import strip_ansi

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, including bidirectional ones, which could make a line read differently."""
LONGEST = 4_000
"""Maximum length of a line in characters."""


def text_lines(value: Any) -> list[str]:
    """Convert a message of any type to clean lines, without escape codes, control characters or outer blank lines."""
    if value is None or value == "":
        return []
    if isinstance(value, list | tuple):
        return [line for entry in value for line in text_lines(entry)]
    if not isinstance(value, str):
        value = json.dumps(value, indent=2, sort_keys=True, default=str, ensure_ascii=False)
    return [line.rstrip() for line in clean(value).strip("\n").split("\n")]


def join_hosts(hosts: Iterable[str], limit: int) -> str:
    """Join host names: `spark0, spark1 and 6 more`."""
    names = list(hosts)
    if len(names) <= limit:
        return ", ".join(names)
    return f"{', '.join(names[:limit])} and {len(names) - limit} more"


def duration(seconds: float) -> str:
    """Format a duration: `12.3 s`, `3 min 05 s`, `1 h 02 min`."""
    if seconds < 59.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def clock_time(seconds: float) -> str:
    """Format an elapsed time: `00:42`, `1:02:03`."""
    whole = max(int(seconds), 0)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes:02d}:{whole % 60:02d}"


def clean(text: str) -> str:
    """Remove everything that could move the cursor or colour the terminal; newlines stay, tabs are expanded."""
    return _CONTROLS.sub("", strip_ansi(text.replace("\r\n", "\n").replace("\r", "\n"))).expandtabs(4)


def clean_line(text: str) -> str:
    """Sanitise a line, and limit its length."""
    return clean(text if len(text) <= LONGEST else f"{text[:LONGEST]} ...")


def clean_all(value: Any) -> Any:
    """Sanitise every string in a structure."""
    if isinstance(value, Mapping):
        return {clean_all(key): clean_all(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [clean_all(one) for one in value]
    return clean(value) if isinstance(value, str) else value


def clean_name(text: str) -> str:
    """Sanitise a name, and put it on one line."""
    return " ".join(clean(text).split())


def fit(text: str, width: int) -> str:
    """Truncate to a number of columns; wide characters count twice, combining ones not at all."""
    if sum(map(_columns, text)) <= width:
        return text
    room = width - 3
    kept = []
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "..."[: max(width, 0)]


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
