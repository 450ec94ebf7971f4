# SPDX-License-Identifier: Apache-2.0
"""Generic text parsing: terminal colours, key=value files, JSON lists."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def strip_ansi(text: str) -> str:
    """Strip terminal escape sequences, which some tools print even into a pipe."""
    return _ESCAPE.sub("", text)


def parse_os_release(text: str) -> dict[str, str]:
    """Parse /etc/os-release into a dict; lines that are not assignments are skipped."""
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
    """Parse the JSON list of objects that a command printed; empty for no output. Raises ValueError for other text."""
    if not text.strip():
        return []
    try:
        entries = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"`{command}` did not print JSON ({error.msg}): {text[:80]!r}") from error
    if not isinstance(entries, list):
        raise ValueError(f"`{command}` printed {type(entries).__name__}, expected a list")
    return [entry for entry in entries if isinstance(entry, dict)]
