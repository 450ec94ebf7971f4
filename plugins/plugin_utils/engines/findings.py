# SPDX-License-Identifier: Apache-2.0
"""Findings about the words of a command line, and the errors that follow from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors

HIDDEN = "..."
MOST_WORDS = 5000


class Finding(TypedDict):
    """What was found about one flag or word of a command line."""

    argument: str
    flag: str | None
    known: bool
    problem: str | None
    nearest: str | None
    replaced_by: str | None
    explanation: str | None
    error: str | None
    """Id of the resulting error, None if there is no problem."""


def make_finding(
    argument: str,
    flag: str | None,
    *,
    known: bool,
    problem: str | None = None,
    nearest: str | None = None,
    error: str | None = None,
) -> Finding:
    """Return a finding; the caller fills in the replacement and the explanation."""
    return {
        "argument": argument,
        "flag": flag,
        "known": known,
        "problem": problem,
        "nearest": nearest,
        "replaced_by": None,
        "explanation": None,
        "error": error,
    }


def to_errors(findings: Iterable[Finding], errors: PlanErrors) -> None:
    """Add an error for each finding with a problem."""
    for finding in findings:
        identifier = finding["error"]
        if identifier is None or finding["problem"] is None:
            continue
        explanation = f". {finding['explanation']}" if finding["explanation"] else ""
        errors.add(identifier, finding["problem"] + explanation, _RULES[identifier], _remedy(finding))


_RULES = {
    "flags.unknown": "every flag is one that the parser of the pinned engine accepts",
    "flags.replaced": "every flag is one that the parser of the pinned engine accepts",
    "flags.abbreviation": "flags are written in full",
    "flags.value": "every value is one that the flag of the pinned engine accepts",
    "flags.program": "the program is the server of the pinned engine",
    "flags.stray": "every word belongs to a flag",
    "flags.environment": "every variable is read by some part of the stack",
    "flags.too-many": f"a command line has at most {MOST_WORDS} words",
}


def _remedy(finding: Finding) -> str:
    argument = "that word" if finding["argument"] == HIDDEN else finding["argument"]
    if finding["error"] == "flags.stray" and " " in argument and finding["argument"] != HIDDEN:
        right = finding["replaced_by"] or (f"{finding['nearest']} and its value" if finding["nearest"] else None)
        return f"split it: write {f'{right}, ' if right else ''}every word separately"
    if finding["replaced_by"]:
        return f"instead of {argument} write {finding['replaced_by']}"
    if finding["error"] in {"flags.replaced", "flags.environment"}:
        return f"remove {argument}; see {finding['nearest']}" if finding["nearest"] else f"remove {argument}"
    if finding["nearest"]:
        return f"instead of {argument} write {finding['nearest']}, or remove it"
    return f"remove {argument}, or correct it"
