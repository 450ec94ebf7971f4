# SPDX-License-Identifier: Apache-2.0
"""A check: what was expected, what was observed, the verdict, and the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..parsers.reading import Reading
from ..verdicts import COULD_NOT_CHECK, FAIL, NOT_APPLICABLE, PASS, worst

Check = dict[str, Any]
"""id, host, verdict, expected, observed, remedy, command (a safe one that fixes the fault, or None), source."""


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
    """Build a check. `remedy` is a sentence without a full stop, empty if there is nothing to do."""
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
    """A check that this reading proves to pass."""
    return make_check(name, PASS, expected, observed, source=reading.source, host=reading.host)


def failed(name: str, reading: Reading, expected: Any, observed: Any, remedy: str, command: str | None = None) -> Check:
    """A check that this reading proves to fail."""
    return make_check(name, FAIL, expected, observed, remedy, source=reading.source, host=reading.host, command=command)


def not_applicable(name: str, reading: Reading, expected: Any, observed: Any) -> Check:
    """A check that does not apply to this hardware."""
    return make_check(name, NOT_APPLICABLE, expected, observed, source=reading.source, host=reading.host)


def could_not_check(name: str, reading: Reading, expected: Any, why: str, remedy: str = "") -> Check:
    """A check that this reading cannot decide; `why` quotes what was found instead of an answer."""
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
    """Merge the checks to one per id and host, taken from the source that decides if several report it."""
    together: dict[tuple[str, str], list[Check]] = {}
    for one in checks:
        together.setdefault((str(one["host"]), str(one["id"])), []).append(one)
    return [_deciding(own) for own in together.values()]


def _deciding(checks: Sequence[Check]) -> Check:
    verdict = worst(one["verdict"] for one in checks)
    # A pass that one source proves is not put in doubt by another source that is silent about it.
    if verdict == COULD_NOT_CHECK and any(one["verdict"] == PASS for one in checks):
        verdict = PASS
    return next(one for one in checks if one["verdict"] == verdict)
