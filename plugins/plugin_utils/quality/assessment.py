# SPDX-License-Identifier: Apache-2.0
"""Assess whether answers still match a reference or have degraded beyond the limits.

Greedy answers are not constant: kernel and batch composition decide near ties. The reference was therefore asked twice,
and every figure of the new answers is compared with what the reference reaches against itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.prompts import ENGINE, MEASURES, PRECISION

FORMAT = 1
SAME, WITHIN_LIMITS, WORSE = "same", "within_limits", "worse"
NO_REFERENCE, COULD_NOT_ASK = "no_reference", "could_not_ask"
PASSED = (SAME, WITHIN_LIMITS)
WORST = 5
LONGEST = 300
"""Characters of an answer that are shown."""
NUMBERS = ("--quantization", "-q", "--dtype", "--kv-cache-dtype", "--torch-dtype")
"""Engine flags that decide the numeric precision."""
INSTALL = "BLEU and ROUGE-L were not computed: install them with `pip install 'firstlight[quality]'`"
_SLACK = 1e-9
_NAMES = {"exact_match": "exact match", "token_agreement": "token agreement", "bleu": "BLEU", "rouge_l": "ROUGE-L"}

Answer = Mapping[str, Any]
Texts = Sequence[str]
Score = Callable[[Texts, Texts], float]


def assess(
    reference: Mapping[str, Any] | None, answers: Mapping[str, Any], limits: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """Assess a document of answers by the `limits` for each kind of change."""
    found: dict[str, Any] = {
        "format": FORMAT,
        "cluster": answers.get("cluster"),
        "run": answers.get("run"),
        "asked": answers.get("asked"),
        "configuration": answers.get("configuration"),
        "reference": None,
        "status": NO_REFERENCE,
        "prompts": len(answers["answers"]),
        **dict.fromkeys(MEASURES),
        "repeatability": None,
        "limits": {},
        "reasons": [],
        "worst": [],
    }
    if answers.get("problem"):
        return found | {"status": COULD_NOT_ASK, "reasons": [str(answers["problem"])]}
    if reference is None:
        return found | {"reasons": ["no answers were accepted for this model: run `firstlight quality --accept`"]}
    if reference.get("prompts_sha256") != answers.get("prompts_sha256"):
        told = f"the answers of {reference.get('asked')} are for other prompts: accept new ones (--accept)"
        return found | {"reasons": [told]}
    kind = change_of(reference.get("configuration") or {}, answers.get("configuration") or {})
    first, second, new = (_by_id(one) for one in (reference["answers"], reference.get("repeat"), answers["answers"]))
    ids = [name for name in first if name in new]
    if not ids:
        return found | {"reasons": ["no prompt was answered both times: accept new answers (--accept)"]}
    measured = _measures(first, new, ids)
    once = _measures(first, first, ids)
    both = [name for name in ids if name in second]
    twice = _measures(first, second, both) if both else once
    reached = {name: min(once[name], twice[name]) for name in measured}
    allowed = limits[kind]
    reasons = [
        _below(name, value, reached[name], allowed[name])
        for name, value in measured.items()
        if value < reached[name] * (1 - allowed[name]) - _SLACK
    ]
    status = WORSE if reasons else SAME if measured["exact_match"] == 1 else WITHIN_LIMITS
    missing = [name for name in first if name not in new]
    if missing:
        reasons.append(f"the server refuses {len(missing)} prompts that it answered before: {', '.join(missing[:5])}")
    if "bleu" not in measured:
        reasons.append(INSTALL)
    return found | {
        "reference": {name: reference.get(name) for name in ("run", "asked", "configuration")},
        "status": status,
        "prompts": len(ids),
        **{name: round(value, 4) for name, value in measured.items()},
        "repeatability": {name: round(value, 4) for name, value in reached.items()},
        "limits": {"change": kind, **allowed},
        "reasons": reasons,
        "worst": _worst(first, new, ids),
    }


def change_of(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return PRECISION if model, revision or numeric precision changed, else ENGINE."""
    same = all(before.get(name) == now.get(name) for name in ("model", "revision", "kv_cache_dtype"))
    return ENGINE if same and _numbers(before) == _numbers(now) else PRECISION


def _numbers(configuration: Mapping[str, Any]) -> set[tuple[str, str]]:
    words = [str(word) for word in configuration.get("argv") or ()]
    split = [word for one in words for word in (one.split("=", 1) if one.startswith("--") else [one])]
    return {(name, value) for name, value in zip(split, [*split[1:], ""], strict=False) if name in NUMBERS}


