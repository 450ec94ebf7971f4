# SPDX-License-Identifier: Apache-2.0
"""Text in general: terminal colours, key=value files."""

from __future__ import annotations

import re
import shlex

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


def parse_meminfo_total(text: str) -> int | None:
    """MemTotal of /proc/meminfo in bytes; None when there is no such line."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "MemTotal:" and words[1].isdigit():
            return int(words[1]) * 1024
    return None
