# SPDX-License-Identifier: Apache-2.0
"""Which kind of output a text is, by its command, its lines or its file's name, and the reading that it gives."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..parsers.captures import capture_lines
from ..parsers.reading import Reading, quoted
from .kind_table import LISTED, Kind, Parsed

_LOOKED_AT = 4000
"""Lines of a text that its kind is told by; a log may have a million."""
_WIDE = 400
"""Characters of a line that are looked at for the same reason."""

KIND: Mapping[str, Kind] = {kind.name: kind for kind in LISTED}
"""Every kind by its name."""

_MARKS = {kind.name: tuple(re.compile(mark) for mark in kind.marks) for kind in LISTED}
_FILES = {kind.name: re.compile(kind.files) for kind in LISTED}
_COMMANDS = {kind.name: re.compile(kind.commands) for kind in LISTED}
_OPENS = tuple((kind.name, re.compile(kind.opens)) for kind in LISTED if kind.opens)
_PREFIX = re.compile(r"^(?:(?:sudo|time|env|timeout \S+|LC_ALL=\S+)\s+(?:-\S+\s+)*)*(?:/[\w./-]*/)?(?=[\w])")


def kind_of_command(words: str) -> str | None:
    """The kind of what this command prints; None for a command that is of none."""
    plain = _PREFIX.sub("", words.strip())
    return next((name for name, pattern in _COMMANDS.items() if pattern.match(plain)), None)


def opening(line: str) -> str | None:
    """The kind whose output this line begins, whatever stood before it; None for every other line."""
    return next((name for name, pattern in _OPENS if pattern.match(line[:_WIDE])), None)


def kind_of_text(lines: Sequence[str]) -> str | None:
    """The kind by what the lines say: the one of which most different marks are there, then the most lines."""
    scores: dict[str, tuple[int, int]] = {}
    looked_at = [line[:_WIDE] for line in lines[:_LOOKED_AT] if line.strip()]
    for name, patterns in _MARKS.items():
        counts = [sum(1 for line in looked_at if mark.match(line)) for mark in patterns]
        if any(counts):
            scores[name] = (sum(1 for count in counts if count), sum(counts))
    # `nvlink -s` names its GPUs as `-L` does, and a log of the fabric manager or of the kernel quotes the other.
    if "nvlink" in scores:
        scores.pop("smi-list", None)
    if "fabricmanager" in scores and "kernel-log" in scores:
        mostly = scores["fabricmanager"][1] * 3 >= scores["kernel-log"][1]
        scores.pop("kernel-log" if mostly else "fabricmanager")
    return max(scores, key=lambda name: scores[name]) if scores else None


def kind_of_file(name: str) -> str | None:
    """The kind by the last part of a file's name."""
    plain = name.replace("\\", "/").rpartition("/")[2].lower()
    return next((kind for kind, pattern in _FILES.items() if pattern.search(plain)), None)


def parse(kind: str, text: str) -> Parsed:
    """What the parser of this kind makes of a text. A parser never raises; one that does has understood nothing."""
    try:
        data, problems = KIND[kind].parser(text)
    except Exception as error:  # noqa: BLE001 - whatever it was, the text has not been understood
        first = next((line for line in capture_lines(text) if line.strip()), "")
        return {}, [f"the text could not be read ({type(error).__name__}: {error}): {quoted(first)}"]
    return data, list(problems)


def read(kind: str, text: str, source: str = "", host: str = "") -> Reading:
    """A text of this kind as a reading."""
    data, problems = parse(kind, text)
    return Reading(kind=kind, data=data, problems=tuple(problems), source=source, host=host)
