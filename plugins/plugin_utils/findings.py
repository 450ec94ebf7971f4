# SPDX-License-Identifier: Apache-2.0
"""Errors of a plan, collected and reported at once, each with what was found, the rule and the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

PlanError = dict[str, str]


class PlanErrors:
    """Collects the errors of a plan."""

    def __init__(self) -> None:
        self.found: list[PlanError] = []

    def add(self, identifier: str, found: str, rule: str, remedy: str) -> None:
        """Add an error, unless it is recorded already."""
        error = {"id": identifier, "found": found, "rule": rule, "remedy": remedy}
        if error not in self.found:
            self.found.append(error)

    def __bool__(self) -> bool:
        return bool(self.found)


def explain_errors(errors: Iterable[Mapping[str, str]], missing_inputs: Iterable[Mapping[str, str]] = ()) -> str:
    """Return one message with all errors and the inputs that only the operator can supply."""
    listed, missing = list(errors), list(missing_inputs)
    lines: list[str] = []
    if listed:
        lines += [f"The plan is refused, no host was touched; {_count(listed)} to change:", *_lines(listed)]
    if missing:
        lines += [f"{_count(missing)} to supply before a host can be touched:", *_lines(missing)]
    return "\n".join(lines)


def _count(listed: Sequence[object]) -> str:
    return "1 thing" if len(listed) == 1 else f"{len(listed)} things"


def _lines(listed: Sequence[Mapping[str, str]]) -> list[str]:
    lines: list[str] = []
    for number, error in enumerate(listed, 1):
        lines += [
            f"{number}. {error['found']} [{error['id']}]",
            f"   rule: {error['rule']}",
            f"   fix: {error['remedy']}",
        ]
    return lines
