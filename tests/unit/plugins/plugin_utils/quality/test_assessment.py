# SPDX-License-Identifier: Apache-2.0
"""Answers beside a reference: the same, as noisy as the reference itself, or worse."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.prompts import KINDS, MEASURES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.quality import assessment
from ansible_collections.firstlight.cluster.plugins.plugin_utils.quality.assessment import (
    INSTALL,
    agreement,
    assess,
    assessment_lines,
    change_of,
)
from hypothesis import given
from hypothesis import strategies as st

STRICT = {"exact_match": 0.15, "token_agreement": 0.15, "bleu": 0.005, "rouge_l": 0.005}
LIMITS = {"engine": STRICT, "precision": {**STRICT, "exact_match": 0.5, "token_agreement": 0.5}}
CONFIGURATION = {"model": "tiny", "revision": "a", "kv_cache_dtype": "auto", "argv": ["vllm", "serve"]}
STATUSES = ("same", "within_limits", "worse", "no_reference", "could_not_ask")

TEXTS = st.text("abc 0.", max_size=12)
ANSWERS = st.lists(st.tuples(TEXTS, st.none() | st.lists(st.integers(0, 9), max_size=6)), min_size=1, max_size=8)


@pytest.fixture(autouse=True)
def without_scores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As an installation without the extra."""
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    assessment._scores.cache_clear()
    yield
    assessment._scores.cache_clear()


def document(texts: Sequence[str], *, configuration: Mapping[str, Any] = CONFIGURATION, **more: Any) -> dict[str, Any]:
    answers = [{"id": f"p{number}", "text": text, "token_ids": None} for number, text in enumerate(texts)]
    own = {"format": 1, "cluster": "lab", "run": "r", "asked": "2026-11-18", "prompts_sha256": "0"}
    return {**own, "configuration": dict(configuration), "answers": answers, **more}


def repeated(texts: Sequence[str], again: Sequence[str], **more: Any) -> dict[str, Any]:
    return document(texts, repeat=document(again)["answers"], **more)


@given(ANSWERS)
def test_identical_answers_are_the_same(answers: list[tuple[str, list[int] | None]]) -> None:
    listed = [{"id": str(number), "text": text, "token_ids": ids} for number, (text, ids) in enumerate(answers)]
    one = document([], answers=listed)
    found = assess(one, one, LIMITS)
    assert (found["status"], found["exact_match"], found["token_agreement"]) == ("same", 1, 1)
    assert found["worst"] == []
    assert found["prompts"] == len(answers)


@given(st.lists(TEXTS, min_size=1, max_size=8), st.data())
def test_the_reference_never_is_worse_than_itself(texts: list[str], data: st.DataObject) -> None:
    again = [data.draw(TEXTS) for _ in texts]
    found = assess(repeated(texts, again), document(again), LIMITS)
    assert found["status"] in ("same", "within_limits")


@given(ANSWERS, ANSWERS, st.sampled_from(KINDS))
def test_whatever_was_answered_has_an_assessment(
    one: list[tuple[str, list[int] | None]], other: list[tuple[str, list[int] | None]], kind: str
) -> None:
    both = [
        document(
            [], answers=[{"id": str(at), "text": text, "token_ids": ids} for at, (text, ids) in enumerate(answers)]
        )
        for answers in (one, other)
    ]
    both[1]["configuration"] |= {"revision": "b"} if kind == "precision" else {"driver": "new"}
    found = assess(both[0], both[1], LIMITS)
    assert found["status"] in STATUSES
    assert found["limits"]["change"] == kind
    assert all(0 <= found[name] <= 1 for name in MEASURES[:2])
    assert len(assessment_lines(found)) > 0


def test_damaged_answers_are_worse_and_the_worst_are_named() -> None:
    texts = [f"the answer is {number}" for number in range(8)]
    found = assess(document(texts), document([*texts[:5], "the thing", "zzz", "the answer is not 7"]), LIMITS)
    assert found["status"] == "worse"
    assert [one["id"] for one in found["worst"]] == ["p6", "p5", "p7"]
    assert found["worst"][0] == {"id": "p6", "expected": "the answer is 6", "found": "zzz"}
    assert "exact match is 62.5%, expected at least 85.0%: the reference has 100.0%" in found["reasons"]
    told = "\n".join(assessment_lines(found))
    assert told.startswith("worse: 8 prompts")
    assert "p6: 'the answer is 6' became 'zzz'" in told


