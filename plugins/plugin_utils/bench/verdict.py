# SPDX-License-Identifier: Apache-2.0
"""Compare a benchmark with its plan and with published figures: pass, slow, or not measured. Pure functions.

A point is slow if it misses its range by more than its runs differ. Figures that cannot be trusted, because the cache
was warm or no run counts, are not measured, whatever their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.evidence import Evidence, look_at
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.expected import Expected
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.limits import limits
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.envelopes import Envelope, envelopes_at

PASS, SLOW, NOT_MEASURED = "pass", "slow", "not measured"

PLAN = "plan"
ENVELOPE = "envelope"
ESTIMATE = "the plan's estimate"

Expect = Callable[[Mapping[str, Any], int | None, float | None], Expected]
"""Returns what the plan expects of a workload at a number of streams or at a request rate."""
Line = dict[str, Any]


def evaluate(
    document: Mapping[str, Any],
    expect: Expect,
    envelopes: Sequence[Envelope] = (),
    evidence: Evidence | None = None,
) -> dict[str, Any]:
    """Evaluate a result document: every comparison, the overall verdict, and what to check first."""
    lines: list[Line] = []
    shares: list[float] = []
    for workload in document["workloads"]:
        for point in workload["points"]:
            wanted = expect(workload, point["streams"], point["rate"])
            found = _lines(workload, point, wanted, envelopes)
            lines += found
            if wanted.communication_share is not None and verdict_of(found) == SLOW:
                shares.append(wanted.communication_share)
    verdict = verdict_of(lines)
    looks = look_at(document, evidence, max(shares, default=None)) if verdict == SLOW else []
    return {"verdict": verdict, "lines": lines, "look_at": looks}


def verdict_of(lines: Iterable[Line], workload: str | None = None) -> str:
    """Combine comparisons, all or those of one workload: slow if any is slow, pass if all pass, else not measured.

    A measured point without anything to compare it with is ignored, unless there are no others.
    """
    listed = [one for one in lines if workload is None or one["workload"] == workload]
    told = {one["verdict"] for one in listed if one["of"] is not None or one["measured"] is None}
    return SLOW if SLOW in told else PASS if told == {PASS} else NOT_MEASURED


def gate_lines(verdict: Mapping[str, Any], gate: Sequence[str]) -> list[str]:
    """Return why gating workloads do not pass, and what to check; empty if they all pass."""
    bad = [name for name in gate if verdict_of(verdict["lines"], name) != PASS]
    told = []
    for name in bad:
        own = [one for one in verdict["lines"] if one["workload"] == name and one["verdict"] != PASS]
        told += [line_text(one) for one in own] or [f"{name}: {NOT_MEASURED}: it is not among the results"]
    return told + (list(verdict["look_at"]) if bad else [])


def verdict_lines(verdict: Mapping[str, Any]) -> list[str]:
    """Render the verdict as text, one comparison per line."""
    return [verdict["verdict"].upper(), *(line_text(one) for one in verdict["lines"]), *verdict["look_at"]]


def line_text(line: Mapping[str, Any]) -> str:
    """Render one comparison as a line."""
    told = f"{line['workload']}, {point_words(line)}: {line['verdict']}"
    if line["measured"] is not None:
        told += f": {metric_words(line['metric'])} {figure_words(line['measured'])}"
    if line["of"] is not None:
        told += f", expected {range_words(line)} ({line['source']})"
    return f"{told}; {line['note']}" if line["note"] else told


def point_words(line: Mapping[str, Any]) -> str:
    if line["rate"] is not None:
        return f"{line['rate']:g} requests/s"
    return f"{line['streams']} stream{'' if line['streams'] == 1 else 's'}"


_METRICS = {
    "output_tokens_per_s": "tokens/s",
    "decode_tokens_per_s": "tokens/s of one stream",
    "ttft_ms": "first token, ms",
    "tpot_ms": "per token, ms",
}


def metric_words(metric: str) -> str:
    """Return a readable name of a metric, with its percentile unless that is the median."""
    name, _, percentile = metric.partition(".")
    return _METRICS.get(name, name) + (f", p{percentile}" if percentile not in ("", "50") else "")


def range_words(line: Mapping[str, Any]) -> str:
    low, high = line["low"], line["high"]
    if low is None or high is None:
        return f"at most {figure_words(high)}" if low is None else f"at least {figure_words(low)}"
    return f"{figure_words(low)} to {figure_words(high)}"


def figure_words(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _lines(
    workload: Mapping[str, Any], point: Mapping[str, Any], wanted: Expected, envelopes: Sequence[Envelope]
) -> list[Line]:
    at = {"workload": workload["name"], "streams": point["streams"], "rate": point["rate"]}
    nothing = {"metric": None, "measured": None, "low": None, "high": None, "of": None, "source": None}
    why = unbelievable(workload, point)
    if why:
        return [{**at, **nothing, "verdict": NOT_MEASURED, "note": why}]
    summary = point["summary"]
    lines: list[Line] = []
    for metric, low, high, of, source in _comparisons(workload, point, wanted, envelopes):
        measured = figure(summary, metric)
        if measured is not None:
            verdict, note = _compared(measured, low, high, _spread(summary, metric), rising=_rises(metric))
            compared = {"metric": metric, "measured": measured, "low": low, "high": high, "of": of, "source": source}
            lines.append({**at, **compared, "verdict": verdict, "note": note})
    if lines:
        return lines
    measured = figure(summary, "output_tokens_per_s")
    why = f"nothing to compare with: {wanted.why or 'none of the expected figures was measured'}"
    return [
        {**at, **nothing, "metric": "output_tokens_per_s", "measured": measured, "verdict": NOT_MEASURED, "note": why}
    ]


def _comparisons(
    workload: Mapping[str, Any], point: Mapping[str, Any], wanted: Expected, envelopes: Sequence[Envelope]
) -> Iterator[tuple[str, float | None, float | None, str, str]]:
    for metric, (low, high) in wanted.ranges.items():
        yield metric, low, high, PLAN, ESTIMATE
    for one in envelopes_at(envelopes, workload, point["streams"], point["rate"]):
        yield one["metric"], one["low"], one["high"], ENVELOPE, str(one["whose"])


def unbelievable(workload: Mapping[str, Any], point: Mapping[str, Any]) -> str:
    """Return why the figures of a point do not reflect the server's performance; empty if they do."""
    summary = point["summary"]
    if summary is None:
        problems = list(dict.fromkeys(str(run["problem"]) for run in point["runs"] if run.get("problem")))
        return "; ".join(problems) or "no run was finished"
    hits, most = summary.get("prefix_hit_rate"), limits()["cached"]
    if workload.get("prompts") == "random" and not workload.get("prefix") and hits is not None and hits > most:
        return (
            f"{hits:.0%} of the tokens of random prompts were in the prefix cache, expected at most {most:.0%}: it is "
            "warm; measure again with another seed"
        )
    return ""


