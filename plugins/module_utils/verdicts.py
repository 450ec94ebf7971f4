# SPDX-License-Identifier: Apache-2.0
"""The four words for what came of a check, the same in every record, report and command."""

from __future__ import annotations

from collections.abc import Iterable

VERDICTS = ("pass", "fail", "not_applicable", "could_not_check")
PASS, FAIL, NOT_APPLICABLE, COULD_NOT_CHECK = VERDICTS

CONTENT = frozenset({PASS, NOT_APPLICABLE})
"""Verdicts that nobody has to do anything about."""

_WORST_FIRST = (FAIL, COULD_NOT_CHECK, PASS, NOT_APPLICABLE)


def worst(verdicts: Iterable[str]) -> str:
    """The one that decides where several sources tell of the same check; nothing told is nothing checked."""
    told = set(verdicts)
    return next((verdict for verdict in _WORST_FIRST if verdict in told), COULD_NOT_CHECK)
