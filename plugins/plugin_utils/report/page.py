# SPDX-License-Identifier: Apache-2.0
"""Render the document of a report as one HTML file without scripts, network access or fonts. Pure functions.

The page contains the document and its digest: `check` proves that both match, and that the page shows what its
document says.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import (
    COULD_NOT_CHECK,
    FAIL,
    NOT_APPLICABLE,
    PASS,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.verdict import (
    figure,
    figure_words,
    metric_words,
    point_words,
    range_words,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.charts import (
    Bar,
    Series,
    line_chart,
    stacked_bars,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.checks import GROUPS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.document import FORMAT, KIND
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.values import at, listed, mapping, number, words
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.verdict import (
    ACCEPTED,
    INCOMPLETE,
    NOT_ACCEPTED,
)
from jinja2 import ChainableUndefined, Environment, FileSystemLoader

TEMPLATES = Path(__file__).with_name("templates")
DATA, DIGEST = "report-data", "report-sha256"
"""Ids of the elements with the document and its digest."""
STATUSES = {
    PASS: ("✓", "pass", "good"),
    FAIL: ("✗", "fail", "bad"),
    COULD_NOT_CHECK: ("?", "not checked", "open"),
    NOT_APPLICABLE: ("-", "not applicable", "none"),
}
"""Symbol, text and CSS class of each status."""
MARKS = {ACCEPTED: ("✓", "good"), NOT_ACCEPTED: ("✗", "bad"), INCOMPLETE: ("?", "open")}
PARETO = "Speed per user against throughput per GPU"
KINDS = {"better": ("▲", "good"), "worse": ("▼", "bad"), "changed": ("●", "none")}
DECISIONS = {"kept": "good", "refused": "none", "illegal": "none", "failed": "bad", "pending": "open"}


class PageError(ValueError):
    """A file is not a report; the message says what it is instead."""


def render(document: Mapping[str, Any]) -> str:
    """Render the page of a report's document."""
    data = embedded(document)
    return _render("report.html.j2", document, data) + "\n"


