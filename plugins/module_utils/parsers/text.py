# SPDX-License-Identifier: Apache-2.0
"""Text in general: terminal colours, key=value files, lists in JSON."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def strip_ansi(text: str) -> str:
    """The text without terminal escape sequences, which some tools print even into a pipe."""
    return _ESCAPE.sub("", text)


def parse_os_release(text: str) -> dict[str, str]:
    """/etc/os-release as a dict; lines that are not assignments are passed over."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, raw = line.strip().partition("=")
        if not equals or not key or key.startswith("#"):
            continue
        try:
            values[key] = "".join(shlex.split(raw))
        except ValueError:
            values[key] = raw.strip("\"'")
    return values


def parse_json_list(text: str, command: str) -> list[dict[str, Any]]:
    """The objects in the list a command printed, none when it printed nothing. Raises ValueError for other text."""
    if not text.strip():
        return []
    try:
        entries = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"`{command}` did not print JSON ({error.msg}): {text[:80]!r}") from error
    if not isinstance(entries, list):
        raise ValueError(f"`{command}` printed {type(entries).__name__}, expected a list")
    return [entry for entry in entries if isinstance(entry, dict)]
