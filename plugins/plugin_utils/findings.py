# SPDX-License-Identifier: Apache-2.0
"""How a plan is refused: all that is wrong at once, each with what was found, the rule, and what to change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Refusal = dict[str, str]


class Refusals:
    """Refusals as they are found."""

    def __init__(self) -> None:
        self.found: list[Refusal] = []

    def add(self, identifier: str, found: str, rule: str, remedy: str) -> None:
        """Note a refusal, once."""
        refusal = {"id": identifier, "found": found, "rule": rule, "remedy": remedy}
        if refusal not in self.found:
            self.found.append(refusal)

    def __bool__(self) -> bool:
        return bool(self.found)


def explain_refusals(refusals: Iterable[Mapping[str, str]], gaps: Iterable[Mapping[str, str]] = ()) -> str:
    """All refusals as one message for an operator, and what only the operator can supply."""
    listed, missing = list(refusals), list(gaps)
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
    for number, refusal in enumerate(listed, 1):
        lines += [
            f"{number}. {refusal['found']} [{refusal['id']}]",
            f"   rule: {refusal['rule']}",
            f"   fix: {refusal['remedy']}",
        ]
    return lines
