# SPDX-License-Identifier: Apache-2.0
"""The result document of a benchmark: the configuration, every run, and the figures of each point.

It is written after every run, so that an interrupted benchmark's document shows what remains to be measured.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.benchmark.output import PERCENTILES, RATES, TIMES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.points import Point, at_words
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import Workload

FORMAT = 1
DIRECTORY = "bench"
_SCALARS = (*RATES, "goodput_requests_per_s", "prefix_hit_rate", "client_load")
_COUNTS = ("seconds", "requests", "completed", "failed")
_SPREAD = {"output_tokens_per_s": None, "ttft_ms": "50", "tpot_ms": "50"}
"""Metrics whose spread between runs is computed, with the percentile used."""

Document = dict[str, Any]


def configuration_of(plans: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return everything that identifies the measured configuration, from the plans of all hosts."""
    cluster = next(iter(plans.values()))["cluster"]
    head = plans[cluster["head"]]
    roles = head["roles"]
    server, weights = roles["inference_server"], roles.get("model_weights") or {}
    launched: Mapping[str, Any] = next((one for one in head["host"]["launch"] if one["name"] != "ray"), {})
    argv = list(launched.get("engine_argv") or launched.get("argv") or ())
    image = (roles.get("inference_image") or {}).get("inference_image_reference") or server["inference_server_image"]
    ranks = server["inference_server_tensor_parallel"] * server["inference_server_pipeline_parallel"]
    return {
        "model": cluster["model"],
        "served_name": server["inference_server_served_name"],
        "revision": weights.get("model_weights_revision"),
        "engine": cluster["engine"],
        "engine_version": cluster["engine_version"],
        "image": image or None,
        "stack": cluster["stack"],
        "driver": (roles.get("nvidia_driver") or {}).get("nvidia_driver_version") or None,
        "profile": cluster["profile"],
        "hardware": cluster["hardware"],
        "hosts": list(cluster["hosts"]),
        "gpus": ranks * server["inference_server_replicas"],
        "tensor_parallel": server["inference_server_tensor_parallel"],
        "replicas": server["inference_server_replicas"],
        "max_model_len": cluster["context"],
        "kv_cache_dtype": cluster["kv_cache_dtype"],
        "argv": argv,
        "plan_sha256": hashlib.sha256(
            json.dumps({name: plan["desired"] for name, plan in plans.items()}, sort_keys=True).encode()
        ).hexdigest(),
    }


def new_document(
    cluster: str,
    run: str,
    started: str,
    configuration: Mapping[str, Any],
    client: Mapping[str, Any],
    workloads: Iterable[Workload],
) -> Document:
    """Create a document without figures."""
    return {
        "format": FORMAT,
        "cluster": cluster,
        "run": run,
        "started": started,
        "finished": None,
        "configuration": dict(configuration),
        "client": dict(client),
        "workloads": [{**workload.shown(), "points": _points(workload)} for workload in workloads],
    }


def _points(workload: Workload) -> list[Document]:
    loads: list[tuple[int | None, float | None]] = [(streams, None) for streams in workload.streams]
    loads += [(None, rate) for rate in workload.rates]
    return [{"streams": streams, "rate": rate, "runs": [], "summary": None} for streams, rate in loads]