def _by_id(answers: Sequence[Answer] | None) -> dict[str, Answer]:
    return {one["id"]: one for one in answers or ()}


def _measures(first: Mapping[str, Answer], other: Mapping[str, Answer], ids: Sequence[str]) -> dict[str, float]:
    """Measure `other`: its agreement with `first`, and its scores against the expected answers.

    If no prompt has an expected answer, the first answers take their place.
    """
    right = {name: first[name]["expected"] for name in ids if first[name].get("expected")}
    truth = right or {name: first[name]["text"] for name in ids}
    wanted = [text.strip() for text in truth.values()]
    told = [other[name]["text"].strip() for name in truth]
    found = {
        "exact_match": _mean([float(first[name]["text"] == other[name]["text"]) for name in ids]),
        "token_agreement": _mean([agreement(first[name], other[name]) for name in ids]),
    }
    return found | {name: score(wanted, told) for name, score in _scores().items()}


def agreement(expected: Answer, found: Answer) -> float:
    """Return the share of an answer before the first difference: by token, or by word if token ids are missing."""
    pair = (expected, found)
    tokens = all(one.get("token_ids") is not None for one in pair)
    before, now = (one["token_ids"] if tokens else one["text"].split() for one in pair)
    if not before:
        return float(not now)
    differ = (at for at, (one, other) in enumerate(zip(before, now, strict=False)) if one != other)
    return next(differ, min(len(before), len(now))) / len(before)


@cache
def _scores() -> dict[str, Score]:
    """Return the functions for corpus BLEU and mean ROUGE-L, both from 0 to 100; empty if not installed."""
    try:
        from rouge_score.rouge_scorer import RougeScorer  # noqa: PLC0415 - an extra, and slow to import
        from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415 - the same
    except ImportError:
        return {}
    # effective_order: answers of one or two words have no longer n-grams.
    bleu, rouge = BLEU(effective_order=True), RougeScorer(["rougeL"])

    def rouge_l(wanted: Texts, told: Texts) -> float:
        # ROUGE only handles Latin letters and digits: an answer without any must be identical to count.
        pairs = zip(wanted, told, strict=True)
        return 100 * _mean([1.0 if a == b else rouge.score(a, b)["rougeL"].fmeasure for a, b in pairs])

    return {"bleu": lambda wanted, told: float(bleu.corpus_score(told, [wanted]).score), "rouge_l": rouge_l}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _said(name: str, value: float) -> str:
    return f"{value:.1f}" if name in ("bleu", "rouge_l") else f"{value:.1%}"


def _below(name: str, value: float, reached: float, allowed: float) -> str:
    floor = _said(name, reached * (1 - allowed))
    return (
        f"{_NAMES[name]} is {_said(name, value)}, expected at least {floor}: the reference has {_said(name, reached)}"
    )


def _worst(first: Mapping[str, Answer], new: Mapping[str, Answer], ids: Sequence[str]) -> list[dict[str, str]]:
    """Return the answers that changed most, worst first."""
    moved = sorted((agreement(first[name], new[name]), name) for name in ids if _moved(first[name], new[name]))
    worst = []
    for _, name in moved[:WORST]:
        expected, found = _shown(first[name], new[name])
        worst.append({"id": name, "expected": expected[:LONGEST], "found": found[:LONGEST]})
    return worst


def _moved(expected: Answer, found: Answer) -> bool:
    return bool(expected["text"] != found["text"] or agreement(expected, found) < 1)


def _shown(expected: Answer, found: Answer) -> tuple[str, str]:
    """Return both texts, or the token ids if only those differ, as with special tokens that no text shows."""
    if expected["text"] != found["text"]:
        return expected["text"], found["text"]
    before, now = (" ".join(map(str, one.get("token_ids") or ())) for one in (expected, found))
    return f"tokens {before}", f"tokens {now}"


def assessment_lines(assessment: Mapping[str, Any]) -> list[str]:
    """Render the assessment for a terminal or a log."""
    reference = assessment["reference"] or {}
    lines = [f"{assessment['status'].replace('_', ' ')}: {assessment['prompts']} prompts"]
    if reference:
        figures = [
            f"{_NAMES[name]} {_said(name, assessment[name])}" for name in MEASURES if assessment[name] is not None
        ]
        lines[0] += f", {', '.join(figures)}, compared with the answers of {reference['asked']}"
    lines += [f"  {reason}" for reason in assessment["reasons"]]
    if assessment["status"] == WORSE:
        lines += [f"  {one['id']}: {one['expected']!r} became {one['found']!r}" for one in assessment["worst"]]
    return lines
