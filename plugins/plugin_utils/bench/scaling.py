# SPDX-License-Identifier: Apache-2.0
"""Analyse how throughput scales with GPUs, what it costs, and how it compares with published figures. Pure functions.

The layouts of one model are measured with the same load: tensor parallel 1, 2, 4 and 8 as far as the GPUs go, or tensor
versus pipeline parallelism on the same number of hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.verdict import figure, range_words
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.envelopes import (
    COMMUNICATION,
    SCALING,
    SPEEDUP,
    Envelope,
    envelopes_at,
    envelopes_for,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.charts import Series, line_chart
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.options import cost_per_million

WORSE, NOT_MEASURED, WITHIN, BETTER = "worse", "not measured", "as published", "better"
UNPUBLISHED = "nothing published"

Layout = dict[str, Any]


def layout_words(layout: Mapping[str, Any]) -> str:
    """Name a layout: TP 4, PP 4, or TP 2 x PP 2."""
    parts = {"TP": layout["tensor_parallel"], "PP": layout["pipeline_parallel"]}
    return " x ".join(f"{name} {size}" for name, size in parts.items() if size > 1) or "TP 1"


def analyse(
    document: Mapping[str, Any], prices: Mapping[str, Any], envelopes: Sequence[Envelope] = ()
) -> dict[str, Any]:
    """Analyse the layouts of a document.

    `prices` has the price of a GPU hour (`gpu_hour`, None if unknown) and its `currency`; `envelopes` are those of the
    catalog.
    """
    found = [_measured(one, prices.get("gpu_hour")) for one in document["layouts"]]
    known = [one for one in found if one["tokens_per_s"]]
    reference = min(known, key=lambda one: (one["gpus"], one["pipeline_parallel"]), default=None)
    if reference is not None:
        for one in known:
            one["speedup"] = one["tokens_per_s"] / reference["tokens_per_s"]
            one["efficiency"] = one["speedup"] * reference["gpus"] / one["gpus"]
    for one in found:
        one["comparisons"] = list(_comparisons(one, found, document, envelopes))
        one["verdict"] = _verdict(one["comparisons"])
    analysis = {
        **{key: document.get(key) for key in ("format", "cluster", "run", "workload")},
        **{key: (document.get("configuration") or {}).get(key) for key in ("model", "hardware")},
        "gpu_hour": prices.get("gpu_hour"),
        "currency": prices.get("currency"),
        "reference": None if reference is None else layout_words(reference),
        "layouts": found,
        "fastest": _best(known, "tokens_per_s"),
        "cheapest": _best(known, "tokens_per_s_per_gpu"),
        "verdict": _verdict([line for one in found for line in one["comparisons"]]),
    }
    return {**analysis, "lines": list(_lines(analysis))}


def _measured(layout: Mapping[str, Any], gpu_hour: float | None) -> Layout:
    summary, gpus = layout.get("summary"), layout["gpus"]
    speed = figure(summary, "output_tokens_per_s") if summary else None
    cost = cost_per_million(speed, gpus, gpu_hour) if speed else None
    return {
        **{key: layout[key] for key in ("tensor_parallel", "pipeline_parallel", "gpus")},
        "name": layout_words(layout),
        "problem": layout.get("problem"),
        "tokens_per_s": speed,
        "tokens_per_s_per_gpu": speed / gpus if speed else None,
        "spread": (summary.get("spread") or {}).get("output_tokens_per_s") if summary else None,
        "speedup": None,
        "efficiency": None,
        "communication": dict(layout.get("communication") or {"share": None, "source": None}),
        "cost_per_million_tokens": cost,
    }


def _best(known: Sequence[Layout], by: str) -> str | None:
    return max(known, key=lambda one: one[by])["name"] if known else None


def _comparisons(
    layout: Layout, others: Sequence[Layout], document: Mapping[str, Any], envelopes: Sequence[Envelope]
) -> Iterator[dict[str, Any]]:
    """Compare a layout's measurements with published figures for such a layout."""
    configuration, workload = document.get("configuration") or {}, document["workload"]
    if _piped(layout):
        return
    own = envelopes_for(
        envelopes,
        hardware=str(configuration.get("hardware")),
        model=str(configuration.get("model")),
        profile=str(configuration.get("profile")),
        tensor_parallel=layout["tensor_parallel"],
    )
    for one in envelopes_at(own, {"prompts": "random", **workload}, workload["streams"], None):
        if one["metric"] not in SCALING:
            continue
        measured = _figure(layout, others, one)
        spread = (layout["spread"] or 0.0) if one["metric"] == SPEEDUP else 0.0
        yield {
            **{key: one.get(key) for key in ("metric", "from_tensor_parallel", "low", "high", "whose", "source")},
            "measured": measured,
            "verdict": _compared(one, measured, spread),
        }


def _compared(envelope: Envelope, measured: float | None, spread: float) -> str:
    """Return the verdict; a value counts as outside the range only by more than the spread of the runs."""
    if measured is None:
        return NOT_MEASURED
    low, high = envelope["low"], envelope["high"]
    less = low is not None and measured < low * (1 - spread)
    more = high is not None and measured > high * (1 + spread)
    if not less and not more:
        return WITHIN
    return BETTER if more == (envelope["metric"] == SPEEDUP) else WORSE


