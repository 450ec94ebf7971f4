# SPDX-License-Identifier: Apache-2.0
"""Terminal output of `firstlight diagnose`: failures first, with their remedies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.check import Check, merged
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import (
    COULD_NOT_CHECK,
    FAIL,
    NOT_APPLICABLE,
    PASS,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu import picture
from rich.console import Console
from rich.text import Text

from .console import open_console, print_rows, safe

WORDS = {FAIL: "fail", COULD_NOT_CHECK: "could not check", PASS: "pass", NOT_APPLICABLE: "not applicable"}
"""The verdicts in display order."""
UNREAD = ("kind", "capture")
"""Checks about an input file rather than about a host."""
STYLES = {FAIL: "bold red", COULD_NOT_CHECK: "bold yellow", PASS: "green", NOT_APPLICABLE: "dim"}


def show(document: Mapping[str, Any]) -> None:
    """Print checks (merged by id) and topology of every host, then the number of checks per verdict."""
    console = open_console()
    # Each unreadable file needs its own action, so these are not merged.
    unread = [check for check in document["checks"] if check["id"] in UNREAD]
    checks = [*merged(check for check in document["checks"] if check["id"] not in UNREAD), *unread]
    hosts = {check["source"]: check["host"] for check in document["checks"]}
    for host in dict.fromkeys(check["host"] for check in checks):
        if host:
            console.print(Text(safe(host), "bold"))
        _print_checks(console, [check for check in checks if check["host"] == host])
        for source, kinds in document["parsed"].items():
            if kinds.get("topo") and hosts.get(source, "") == host:
                _print_topology(console, kinds["topo"], [one for one in document["checks"] if one["source"] == source])
    console.print(Text(summary(document, checks)))


def _print_topology(console: Console, data: Mapping[str, Any], checks: Sequence[Check]) -> None:
    console.print()
    for line in picture.table_lines(data, checks):
        console.print(Text(safe(line)))
    console.print()


def _print_checks(console: Console, checks: Sequence[Check]) -> None:
    for verdict, word in WORDS.items():
        own = [check for check in checks if check["verdict"] == verdict]
        if not own:
            continue
        console.print(Text(word, STYLES[verdict]))
        rows: list[tuple[str, str]] = []
        for check in own:
            rows.append((f"  {check['id']}", sentence(check)))
            rows += [("", line) for line in advice(check)]
        print_rows(console, rows, gap=2)


def sentence(check: Check) -> str:
    """Describe what was observed, and what was expected if the check did not pass."""
    observed = _said(check["observed"])
    if check["verdict"] in (PASS, NOT_APPLICABLE):
        return observed
    return f"{observed}; expected {_said(check['expected'])}"


def advice(check: Check) -> list[str]:
    """Return the remedy, the command that applies it, and the source of the finding."""
    if check["verdict"] in (PASS, NOT_APPLICABLE):
        return []
    remedy = str(check["remedy"])
    lines = [f"{remedy[0].upper()}{remedy[1:]}."] if remedy else []
    lines += [f"$ {check['command']}"] if check.get("command") else []
    lines += [f"({check['source']})"] if check["source"] else []
    return lines


def _said(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_said(one) for one in value)
    return "nothing" if value is None else str(value)


def summary(document: Mapping[str, Any], checks: Sequence[Check]) -> str:
    """The last line: the profile used, and the number of checks per verdict."""
    counts = {verdict: sum(1 for check in checks if check["verdict"] == verdict) for verdict in WORDS}
    told = ", ".join(f"{count} {WORDS[verdict]}" for verdict, count in counts.items() if count)
    return f"evaluated as {document['hardware']}: {told or 'nothing to check'}."
