# SPDX-License-Identifier: Apache-2.0
"""Evaluates a target's GPUs on the target: parses the tools' answers and makes every check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..host import Host
from ..parsers.reading import Reading
from .check import Check
from .diagnose import evaluate
from .expected import Expected
from .gpu_probe import SERVING, Answer, Question, ask_all, is_serving, questions
from .health import expected_by, host_checks
from .kinds import read


def ask(host: Host, asked: Sequence[Question], timeout: float, root: str = "/") -> tuple[list[Answer], bool]:
    """Ask these questions; return the answers and whether the cluster serves on this host."""
    *answers, units = ask_all(host, [*asked, SERVING], timeout, root)
    return answers, is_serving([units])


def readings_of(answers: Iterable[Answer]) -> dict[str, Reading]:
    """Parse the answers, by question. A question without an answer yields an empty reading that says why."""
    return {one.name: _reading(one) for one in answers}


def _reading(answer: Answer) -> Reading:
    if answer.problem and not answer.text:
        return Reading(answer.kind, {}, (answer.problem,), source=answer.command)
    return read(answer.kind, answer.text, answer.command)


def checks_of(
    answers: Sequence[Answer], readings: Mapping[str, Reading], expected: Expected, *, serving: bool
) -> list[Check]:
    """Every check of these readings, one per id."""
    silent = [f"{one.command}: {one.problem}" for one in answers if one.silent and one.of_driver]
    evaluated = [readings[one.name] for one in answers if one.of_driver or not one.absent]
    return host_checks(evaluate(evaluated, expected), silent[:1], serving=serving)


def tally(checks: Iterable[Check]) -> dict[str, int]:
    """Count the checks by verdict."""
    return dict(Counter(str(one["verdict"]) for one in checks))


def read_health(host: Host, want: Mapping[str, Any], timeout: float, root: str = "/") -> dict[str, Any]:
    """Evaluate the GPUs of this host, as an observation. Raises ValueError if the profile is invalid."""
    expected = expected_by(want)
    answers, busy = ask(host, questions(), timeout, root)
    readings = readings_of(answers)
    return {
        "checks": checks_of(answers, readings, expected, serving=busy),
        "topology": dict(readings["topo"].data) or None,
        "serving": busy,
    }
