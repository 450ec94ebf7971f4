# SPDX-License-Identifier: Apache-2.0
"""What an intent says of answers, and what is refused of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.quality import (
    ERRORS,
    Quality,
    read_quality,
)


def read(value: Any) -> tuple[Quality, PlanErrors]:
    errors = PlanErrors()
    return read_quality({} if value is None else {"firstlight_quality": value}, errors), errors


def test_a_change_waits_for_answers_where_there_are_some_to_compare_with() -> None:
    usual, _ = read(None)
    assert [usual.is_wanted(accepted=one) for one in (True, False)] == [True, False]
    assert [read({"gate": True})[0].is_wanted(accepted=one) for one in (True, False)] == [True, True]
    assert [read({"gate": False})[0].is_wanted(accepted=one) for one in (True, False)] == [False, False]


def test_limits_take_the_place_of_the_catalogs() -> None:
    found, errors = read({"limits": {"bleu": 0.01, "exact_match": 1}})
    assert errors.found == []
    usual = {"engine": {"bleu": 0.005, "rouge_l": 0.005}}
    assert found.limits_of(usual) == {"engine": {"bleu": 0.01, "rouge_l": 0.005, "exact_match": 1.0}}


@pytest.mark.parametrize(
    ("value", "identifier", "remedy"),
    [
        ([], "intent.type", "as a mapping"),
        ({"gates": True}, "intent.unknown-key", "did you mean gate?"),
        ({"gate": "yes"}, "intent.type", "leave it out"),
        ({"limits": 0.5}, "intent.type", "limits: {bleu: 0.01}"),
        ({"limits": {"blue": 0.5}}, "intent.unknown-key", "did you mean bleu?"),
        ({"limits": {"bleu": 0.5, "rouge_l": 5}}, "quality.limit", "rouge_l: 0.005"),
        ({"limits": {"bleu": "0.5"}}, "quality.limit", "bleu: 0.005"),
        ({"limits": {"bleu": True}}, "quality.limit", "bleu: 0.005"),
        ({"limits": {"bleu": float("nan")}}, "quality.limit", "bleu: 0.005"),
    ],
)
def test_what_cannot_be_is_refused(value: Any, identifier: str, remedy: str) -> None:
    _, errors = read(value)
    assert [one["id"] for one in errors.found] == [identifier]
    assert remedy in errors.found[0]["remedy"]
    assert identifier in {*ERRORS, "intent.type", "intent.unknown-key"}