def figure(summary: Mapping[str, Any], metric: str) -> float | None:
    """Return a figure by metric name: `ttft_ms.95` is a percentile, the decode rate the inverse of the median TPOT."""
    if metric == "decode_tokens_per_s":
        each = figure(summary, "tpot_ms.50")
        return 1000 / each if each else None
    name, _, percentile = metric.partition(".")
    found = summary.get(name)
    if percentile:
        found = found.get(percentile) if isinstance(found, Mapping) else None
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def _rises(metric: str) -> bool:
    """Return whether higher values of the metric are better."""
    return metric.endswith("_per_s")


def _spread(summary: Mapping[str, Any], metric: str) -> float:
    name = "tpot_ms" if metric == "decode_tokens_per_s" else metric.partition(".")[0]
    return max(0.0, (summary.get("spread") or {}).get(name) or 0.0)


def _compared(
    measured: float, low: float | None, high: float | None, spread: float, *, rising: bool
) -> tuple[str, str]:
    """Return the verdict and a note, if there is one."""
    worst, best = (low, high) if rising else (high, low)
    # How many times slower than the worst expected value; for rates and times alike.
    times = 0.0 if worst is None else _ratio(worst, measured) if rising else _ratio(measured, worst)
    if times <= 1:
        faster = best is not None and (measured > best if rising else measured < best)
        return PASS, "faster than expected" if faster else ""
    if times > 1 + spread:
        return SLOW, f"{1 - 1 / times:.0%} below its range" if rising else f"{times - 1:.0%} above its range"
    if spread > limits()["spread"]:
        return NOT_MEASURED, f"its runs differ by {spread:.0%}, too much to tell: measure again with more repeats"
    return PASS, f"outside by less than the {spread:.0%} by which its runs differ"


def _ratio(one: float, other: float) -> float:
    return one / other if other > 0 else float("inf")
