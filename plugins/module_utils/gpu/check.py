# SPDX-License-Identifier: Apache-2.0
"""One check: what was expected, what was observed, the verdict, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..parsers.reading import Reading
from ..verdicts import COULD_NOT_CHECK, FAIL, NOT_APPLICABLE, PASS, worst

Check = dict[str, Any]
"""id, host, verdict, expected, observed, remedy, command (it mends the fault and is safe to run, or None), source."""


def make_check(
    name: str,
    verdict: str,
    expected: Any,
    observed: Any,
    remedy: str = "",
    *,
    source: str = "",
    host: str = "",
    command: str | None = None,
) -> Check:
    """A check with this id. `remedy` is a sentence without a full stop; empty where there is nothing to do."""
    return {
        "id": name,
        "host": host,
        "verdict": verdict,
        "expected": expected,
        "observed": observed,
        "remedy": remedy,
        "command": command,
        "source": source,
    }


def passed(name: str, reading: Reading, expected: Any, observed: Any) -> Check:
    """Right, as this reading proves."""
    return make_check(name, PASS, expected, observed, source=reading.source, host=reading.host)


def failed(name: str, reading: Reading, expected: Any, observed: Any, remedy: str, command: str | None = None) -> Check:
    """Wrong, as this reading proves."""
    return make_check(name, FAIL, expected, observed, remedy, source=reading.source, host=reading.host, command=command)


def not_applicable(name: str, reading: Reading, expected: Any, observed: Any) -> Check:
    """Nothing that this hardware has, and rightly so."""
    return make_check(name, NOT_APPLICABLE, expected, observed, source=reading.source, host=reading.host)


def could_not_check(name: str, reading: Reading, expected: Any, why: str, remedy: str = "") -> Check:
    """Not to be told from this reading; `why` quotes what was found in place of an answer."""
    return make_check(
        name,
        COULD_NOT_CHECK,
        expected,
        why,
        remedy or f"capture the whole output of the command again ({reading.kind})",
        source=reading.source,
        host=reading.host,
    )


def merged(checks: Iterable[Check]) -> list[Check]:
    """One check an id and host: the one of the source that decides, where several told of it."""
    together: dict[tuple[str, str], list[Check]] = {}
    for one in checks:
        together.setdefault((str(one["host"]), str(one["id"])), []).append(one)
    return [_deciding(own) for own in together.values()]


def _deciding(checks: Sequence[Check]) -> Check:
    verdict = worst(one["verdict"] for one in checks)
    # What one source proves right, another that is silent about it does not make doubtful.
    if verdict == COULD_NOT_CHECK and any(one["verdict"] == PASS for one in checks):
        verdict = PASS
    return next(one for one in checks if one["verdict"] == verdict)
