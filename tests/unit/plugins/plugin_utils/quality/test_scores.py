# SPDX-License-Identifier: Apache-2.0
"""BLEU and ROUGE-L of answers, against the right ones where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.quality.assessment import assess

from tests.unit.plugins.plugin_utils.quality.test_assessment import LIMITS, STRICT, document, repeated

pytestmark = pytest.mark.slow  # imports NLTK and NumPy


def with_expected(texts: Sequence[str], expected: Sequence[str]) -> dict[str, Any]:
    made = document(texts)
    for one, right in zip(made["answers"], expected, strict=True):
        one["expected"] = right
    return made


def test_right_answers_in_other_words_keep_their_scores_and_wrong_ones_do_not() -> None:
    right = [f"the quick brown fox number {number} jumps over the lazy dog" for number in range(8)]
    reference = with_expected([f"{text}." for text in right], right)
    other = with_expected([f"{text}!" for text in right], right)
    other["configuration"]["revision"] = "b"
    loose = {"precision": {**STRICT, "exact_match": 1.0, "token_agreement": 1.0}}
    kept = assess(reference, other, loose)
    assert kept["status"] == "within_limits"
    assert kept["bleu"] == kept["repeatability"]["bleu"]
    other["answers"][3]["text"] = "a slow red cat"
    worse = assess(reference, other, loose)
    assert worse["status"] == "worse"
    assert {reason.split()[0] for reason in worse["reasons"]} == {"BLEU", "ROUGE-L"}


def test_without_right_answers_the_reference_is_held_against_itself() -> None:
    texts = [f"the quick brown fox number {number} jumps" for number in range(6)]
    found = assess(repeated(texts, texts), document(texts), LIMITS)
    assert (found["status"], round(found["bleu"]), round(found["rouge_l"])) == ("same", 100, 100)
    assert found["reasons"] == []
    one_word = document([*texts[:5], "the quick brown cat number 5 jumps"])
    assert any(reason.startswith("BLEU") for reason in assess(repeated(texts, texts), one_word, LIMITS)["reasons"])
