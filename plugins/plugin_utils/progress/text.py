# SPDX-License-Identifier: Apache-2.0
"""Words for a terminal or a log: clean, of a given width, durations and lists of hosts as people say them."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.text import strip_ansi

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of what follows: a line would read as another one."""
LONGEST = 4_000
"""Characters of a line."""


def text_lines(value: Any) -> list[str]:
    """A message of any shape as clean lines: no escape codes, no control characters, no empty ends."""
    if value is None or value == "":
        return []
    if isinstance(value, list | tuple):
        return [line for entry in value for line in text_lines(entry)]
    if not isinstance(value, str):
        value = json.dumps(value, indent=2, sort_keys=True, default=str, ensure_ascii=False)
    return [line.rstrip() for line in clean(value).strip("\n").split("\n")]


def join_hosts(hosts: Iterable[str], limit: int) -> str:
    """`spark0, spark1 and 6 more`."""
    names = list(hosts)
    if len(names) <= limit:
        return ", ".join(names)
    return f"{', '.join(names[:limit])} and {len(names) - limit} more"


def duration(seconds: float) -> str:
    """`12.3 s`, `3 min 05 s`, `1 h 02 min`."""
    if seconds < 59.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def clock_time(seconds: float) -> str:
    """`00:42`, `1:02:03`."""
    whole = max(int(seconds), 0)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes:02d}:{whole % 60:02d}"


def clean(text: str) -> str:
    """Text that cannot move the cursor or colour the terminal; line ends and tabs stay."""
    return _CONTROLS.sub("", strip_ansi(text.replace("\r\n", "\n").replace("\r", "\n"))).expandtabs(4)


def clean_line(text: str) -> str:
    """A line to print, of a length that leaves room for others."""
    return clean(text if len(text) <= LONGEST else f"{text[:LONGEST]} ...")


def clean_all(value: Any) -> Any:
    """The same with every text in it clean."""
    if isinstance(value, Mapping):
        return {clean_all(key): clean_all(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [clean_all(one) for one in value]
    return clean(value) if isinstance(value, str) else value


def clean_name(text: str) -> str:
    """A name on one line."""
    return " ".join(clean(text).split())


def fit(text: str, width: int) -> str:
    """Cut to so many columns; wide characters count twice, combining ones not at all."""
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
