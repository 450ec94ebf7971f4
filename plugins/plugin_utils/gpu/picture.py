# SPDX-License-Identifier: Apache-2.0
"""Render a topology as a terminal table and as SVG: GPU by GPU and GPU by network card, with failures marked."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.pcie_paths import (
    NEAR,
    is_disputed,
    is_nvlink,
    meaning,
    way,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import (
    COULD_NOT_CHECK,
    FAIL,
    NOT_APPLICABLE,
    PASS,
)

UNKNOWN, SELF = "?", "X"
SHOWN = ("gpu.count", "topo.pairs", "topo.nics")
"""Checks that concern the matrix."""
VERDICT_WORDS = {PASS: "ok", FAIL: "WRONG", NOT_APPLICABLE: "not applicable", COULD_NOT_CHECK: "could not check"}

_CELL_WIDTH, _CELL_HEIGHT, _GAP, _LEFT, _TOP, _MARGIN = 58, 30, 22, 118, 104, 16
_LEAST_WIDTH, _LINE = 560, 18
_STYLE = """
.fl-topo { font-family: ui-sans-serif, system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
.fl-topo .bg { fill: #ffffff; } .fl-topo text { fill: #1b1f24; font-size: 12px; }
.fl-topo .title { font-size: 16px; font-weight: 600; } .fl-topo .small { font-size: 11px; fill: #57606a; }
.fl-topo .cell { stroke: #d0d7de; stroke-width: 1; } .fl-topo .word { text-anchor: middle; }
.fl-topo .nvlink { fill: #cfe8d5; } .fl-topo .near { fill: #d6e6f7; } .fl-topo .far { fill: #eceff2; }
.fl-topo .self { fill: #f6f8fa; } .fl-topo .unknown { fill: #ffffff; stroke: #57606a; stroke-dasharray: 3 2; }
.fl-topo .wrong { fill: #ffd8d3; stroke: #b3261e; stroke-width: 3; } .fl-topo .wrong-word { font-weight: 700; }
.fl-topo .fail { fill: #b3261e; font-weight: 700; }
@media (prefers-color-scheme: dark) {
.fl-topo .bg { fill: #0d1117; } .fl-topo text { fill: #e6edf3; } .fl-topo .small { fill: #9aa4af; }
.fl-topo .cell { stroke: #30363d; } .fl-topo .nvlink { fill: #1f4a2c; } .fl-topo .near { fill: #1d3a58; }
.fl-topo .far { fill: #21262d; } .fl-topo .self { fill: #161b22; }
.fl-topo .unknown { fill: #0d1117; stroke: #9aa4af; } .fl-topo .wrong { fill: #5c1a16; stroke: #ff8a80; }
.fl-topo .fail { fill: #ff8a80; }
}
"""


def marks_of(checks: Iterable[Mapping[str, Any]]) -> set[frozenset[str]]:
    """Return the unordered pairs that failed checks mark: a path is the same in both directions."""
    return {frozenset(pair) for one in checks if one.get("verdict") == FAIL for pair in one.get("marks") or ()}


def cell_text(topo: Mapping[str, Any], one: str, other: str) -> str:
    """Return the text of a cell: both directions if they differ, and a question mark if unknown."""
    if one == other:
        return SELF
    cells = topo.get("cells") or {}
    if is_disputed(topo, one, other):
        return f"{cells[one][other]}/{cells[other][one]}"
    return way(topo, one, other) or UNKNOWN


# --- the terminal ----------------------------------------------------------------------------------------------------


def table_lines(topo: Mapping[str, Any], checks: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Render the matrix as plain text, with `!` after failures and `?` for unknown cells.

    A legend of the words that occur follows. The checks only provide the marks; they are not listed.
    """
    gpus, nics = list(topo.get("gpus") or ()), list(topo.get("nics") or ())
    if not gpus:
        return ["no GPU in the matrix"]
    marks = marks_of(checks)
    rows = [["", *gpus, *nics, "NUMA"]]
    for gpu in gpus:
        cells = [cell_text(topo, gpu, other) for other in [*gpus, *nics]]
        marked = ["!" if frozenset((gpu, other)) in marks else "" for other in [*gpus, *nics]]
        numa = ((topo.get("affinity") or {}).get(gpu) or {}).get("numa") or "-"
        rows.append([gpu, *(cell + mark for cell, mark in zip(cells, marked, strict=True)), str(numa)])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    names = topo.get("nic_names") or {}
    named = [f"{nic}={names[nic]}" for nic in nics if names.get(nic) and names[nic] != nic]
    if named:
        lines += textwrap.wrap("; ".join(named), width=100, initial_indent="  ", subsequent_indent="  ")
    lines += [f"  {word}: {meaning(word)}" for word in _words(topo, gpus, nics)]
    told = "".join("".join(row[1:]) for row in rows[1:])
    lines += ["  !: not what the hardware profile expects"] if "!" in told else []
    lines += ["  ?: could not be read"] if UNKNOWN in told else []
    lines += ["  /: the two directions differ"] if "/" in told else []
    return lines


def _words(topo: Mapping[str, Any], gpus: Sequence[str], nics: Sequence[str]) -> list[str]:
    words = {way(topo, gpu, other) for gpu in gpus for other in [*gpus, *nics] if gpu != other} - {None}
    return sorted((str(word) for word in words), key=lambda word: (not is_nvlink(word), word))


def _verdicts(checks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each check of the matrix that failed or could not be made."""
    lines = []
    for one in checks:
        if one.get("id") in SHOWN and one.get("verdict") in (FAIL, COULD_NOT_CHECK):
            remedy = f"; {one['remedy']}" if one.get("remedy") else ""
            word = VERDICT_WORDS[one["verdict"]]
            lines.append(f"{word}: {one['id']}: expected {one.get('expected')}, found {one.get('observed')}{remedy}")
    return lines


# --- the picture -----------------------------------------------------------------------------------------------------


def svg(topo: Mapping[str, Any], checks: Sequence[Mapping[str, Any]] = (), title: str = "GPU topology") -> str:
    """Render the matrix as a self-contained SVG without scripts, fonts or other files.

    Failures have a thick border and an exclamation mark in addition to their colour, and every cell has a text. The
    picture is readable on light and dark backgrounds. All text from captures is escaped.
    """
    gpus, nics = list(topo.get("gpus") or ()), list(topo.get("nics") or ())
    places = [_LEFT + place * _CELL_WIDTH for place in range(len(gpus))]
    places += [_LEFT + (len(gpus) + place) * _CELL_WIDTH + _GAP for place in range(len(nics))]
    width = max(_LEAST_WIDTH, (places[-1] if places else _LEFT) + _CELL_WIDTH + _MARGIN)
    body = _headings(topo, gpus, nics, places)
    marks = marks_of(checks)
    for row, gpu in enumerate(gpus):
        top = _TOP + row * _CELL_HEIGHT
        body += [
            _cell(topo, gpu, other, (left, top), marks) for other, left in zip([*gpus, *nics], places, strict=True)
        ]
    notes, bottom = _notes(topo, checks, width, _TOP + len(gpus) * _CELL_HEIGHT + 26)
    summary = "; ".join(_verdicts(checks)) or "nothing in this matrix is known to be wrong"
    name = "fl-topo-" + hashlib.sha256(f"{title}{topo!r}".encode(errors="replace")).hexdigest()[:12]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="fl-topo" role="img" aria-labelledby="{name}-t {name}-d"',
            f' viewBox="0 0 {width} {bottom}" width="{width}" height="{bottom}">',
            f'<title id="{name}-t">{_text(title)}</title>',
            f'<desc id="{name}-d">{_text(f"{len(gpus)} GPUs and {len(nics)} network cards: {summary}")}</desc>',
            f"<style>{_STYLE}</style>",
            f'<rect class="bg" x="0" y="0" width="{width}" height="{bottom}"/>',
            f'<text class="title" x="{_MARGIN}" y="28">{_text(title)}</text>',
            *body,
            *notes,
            "</svg>",
            "",
        ]
    )


def _text(value: object) -> str:
    """Escape a value, and remove characters that are invalid in XML."""
    return escape("".join(one for one in str(value) if one.isprintable() or one == " "))


def _headings(topo: Mapping[str, Any], gpus: Sequence[str], nics: Sequence[str], places: Sequence[int]) -> list[str]:
    """Render the column headings, for network cards with the device's name below, and the row headings."""
    names = topo.get("nic_names") or {}
    body = []
    for name, left in zip([*gpus, *nics], places, strict=True):
        middle = left + _CELL_WIDTH // 2
        body.append(f'<text class="word" x="{middle}" y="{_TOP - 26}">{_text(_short(name))}</text>')
        device = names.get(name) or ""
        if device and device != name:
            body.append(
                f'<text class="word small" x="{middle}" y="{_TOP - 10}"><title>{_text(device)}</title>'
                f"{_text(_short(device))}</text>"
            )
    for row, gpu in enumerate(gpus):
        numa = ((topo.get("affinity") or {}).get(gpu) or {}).get("numa")
        y = _TOP + row * _CELL_HEIGHT + 20
        body.append(f'<text x="{_MARGIN}" y="{y}">{_text(gpu)}</text>')
        if numa is not None:
            body.append(f'<text class="small" x="{_MARGIN + 48}" y="{y}">NUMA {_text(_short(str(numa)))}</text>')
    return body


def _short(name: str) -> str:
    return name if len(name) <= 9 else f"{name[:4]}\u2026{name[-4:]}"


def _cell(topo: Mapping[str, Any], one: str, other: str, place: tuple[int, int], marks: set[frozenset[str]]) -> str:
    word = cell_text(topo, one, other)
    left, top = place
    wrong = frozenset((one, other)) in marks
    kind, said = "far", meaning(word)
    if word == SELF:
        kind, said = "self", "itself"
    elif word == UNKNOWN or "/" in word:
        kind, said = "unknown", "not known" if word == UNKNOWN else "the two directions differ"
    elif is_nvlink(word):
        kind = "nvlink"
    elif word in NEAR:
        kind = "near"
    style = "word" + (" wrong-word" if wrong else "") + (" small" if len(word) > 7 else "")
    told = f"{one} to {other}: {word}, {said}" + (", wrong" if wrong else "")
    return (
        f'<g><title>{_text(told)}</title><rect class="cell {"wrong" if wrong else kind}" x="{left + 1}" y="{top + 1}" '
        f'width="{_CELL_WIDTH - 2}" height="{_CELL_HEIGHT - 2}" rx="3"/>'
        f'<text class="{style}" x="{left + _CELL_WIDTH // 2}" y="{top + 20}">'
        f"{_text(word)}{' !' if wrong else ''}</text></g>"
    )


def _notes(topo: Mapping[str, Any], checks: Sequence[Mapping[str, Any]], width: int, top: int) -> tuple[list[str], int]:
    """Render failures and the legend, wrapped to the width, and return them with the bottom of the picture."""
    columns = max(40, (width - 2 * _MARGIN) // 7)
    lines: list[tuple[str, str]] = []
    for sentence in _verdicts(checks):
        style = "fail" if sentence.startswith(VERDICT_WORDS[FAIL]) else ""
        lines += [(style, line) for line in textwrap.wrap(sentence, width=columns)]
    words = [f"{word}: {meaning(word)}" for word in _words(topo, topo.get("gpus") or (), topo.get("nics") or ())]
    lines += [("small", line) for line in textwrap.wrap("; ".join(words), width=columns)]
    body = [
        f'<text class="{style}" x="{_MARGIN}" y="{top + place * _LINE}">{_text(line)}</text>'
        for place, (style, line) in enumerate(lines)
    ]
    return body, top + len(lines) * _LINE + _MARGIN