def test_answers_that_differ_only_in_what_no_text_shows_are_named_by_their_tokens() -> None:
    before, now = ([{"id": "p0", "text": "", "token_ids": ids}] for ids in ([7, 8], [7, 9]))
    found = assess(document([], answers=before), document([], answers=now), LIMITS)
    assert found["status"] == "worse"
    assert found["worst"] == [{"id": "p0", "expected": "tokens 7 8", "found": "tokens 7 9"}]


def test_noise_that_the_reference_has_itself_is_no_damage() -> None:
    """Two of six near ties fall the other way whenever it is asked."""
    texts = [f"the answer is {number}" for number in range(6)]
    noisy = [*texts[:4], "an answer is 4", "an answer is 5"]
    assert assess(document(texts), document(noisy), LIMITS)["status"] == "worse"
    found = assess(repeated(texts, noisy), document(["an answer is 0", "an answer is 1", *texts[2:]]), LIMITS)
    assert found["status"] == "within_limits"
    assert found["repeatability"]["exact_match"] == found["exact_match"]


def test_other_numbers_may_change_the_wording_more_than_another_engine() -> None:
    texts = [f"the answer is {number}" for number in range(8)]
    moved = document([*texts[:5], *(f"the answer: {number}" for number in range(5, 8))])
    assert assess(document(texts), moved, LIMITS)["status"] == "worse"
    moved["configuration"]["argv"] = ["vllm", "serve", "--quantization=fp8"]
    found = assess(document(texts), moved, LIMITS)
    assert (found["status"], found["limits"]["change"]) == ("within_limits", "precision")


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, "engine"),
        ({"driver": "590", "engine_version": "0.33.0", "image": "other"}, "engine"),
        ({"argv": ["vllm", "serve", "--enable-prefix-caching"]}, "engine"),
        ({"model": "tiny-fp8"}, "precision"),
        ({"revision": "b"}, "precision"),
        ({"kv_cache_dtype": "fp8"}, "precision"),
        ({"argv": ["vllm", "serve", "--dtype", "float16"]}, "precision"),
        ({"argv": ["vllm", "serve", "--quantization=fp8"]}, "precision"),
    ],
)
def test_what_counts_as_other_numbers(change: dict[str, Any], kind: str) -> None:
    assert change_of(CONFIGURATION, {**CONFIGURATION, **change}) == kind


@pytest.mark.parametrize(
    ("before", "now", "share"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 1),
        ([1, 2, 3, 4], [1, 2, 9, 4], 0.5),
        ([1, 2, 3, 4], [1, 2], 0.5),
        ([1, 2], [1, 2, 3], 1),
        ([], [], 1),
        ([], [1], 0),
        ([1], [], 0),
    ],
)
def test_agreement_is_the_common_beginning(before: list[int], now: list[int], share: float) -> None:
    one, other = ({"text": "x", "token_ids": ids} for ids in (before, now))
    assert agreement(one, other) == share


def test_words_stand_for_tokens_that_nobody_told() -> None:
    told = {"text": "a b c d", "token_ids": [1, 2]}
    assert agreement(told, {"text": "a b x d", "token_ids": None}) == 0.5


@pytest.mark.parametrize(
    ("reference", "answers", "status", "words"),
    [
        (None, document(["a"]), "no_reference", "--accept"),
        (document(["a"], prompts_sha256="1"), document(["a"]), "no_reference", "other prompts"),
        (document(["a"]), document([], problem="add: timeout"), "could_not_ask", "add: timeout"),
        (document(["a"]), document([]), "no_reference", "no prompt"),
    ],
)
def test_what_cannot_be_compared(reference: Any, answers: dict[str, Any], status: str, words: str) -> None:
    found = assess(reference, answers, LIMITS)
    assert found["status"] == status
    assert words in found["reasons"][0]
    assert found["exact_match"] is None


def test_prompts_that_are_refused_now_are_told() -> None:
    found = assess(document(["a", "b"]), document(["a"]), LIMITS)
    assert found["status"] == "same"
    assert "refuses 1 prompts that it answered before: p1" in found["reasons"][0]


def test_without_the_extra_it_says_how_to_get_it() -> None:
    found = assess(document(["a"]), document(["a"]), LIMITS)
    assert (found["bleu"], found["rouge_l"]) == (None, None)
    assert found["reasons"] == [INSTALL]