def render_comparison(before: Mapping[str, Any], after: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> str:
    """Render the page of the differences between two reports."""
    return _environment().get_template("compare.html.j2").render(before=before, after=after, differences=found) + "\n"


def embedded(document: Mapping[str, Any]) -> str:
    """Serialise the document for the page: ASCII JSON without characters that could end a script element."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def digest(data: str) -> str:
    return hashlib.sha256(data.encode()).hexdigest()


# --- a page read back ------------------------------------------------------------------------------------------------
class _Parts(HTMLParser):
    """Collects the text of the elements with our ids."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: dict[str, str] = {}
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = dict(attrs).get("id") or ""
        self._inside = name if name in (DATA, DIGEST) and name not in self.found else ""
        if self._inside:
            self.found[name] = ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found[self._inside] += data


def document_of(text: str) -> dict[str, Any]:
    """Extract a report's document from its page, or from JSON. Raises PageError."""
    data = text
    if text.lstrip()[:1] == "<":
        parts = _Parts()
        parts.feed(text)
        data = parts.found.get(DATA, "")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise PageError(f"it has no report data in it ({error})") from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise PageError("its data is not a report")
    if document.get("format") != FORMAT:
        raise PageError(f"it is a report of format {words(document.get('format'))}, expected {FORMAT}")
    return document


def check(text: str) -> tuple[str, list[str]]:
    """Return the digest of the data in a page, and problems of the page. Raises PageError if it is not a report."""
    parts = _Parts()
    parts.feed(text)
    if DATA not in parts.found:
        raise PageError("it has no report data in it")
    document = document_of(text)
    data = parts.found[DATA]
    problems = []
    if digest(data) != parts.found.get(DIGEST, "").strip():
        problems.append("the SHA-256 of the data is not the one on the page")
    elif f'content="firstlight {made_by()}"' in text and render(document) != text:
        # A page of another release cannot be reproduced here.
        problems.append("the page does not match its data")
    return digest(data), problems


@functools.cache
def made_by() -> str:
    """Return the fingerprint of the rendering code: pages rendered by other code are not compared with ours."""
    files = sorted([*TEMPLATES.glob("*.j2"), *Path(__file__).parent.glob("*.py")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


# --- the page --------------------------------------------------------------------------------------------------------
@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure": _figure, "words": words, "share": _share, "times": _times}
    environment.globals |= {"made_by": made_by, "statuses": STATUSES, "marks": MARKS, "kinds": KINDS}
    return environment


def _render(template: str, document: Mapping[str, Any], data: str) -> str:
    return (
        _environment()
        .get_template(template)
        .render(
            document,
            data=data,
            digest=digest(data),
            groups=_groups(document),
            parts=_parts(document),
            same_on=_same_on(document),
            charts=_charts(document),
            start_chart=_start_chart(document),
            comparisons=[_comparison(one) for one in listed(at(document, "bench", "verdict", "lines"))],
            layout_rows=_layout_rows(document),
            decisions=DECISIONS,
            at=at,
        )
    )


def _groups(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the matrix by group; groups without failures are folded, except the first three."""
    found = []
    for name, title in GROUPS.items():
        rows = [row for row in document["checks"] if row["group"] == name]
        if rows:
            wrong = sum(cell["status"] in (FAIL, COULD_NOT_CHECK) for row in rows for cell in row["cells"].values())
            found.append(
                {"title": title, "rows": rows, "wrong": wrong, "open": bool(wrong) or name in list(GROUPS)[:3]}
            )
    return found


def _parts(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the bill of materials: each part's common value, or the value on each node if they differ."""
    return [
        {**one, "values": values, "common": None if _has_each(one) else next(iter(values.values()), "not known")}
        for one in document["materials"]
        for values in [_told(document, one)]
    ]


def _told(document: Mapping[str, Any], material: Mapping[str, Any]) -> dict[str, Any]:
    return {host: value for host, value in material["values"].items() if host not in document["silent"]}


def _has_each(material: Mapping[str, Any]) -> bool:
    """Return whether a part's value is shown for each node."""
    return bool(material["odd"]) or material["name"] == "serial number" or material["name"].startswith("UUID")


def _same_on(document: Mapping[str, Any]) -> str:
    """Describe the nodes to which common values apply; empty if no node answers."""
    hosts = document["plan"]["hosts"]
    answering = {host for one in document["materials"] for host in _told(document, one)}
    if len(hosts) == 1 and answering:
        return "on all nodes (there is one)"
    if answering.issuperset(hosts):
        return "on all nodes"
    return "on all nodes that answer" if answering else ""


def _comparison(line: Mapping[str, Any]) -> dict[str, Any]:
    compared, measured = line["of"] is not None, line["measured"]
    return {
        "workload": line["workload"],
        "load": point_words(line),
        "metric": metric_words(line["metric"]) if line["metric"] else "",
        "measured": "" if measured is None else figure_words(measured),
        "expected": range_words(line) if compared else "",
        "by": line["source"] or "",
        "verdict": line["verdict"],
        "status": {"pass": PASS, "slow": FAIL}.get(line["verdict"], COULD_NOT_CHECK),
        "note": line["note"],
    }


def _charts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return charts of the benchmark over streams, and of the trade-off between speed per user and per GPU."""
    workloads = [
        (str(one["name"]), [point for point in one["points"] if point["streams"] and point["summary"]])
        for one in listed(at(document, "bench", "workloads"))
    ]
    workloads = [(name, points) for name, points in workloads if points]
    gpus = number(at(document, "bench", "configuration", "gpus")) or 1
    if not workloads:
        return []

    def over_streams(title: str, y_label: str, *metrics: tuple[str, str, float]) -> tuple[str, str]:
        series = [
            Series(
                f"{name}, {said}" if said else name,
                [
                    (point["streams"], value * scale)
                    for point in points
                    if (value := figure(point["summary"], metric)) is not None
                ],
                _band(points, metric, scale),
            )
            for name, points in workloads
            for metric, said, scale in metrics
        ]
        series = [one for one in series if one.points]
        drawn = line_chart(series, title=title, x_label="streams", y_label=y_label, log_x=True) if series else ""
        return title, drawn

    drawn = [
        over_streams("Throughput", "output tokens/s", ("output_tokens_per_s", "", 1)),
        over_streams("Time to the first token", "ms", ("ttft_ms.50", "median", 1), ("ttft_ms.95", "P95", 1)),
        over_streams("Time per output token", "ms", ("tpot_ms.50", "median", 1), ("tpot_ms.95", "P95", 1)),
        over_streams("Goodput", "requests/s within targets", ("goodput_requests_per_s", "", 1)),
        over_streams("Prefix cache", "% of prompt tokens found", ("prefix_hit_rate", "", 100)),
        (PARETO, _pareto(workloads, gpus)),
    ]
    return [(title, one) for title, one in drawn if one]


def _band(points: Sequence[Mapping[str, Any]], metric: str, scale: float) -> list[tuple[float, float, float]]:
    """Return the range of the runs, for figures that have one."""
    name, _, part = metric.partition(".")
    if part not in ("", "50"):
        return []
    ranges = [(point["streams"], listed(at(point, "range", name))) for point in points]
    return [(streams, found[0] * scale, found[1] * scale) for streams, found in ranges if len(found) == 2]


def _pareto(workloads: Iterable[tuple[str, Sequence[Mapping[str, Any]]]], gpus: float) -> str:
    series = []
    for name, points in workloads:
        placed = [
            (speed, total / gpus)
            for point in points
            if (speed := figure(point["summary"], "decode_tokens_per_s")) is not None
            and (total := figure(point["summary"], "output_tokens_per_s")) is not None
        ]
        if placed:
            series.append(Series(name, placed))
    if not series:
        return ""
    return line_chart(series, title=PARETO, x_label="tokens/s of one user", y_label="output tokens/s per GPU")


def _start_chart(document: Mapping[str, Any]) -> str:
    bars = [
        Bar(one["group"], [(str(name), float(value)) for name, value in one["phases"].items()])
        for one in listed(at(document, "startup", "starts"))
    ]
    return stacked_bars(bars, title="Where the time of the last start went", unit="s") if bars else ""


def _layout_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each layout's speed, its speed per GPU, and its efficiency relative to the smallest layout."""
    rows: list[dict[str, Any]] = []
    for one in listed(at(document, "layouts", "layouts")):
        gpus = number(at(one, "gpus"))
        total = figure(mapping(at(one, "summary")), "output_tokens_per_s")
        tp, pp = at(one, "tensor_parallel"), at(one, "pipeline_parallel")
        rows.append(
            {
                "layout": f"TP {words(tp)}" + (f", PP {words(pp)}" if pp not in (None, 1) else ""),
                "gpus": gpus,
                "stages": number(pp) or 1,
                "total": total,
                "each": total / gpus if total is not None and gpus else None,
                "share": number(at(one, "communication", "share")),
                "source": at(one, "communication", "source") or "",
                "problem": at(one, "problem") or "",
            }
        )
    smallest = min((row for row in rows if row["each"]), key=lambda row: (row["gpus"], row["stages"]), default=None)
    return [
        {**row, "efficiency": row["each"] / smallest["each"] if smallest and row["each"] is not None else None}
        for row in rows
    ]


def _figure(value: Any) -> str:
    told = number(value)
    if told is None:
        return "-" if value is None else words(value)
    return f"{told:,.0f}" if abs(told) >= 100 or told == int(told) else f"{told:.3g}"


def _share(value: Any) -> str:
    told = number(value)
    return "-" if told is None else f"{told:.0%}"


def _times(value: Any, *parts: str) -> str:
    return " / ".join(_figure(mapping(value).get(part)) for part in parts)