def _figure(layout: Layout, others: Sequence[Layout], envelope: Envelope) -> float | None:
    if envelope["metric"] == COMMUNICATION:
        share = layout["communication"]["share"]
        return None if share is None else float(share)
    base = next(
        (
            one["tokens_per_s"]
            for one in others
            if (one["tensor_parallel"], one["pipeline_parallel"]) == (envelope["from_tensor_parallel"], 1)
        ),
        None,
    )
    return layout["tokens_per_s"] / base if base and layout["tokens_per_s"] else None


def _verdict(comparisons: Sequence[Mapping[str, Any]]) -> str:
    """Return the worst verdict."""
    told = {one["verdict"] for one in comparisons}
    return next((one for one in (WORSE, NOT_MEASURED, WITHIN, BETTER) if one in told), UNPUBLISHED)


HEADINGS = ("layout", "GPUs", "tok/s", "per GPU", "speedup", "efficiency", "communication", "per million", "verdict")


def rows(analysis: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the layouts as table rows below HEADINGS."""
    return [_row(one, analysis["currency"]) for one in analysis["layouts"]]


def _row(layout: Layout, currency: str | None) -> tuple[str, ...]:
    if layout["tokens_per_s"] is None:
        return (layout["name"], str(layout["gpus"]), "not measured", *[""] * (len(HEADINGS) - 4), layout["verdict"])
    share, cost = layout["communication"], layout["cost_per_million_tokens"]
    return (
        layout["name"],
        str(layout["gpus"]),
        f"{layout['tokens_per_s']:,.0f}",
        f"{layout['tokens_per_s_per_gpu']:,.0f}",
        f"{layout['speedup']:.2f}x",
        f"{layout['efficiency']:.0%}",
        "-" if share["share"] is None else f"{share['share']:.0%} ({share['source']})",
        "-" if cost is None else f"{cost:.2f} {currency or ''}".strip(),
        layout["verdict"],
    )


def _lines(analysis: Mapping[str, Any]) -> Iterator[str]:
    """Render the analysis as text: the table, then the conclusions."""
    table = [HEADINGS, *rows(analysis)]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEADINGS))]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for one in analysis["layouts"]:
        if one["problem"]:
            yield f"{one['name']}: not measured: {one['problem']}"
        for line in one["comparisons"]:
            yield f"{one['name']}: {_told(line)}"
    yield from _same_gpus(analysis["layouts"])
    if analysis["fastest"]:
        yield (
            f"{analysis['fastest']} gives the most tokens/s, {analysis['cheapest']} the most per GPU: "
            "the cheapest tokens."
        )


def _told(line: Mapping[str, Any]) -> str:
    if line["metric"] == SPEEDUP:
        what = f"speedup from TP {line['from_tensor_parallel']}"
        measured = None if line["measured"] is None else f"{line['measured']:.2f}x"
        expected_words = f"{range_words(line)} times"
    else:
        what = "communication"
        measured = None if line["measured"] is None else f"{line['measured']:.0%} of a step"
        expected_words = f"at most {line['high']:.0%}" if line["low"] is None else range_words(line)
    told = f"{what} {line['verdict']}" if measured is None else f"{what} {measured}, {line['verdict']}"
    return f"{told}; published: {expected_words} ({line['whose']})"


def _same_gpus(layouts: Sequence[Layout]) -> Iterator[str]:
    """Compare tensor with pipeline parallelism on the same number of GPUs."""
    for gpus in sorted({one["gpus"] for one in layouts if _piped(one) and one["tokens_per_s"]}):
        equal = [one for one in layouts if one["gpus"] == gpus and one["tokens_per_s"]]
        best, *rest = sorted(equal, key=lambda one: -one["tokens_per_s"])
        for one in rest:
            times = best["tokens_per_s"] / one["tokens_per_s"]
            yield f"On {gpus} GPUs {best['name']} gives {times:.2f} times the tokens/s of {one['name']}."


def _piped(layout: Mapping[str, Any]) -> bool:
    return bool(layout["pipeline_parallel"] > 1)


def plot(analysis: Mapping[str, Any]) -> str:
    """Plot tokens/s over GPUs as inline SVG, beside proportional scaling from the reference layout."""
    known = [one for one in analysis["layouts"] if one["tokens_per_s"]]
    series = [
        Series(name, sorted((float(one["gpus"]), one["tokens_per_s"]) for one in known if _piped(one) is piped))
        for name, piped in (("tensor parallel", False), ("pipeline parallel", True))
    ]
    base = next((one for one in known if one["name"] == analysis["reference"]), None)
    if base is not None:
        sizes = sorted({one["gpus"] for one in known})
        series.append(Series("in proportion", [(float(size), base["tokens_per_s_per_gpu"] * size) for size in sizes]))
    return line_chart(
        [one for one in series if one.points],
        title=f"Throughput of {analysis['model']} by GPUs",
        x_label="GPUs",
        y_label="output tokens/s",
        log_x=True,
    )
