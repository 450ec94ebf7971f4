# SPDX-License-Identifier: Apache-2.0
"""The four verdicts of a check, used in every record, report and command."""

from __future__ import annotations

from collections.abc import Iterable

VERDICTS = ("pass", "fail", "not_applicable", "could_not_check")
PASS, FAIL, NOT_APPLICABLE, COULD_NOT_CHECK = VERDICTS

CONTENT = frozenset({PASS, NOT_APPLICABLE})
"""Verdicts that require no action."""

_WORST_FIRST = (FAIL, COULD_NOT_CHECK, PASS, NOT_APPLICABLE)


def worst(verdicts: Iterable[str]) -> str:
    """Return the verdict that prevails if several sources report the same check; could_not_check if none does."""
    told = set(verdicts)
    return next((verdict for verdict in _WORST_FIRST if verdict in told), COULD_NOT_CHECK)
