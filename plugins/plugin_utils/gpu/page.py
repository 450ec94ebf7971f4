# SPDX-License-Identifier: Apache-2.0
"""Render evaluated GPU checks as an HTML page: counts, all checks with failures first, and topologies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import (
    COULD_NOT_CHECK,
    FAIL,
    NOT_APPLICABLE,
    PASS,
)

from .picture import SHOWN, svg

_ORDER = (FAIL, COULD_NOT_CHECK, PASS, NOT_APPLICABLE)
_WORDS = {
    FAIL: "wrong",
    COULD_NOT_CHECK: "could not check",
    PASS: "right",
    NOT_APPLICABLE: "not applicable",
}
_SIGNS = {FAIL: "\u2716", COULD_NOT_CHECK: "?", PASS: "\u2714", NOT_APPLICABLE: "\u2013"}
_STYLE = """
:root { color-scheme: light dark; --line: #d0d7de; --wrong: #b3261e; --doubt: #8a5a00; --right: #1a7f37;
  --calm: #57606a; }
@media (prefers-color-scheme: dark) {
  :root { --line: #30363d; --wrong: #ff8a80; --doubt: #e3b341; --right: #56d364; --calm: #9aa4af; }
}
body { font: 15px/1.5 ui-sans-serif, system-ui, "Segoe UI", "DejaVu Sans", sans-serif; max-width: 1200px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
ul.counts { display: flex; flex-wrap: wrap; gap: 1rem; list-style: none; padding: 0; }
ul.counts li { border: 1px solid var(--line); border-radius: 6px; padding: .4rem .9rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; }
td.verdict { white-space: nowrap; font-weight: 600; overflow-wrap: normal; }
.fail { color: var(--wrong); } .could_not_check { color: var(--doubt); } .pass { color: var(--right); }
.not_applicable, .quiet { color: var(--calm); }
figure { margin: 1rem 0; overflow-x: auto; }
figcaption { color: var(--calm); }
@media print { body { max-width: none; margin: 0; } tr { break-inside: avoid; } }
"""


def html(document: Mapping[str, Any]) -> str:
    """Render a self-contained page without scripts or other files; all text from captures is escaped.

    `document` is the result of diagnose: {"hardware", "checks", "parsed": {source: {kind: data}}, ...}.
    """
    checks = [one for one in document.get("checks") or () if isinstance(one, Mapping)]
    hardware = document.get("hardware")
    title = f"GPU checks against {_name(hardware)}" if hardware else "GPU checks"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(title)}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            f"<h1>{_text(title)}</h1>",
            *_counts(checks),
            *_table(checks),
            *_pictures(document, checks),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _text(value: Any) -> str:
    """Escape any value as text; one that is not a string is rendered as JSON."""
    if value is None:
        return ""
    plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return escape("".join(one if one.isprintable() else " " for one in plain))


def _name(hardware: Any) -> str:
    if isinstance(hardware, Mapping):
        return str(hardware.get("profile") or hardware.get("name") or "a profile")
    return str(hardware)


def _counts(checks: Sequence[Mapping[str, Any]]) -> list[str]:
    if not checks:
        return ["<p>Nothing was checked.</p>"]
    numbers = {verdict: len([one for one in checks if one.get("verdict") == verdict]) for verdict in _ORDER}
    items = [
        f'<li class="{verdict}"><strong>{number}</strong> {_WORDS[verdict]}</li>'
        for verdict, number in numbers.items()
        if number
    ]
    return ['<ul class="counts">', *items, "</ul>"]


def _wrong_first(checks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    def rank(one: Mapping[str, Any]) -> tuple[int, str, str]:
        verdict = one.get("verdict")
        place = _ORDER.index(verdict) if verdict in _ORDER else 0
        return place, str(one.get("host") or ""), str(one.get("id") or "")

    return sorted(checks, key=rank)


def _table(checks: Sequence[Mapping[str, Any]]) -> list[str]:
    if not checks:
        return []
    hosts = any(one.get("host") for one in checks)
    heads = ["Verdict", *(["Host"] if hosts else []), "Check", "Expected", "Found", "What to do", "Source"]
    rows = []
    for one in _wrong_first(checks):
        verdict = str(one.get("verdict"))
        known = verdict if verdict in _ORDER else COULD_NOT_CHECK
        command = f"<br><code>{_text(one['command'])}</code>" if one.get("command") else ""
        cells = [
            f'<td class="verdict {known}">{_SIGNS[known]} {_WORDS[known]}</td>',
            *([f"<td>{_text(one.get('host'))}</td>"] if hosts else []),
            f"<td><code>{_text(one.get('id'))}</code></td>",
            f"<td>{_text(one.get('expected'))}</td>",
            f"<td>{_text(one.get('observed'))}</td>",
            f"<td>{_text(one.get('remedy'))}{command}</td>",
            f'<td class="quiet">{_text(one.get("source"))}</td>',
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f'<th scope="col">{word}</th>' for word in heads)
    return ["<h2>Checks</h2>", "<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *rows, "</tbody>", "</table>"]


def _pictures(document: Mapping[str, Any], checks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Render the topology of every source that has one, with failed checks marked."""
    parsed = document.get("parsed")
    figures: list[str] = []
    for source, kinds in parsed.items() if isinstance(parsed, Mapping) else ():
        topo = kinds.get("topo") if isinstance(kinds, Mapping) else None
        if not isinstance(topo, Mapping) or not topo.get("gpus"):
            continue
        own = [one for one in checks if one.get("source") == source and one.get("id") in SHOWN]
        host = next((str(one["host"]) for one in own if one.get("host")), "")
        picture = svg(topo, own, f"GPU topology of {host}" if host else "GPU topology")
        figures += ["<figure>", picture, f"<figcaption>{_text(str(source))}</figcaption>", "</figure>"]
    return ["<h2>Topology</h2>", *figures] if figures else []
