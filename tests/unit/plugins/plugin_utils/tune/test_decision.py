# SPDX-License-Identifier: Apache-2.0
"""What is kept: faster by more than the runs differ, within the targets, with answers that stay right."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.decision import by_answers, by_speed
from hypothesis import given
from hypothesis import strategies as st


def point(speed: float, spread: float = 0.02, ttft: float = 400.0) -> dict[str, Any]:
    return {
        "output_tokens_per_s": speed,
        "ttft_ms": {"50": ttft / 2, "95": ttft},
        "tpot_ms": {"50": 10.0, "95": 12.0},
        "spread": {"output_tokens_per_s": spread, "ttft_ms": 0.05, "tpot_ms": 0.01},
    }


TARGETS = {"ttft_ms": 800.0, "tpot_ms": None, "e2e_ms": None}


@pytest.mark.parametrize(
    ("last", "found", "fewer", "kept", "words"),
    [
        (point(1000), point(1100), False, True, "+10.0% tokens/s (1,000 to 1,100"),
        (point(1000, 0.12), point(1100), False, False, "no faster than the runs differ"),
        (point(1000), point(1100, 0.12), False, False, "no faster than the runs differ"),
        (point(1000), point(900), False, False, "slower"),
        (point(1000, 0.001), point(1008, 0.001), False, False, "fewer settings are better"),
        (point(1000), point(995), True, True, "as fast with fewer settings"),
        (point(1000), point(985), True, False, "no faster"),
        (point(1000), point(1500, ttft=900), False, False, "first token p95 900 ms, target 800 ms"),
        (point(1000, ttft=1400), point(1500, ttft=900), False, True, "+50.0%"),
        (point(1000, ttft=900), point(1500, ttft=1400), False, False, "target 800 ms"),
        (point(1000, ttft=1400), point(1000, ttft=380), False, True, "1400 to 380 ms, within its target of 800 ms"),
        (point(1000, ttft=1400), point(900, ttft=380), False, False, "slower"),
        (point(1000), point(0), False, False, "no token"),
    ],
)
def test_by_speed(last: dict[str, Any], found: dict[str, Any], fewer: bool, kept: bool, words: str) -> None:
    decision = by_speed(last, found, TARGETS, fewer=fewer)
    assert decision.kept is kept, decision
    assert words in decision.reason


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.floats(0, 1), st.floats(0, 1))
def test_two_configurations_never_beat_each_other(one: float, other: float, first: float, second: float) -> None:
    a, b = point(one, first), point(other, second)
    assert not (by_speed(a, b).kept and by_speed(b, a).kept)


@pytest.mark.parametrize(
    ("quality", "precision", "kept", "words"),
    [
        ({"status": "same"}, True, True, "the same answers"),
        ({"status": "within_limits"}, True, True, "within the limits"),
        ({"status": "worse", "reasons": ["BLEU 91"]}, False, False, "worse (BLEU 91)"),
        ({"status": "could_not_ask", "reasons": []}, False, False, "could not ask"),
        ({"status": "no_reference"}, False, False, "no reference"),
        ({"status": "waived", "reasons": ["dummies"]}, True, True, "not assessed: dummies"),
        (None, False, True, ""),
        (None, True, False, "changes the precision"),
    ],
)
def test_by_answers(quality: dict[str, Any] | None, precision: bool, kept: bool, words: str) -> None:
    decision = by_answers(quality, precision=precision)
    assert (decision.kept, words in decision.reason) == (kept, True)