def same_benchmark(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two documents measure the same server in the same way, so that one can resume the other."""
    keys = ("format", "cluster", "configuration", "client")
    return all(one.get(key) == other.get(key) for key in keys) and _asked(one) == _asked(other)


def _asked(document: Mapping[str, Any]) -> Any:
    return [
        {**workload, "points": [(point["streams"], point["rate"]) for point in workload["points"]]}
        for workload in document["workloads"]
    ]


def without_problems(document: Document) -> Document:
    """Remove runs that do not count from a resumed document, so that they are repeated."""
    for workload in document["workloads"]:
        for point in workload["points"]:
            point["runs"] = [run for run in point["runs"] if run["problem"] is None]
    return document


def seeds_of(document: Mapping[str, Any]) -> set[int]:
    """Return the seeds of all runs."""
    return {run["seed"] for workload in document["workloads"] for point in workload["points"] for run in point["runs"]}


def add_run(document: Document, point: Point, run: Mapping[str, Any]) -> Document:
    """Add a run to the document, and recompute the summary of its point."""
    for workload in document["workloads"]:
        for found in workload["points"]:
            if (workload["name"], found["streams"], found["rate"]) == point.key:
                found["runs"].append(dict(run))
                found["summary"] = summary_of(found["runs"])
    return document


def summary_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the median of every figure over the runs that count, and their spread; None if no run counts."""
    counting = [run for run in runs if run["problem"] is None]
    if not counting:
        return None
    found: dict[str, Any] = {name: _median(run.get(name) for run in counting) for name in (*_COUNTS, *_SCALARS)}
    for name in TIMES:
        parts = [run.get(name) or {} for run in counting]
        times = {part: _median(one.get(part) for one in parts) for part in ("mean", *PERCENTILES)}
        found[name] = times if any(value is not None for value in times.values()) else None
    spread = {
        name: _spread([(run.get(name) or {}).get(part) if part else run.get(name) for run in counting])
        for name, part in _SPREAD.items()
    }
    return {**found, "runs": len(counting), "spread": spread}


def _median(values: Iterable[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return statistics.median(known) if known else None


def _spread(values: Sequence[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    middle = statistics.median(known) if known else 0.0
    return round((max(known) - min(known)) / middle, 4) if middle > 0 else None


def is_complete(document: Mapping[str, Any]) -> bool:
    """Return whether every point has figures."""
    return all(point["summary"] for workload in document["workloads"] for point in workload["points"])


def problems_of(document: Mapping[str, Any]) -> list[str]:
    """Return the runs that do not count, with the reason."""
    return [
        f"{workload['name']} at {at_words(point['streams'], point['rate'])}: {run['problem']}"
        for workload in document["workloads"]
        for point in workload["points"]
        for run in point["runs"]
        if run["problem"] is not None
    ]


HEADINGS = ("workload", "at", "tok/s", "±", "req/s", "TTFT p50/p95/p99 ms", "TPOT p50/p95 ms", "goodput/s", "hits")


def rows_of(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the figures as table rows below HEADINGS."""
    return [
        (workload["name"], at_words(point["streams"], point["rate"]), *_cells(point["summary"]))
        for workload in document["workloads"]
        for point in workload["points"]
    ]


def _cells(summary: Mapping[str, Any] | None) -> tuple[str, ...]:
    if summary is None:
        return ("not measured", *[""] * (len(HEADINGS) - 3))
    return (
        _said(summary["output_tokens_per_s"]),
        _share(summary["spread"]["output_tokens_per_s"]),
        _said(summary["requests_per_s"]),
        _times(summary["ttft_ms"], PERCENTILES),
        _times(summary["tpot_ms"], PERCENTILES[:2]),
        _said(summary["goodput_requests_per_s"]),
        _share(summary["prefix_hit_rate"]),
    )


def _times(times: Mapping[str, Any] | None, parts: Sequence[str]) -> str:
    return " / ".join(_said((times or {}).get(part)) for part in parts)


def _said(value: float | None) -> str:
    """Format a measurement with three significant digits."""
    if value is None:
        return "-"
    digits = 0 if value >= 100 or value == 0 else max(0, 2 - math.floor(math.log10(value)))
    return f"{value:,.{min(digits, 3)}f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def table_lines(document: Mapping[str, Any]) -> list[str]:
    """Render the figures as a table for a terminal or a log."""
    rows = [HEADINGS, *rows_of(document)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def unfinished(directory: Path) -> list[Document]:
    """Return the documents of unfinished benchmarks, newest first; unreadable files are skipped."""
    found = []
    for path in sorted(directory.glob("*.json"), reverse=True):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(document, dict) and document.get("format") == FORMAT and document.get("finished") is None:
            found.append(document)
    return found
