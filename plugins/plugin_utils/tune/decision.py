# SPDX-License-Identifier: Apache-2.0
"""Decide whether a rung is kept, by its figures relative to the last kept rung, and by its answers. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

METRIC = "output_tokens_per_s"
LEAST = 0.01
"""Relative difference within which configurations count as equally fast, so that fewer settings are preferred."""
PERCENTILE = "95"
"""The percentile of a latency that a target applies to."""
RIGHT = ("same", "within_limits")
"""Status values of an assessment whose answers are as good as before."""
WAIVED = "waived"
"""Status of a measurement with dummy weights, whose answers are meaningless. No real server is tuned this way."""

_TIMES = {"ttft_ms": "first token", "tpot_ms": "time per token", "e2e_ms": "whole answer"}


@dataclass(frozen=True)
class Decision:
    """Whether a rung is kept, and the reason."""

    kept: bool
    reason: str


def by_speed(
    last: Mapping[str, Any],
    found: Mapping[str, Any],
    targets: Mapping[str, float | None] | None = None,
    *,
    fewer: bool = False,
) -> Decision:
    """Decide by the summaries of two points. `fewer`: the new one has fewer settings than the last."""
    before, after = last.get(METRIC) or 0.0, found.get(METRIC) or 0.0
    if not after:
        return Decision(False, "no token was measured")
    gain = after / before - 1 if before else float("inf")
    spread = max(_spread(last, METRIC), _spread(found, METRIC))
    told = f"{gain:+.1%} tokens/s ({before:,.0f} to {after:,.0f}; runs differ by {spread:.1%})"
    missed = _missed(last, found, targets or {})
    if missed:
        return Decision(False, f"{missed}; {told}")
    margin = max(spread, LEAST)
    if gain > margin:
        return Decision(True, told)
    reached = _reached(last, found, targets or {})
    if reached and gain >= -margin:
        return Decision(True, f"{reached}; {told}")
    if fewer and gain >= -LEAST:
        return Decision(True, f"as fast with fewer settings; {told}")
    if gain > spread:
        return Decision(False, f"less than {LEAST:.0%} faster, so fewer settings are better; {told}")
    return Decision(False, f"slower; {told}" if gain < -margin else f"no faster than the runs differ; {told}")


def by_answers(quality: Mapping[str, Any] | None, *, precision: bool) -> Decision:
    """Decide by the quality assessment, which is None if the answers were not assessed."""
    if quality is None:
        if precision:
            return Decision(False, "it changes the precision, and its answers were not assessed")
        return Decision(True, "")
    status = str(quality.get("status"))
    if status == WAIVED:
        return Decision(True, f"answers were not assessed: {'; '.join(quality.get('reasons') or ())}")
    if status in RIGHT:
        return Decision(True, "the same answers" if status == "same" else "answers within the limits")
    why = "; ".join(str(one) for one in quality.get("reasons") or ())
    return Decision(False, f"answers: {status.replace('_', ' ')}" + (f" ({why})" if why else ""))


def _missed(last: Mapping[str, Any], found: Mapping[str, Any], targets: Mapping[str, float | None]) -> str:
    """Return the first missed target that was met before, or is now missed by more than before."""
    for name, limit in targets.items():
        now, before = _time(found, name), _time(last, name)
        if limit is None or now is None or now <= limit:
            continue
        if before is None or before <= limit or now > before * (1 + max(_spread(last, name), _spread(found, name))):
            return f"{_TIMES.get(name, name)} p{PERCENTILE} {now:.0f} ms, target {limit:g} ms"
    return ""


def _reached(last: Mapping[str, Any], found: Mapping[str, Any], targets: Mapping[str, float | None]) -> str:
    """Return the first target that is met now and was missed before."""
    for name, limit in targets.items():
        now, before = _time(found, name), _time(last, name)
        if limit is not None and now is not None and before is not None and now <= limit < before:
            what = f"{_TIMES.get(name, name)} p{PERCENTILE} {before:.0f} to {now:.0f} ms"
            return f"{what}, within its target of {limit:g} ms"
    return ""


def _time(summary: Mapping[str, Any], name: str) -> float | None:
    found = (summary.get(name) or {}).get(PERCENTILE)
    return float(found) if found is not None else None


def _spread(summary: Mapping[str, Any], name: str) -> float:
    return float((summary.get("spread") or {}).get(name) or 0.0)
