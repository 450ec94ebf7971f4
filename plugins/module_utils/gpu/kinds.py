# SPDX-License-Identifier: Apache-2.0
"""Determines the kind of a text from its command, its lines or its file name, and parses it into a reading."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..parsers.captures import capture_lines
from ..parsers.reading import Reading, quoted
from .kind_table import LISTED, Kind, Parsed

_LOOKED_AT = 4000
"""Lines examined to determine a text's kind; a log may have a million."""
_WIDE = 400
"""Characters examined of each line, for the same reason."""

KIND: Mapping[str, Kind] = {kind.name: kind for kind in LISTED}
"""Every kind by its name."""

_MARKS = {kind.name: tuple(re.compile(mark) for mark in kind.marks) for kind in LISTED}
_FILES = {kind.name: re.compile(kind.files) for kind in LISTED}
_COMMANDS = {kind.name: re.compile(kind.commands) for kind in LISTED}
_OPENS = tuple((kind.name, re.compile(kind.opens)) for kind in LISTED if kind.opens)
_PREFIX = re.compile(r"^(?:(?:sudo|time|env|timeout \S+|LC_ALL=\S+)\s+(?:-\S+\s+)*)*(?:/[\w./-]*/)?(?=[\w])")


def kind_of_command(words: str) -> str | None:
    """The kind of output that this command prints, or None for an unknown command."""
    plain = _PREFIX.sub("", words.strip())
    return next((name for name, pattern in _COMMANDS.items() if pattern.match(plain)), None)


def opening(line: str) -> str | None:
    """The kind whose output starts with this line, whatever came before; None for every other line."""
    return next((name for name, pattern in _OPENS if pattern.match(line[:_WIDE])), None)


def kind_of_text(lines: Sequence[str]) -> str | None:
    """The kind whose marks match: the one with the most distinct marks, then with the most lines."""
    scores: dict[str, tuple[int, int]] = {}
    looked_at = [line[:_WIDE] for line in lines[:_LOOKED_AT] if line.strip()]
    for name, patterns in _MARKS.items():
        counts = [sum(1 for line in looked_at if mark.match(line)) for mark in patterns]
        if any(counts):
            scores[name] = (sum(1 for count in counts if count), sum(counts))
    # `nvlink -s` names its GPUs as `-L` does, and the logs of the fabric manager and of the kernel quote each other.
    if "nvlink" in scores:
        scores.pop("smi-list", None)
    if "fabricmanager" in scores and "kernel-log" in scores:
        mostly = scores["fabricmanager"][1] * 3 >= scores["kernel-log"][1]
        scores.pop("kernel-log" if mostly else "fabricmanager")
    return max(scores, key=lambda name: scores[name]) if scores else None


def kind_of_file(name: str) -> str | None:
    """The kind by the last component of a file's path."""
    plain = name.replace("\\", "/").rpartition("/")[2].lower()
    return next((kind for kind, pattern in _FILES.items() if pattern.search(plain)), None)


def parse(kind: str, text: str) -> Parsed:
    """Run the parser of this kind on a text. Parsers should not raise; if one does, nothing was understood."""
    try:
        data, problems = KIND[kind].parser(text)
    except Exception as error:  # noqa: BLE001 - whatever it was, the text has not been understood
        first = next((line for line in capture_lines(text) if line.strip()), "")
        return {}, [f"the text could not be read ({type(error).__name__}: {error}): {quoted(first)}"]
    return data, list(problems)


def read(kind: str, text: str, source: str = "", host: str = "") -> Reading:
    """Parse a text of this kind into a reading."""
    data, problems = parse(kind, text)
    return Reading(kind=kind, data=data, problems=tuple(problems), source=source, host=host)
