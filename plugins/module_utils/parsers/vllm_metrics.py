# SPDX-License-Identifier: Apache-2.0
"""Parses vLLM's page of metrics, in the text format of Prometheus, of any version since 0.4."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .captures import capture_lines

_SAMPLE = re.compile(
    r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>[+-]?(?:Inf|NaN|\d[\d.]*(?:[eE][+-]?\d+)?))(?:\s+\d+)?"
    r"\s*(?:#.*)?$"
)
_TYPE = re.compile(r"^# TYPE\s+(?P<name>[\w:]+)\s+\w+\s*$")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_OWN = re.compile(r"^(?:ray_)?vllm[:_](?P<name>.+)$")
"""Under Ray's own exporter the names begin with ray_ and have no colon."""
_TROUBLE = re.compile(r"curl: \(\d+\)|connection refused|failed to connect|could not resolve", re.IGNORECASE)

_SUMS = {
    "num_requests_running": "running",
    "num_requests_waiting": "waiting",
    "num_requests_swapped": "swapped",
    "num_preemptions_total": "preemptions",
    "num_preemptions": "preemptions",
    "prompt_tokens_total": "prompt_tokens",
    "generation_tokens_total": "generation_tokens",
    "corrupted_requests_total": "corrupted",
}
"""Summed over the engines of a server; the names of all versions."""
_HIGHEST = {"gpu_cache_usage_perc": "kv_cache_usage", "kv_cache_usage_perc": "kv_cache_usage"}
_TIMES = {
    "time_to_first_token_seconds": "time_to_first_token",
    "time_per_output_token_seconds": "time_per_output_token",
    "inter_token_latency_seconds": "time_per_output_token",
    "request_time_per_output_token_seconds": "time_per_output_token",
    "e2e_request_latency_seconds": "request",
    "request_queue_time_seconds": "queue",
}

Sample = tuple[str, dict[str, str], float]


def parse_vllm_metrics(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse into (data, problems). `data` has only what the page shows:

    models [names], engines (count), series (count of vLLM's samples)
    running, waiting, swapped, preemptions, prompt_tokens, generation_tokens, corrupted: sums over the engines
    kv_cache_usage: 0 to 1, of the fullest engine       finished: {reason: requests}
    times: {name: {"count", "sum", "mean"}} in seconds     cache: {label: value} as the server was configured
    trouble: lines that say that no server answered
    """
    problems: list[str] = []
    samples, announced = read_samples(text, problems)
    own = [(found["name"], labels, value) for name, labels, value in samples if (found := _OWN.match(name))]
    if not own:
        trouble = [line.strip() for line in capture_lines(text) if _TROUBLE.search(line)]
        if trouble:
            return {"trouble": trouble}, problems
        first = next((line for line in capture_lines(text) if line.strip()), "")
        told = f"; {len(samples)} samples of other programs" if samples else ""
        return {}, [*problems, f"no vLLM metric in {first.strip()[:160]!r}{told}" if first else "the text is empty"]
    data = _data(own, problems)
    seen = {name for name, _, _ in samples}
    last = announced[-1] if announced else ""
    if _OWN.match(last) and not any(one == last or one.startswith(f"{last}_") for one in seen):
        problems.append(f"the page is cut off after {last!r}, which it announces")
    return data, problems


def read_samples(text: str, problems: list[str]) -> tuple[list[Sample], list[str]]:
    """Parse the samples of a page, and the metrics it announces."""
    samples: list[Sample] = []
    announced: list[str] = []
    lines = capture_lines(text)
    if lines and lines[-1].strip() and _SAMPLE.match(lines[-1]):
        # The format ends every line: a value without a line end may be truncated.
        problems.append(f"the last line may be cut off: {lines.pop()[:160]!r}")
    for line in lines:
        announcement = _TYPE.match(line)
        if announcement:
            announced.append(announcement["name"])
            continue
        if not line.strip() or line.startswith("#"):
            continue
        found = _SAMPLE.match(line)
        if found:
            labels = dict(_LABEL.findall(found["labels"] or ""))
            samples.append((found["name"], labels, float(found["value"])))
        elif _OWN.match(line.strip()):
            problems.append(f"not understood: {line.strip()[:160]!r}")
    return samples, announced


def _data(own: list[Sample], problems: list[str]) -> dict[str, Any]:
    servers = {_server(labels) for name, labels, _ in own if name in _SUMS or name in _HIGHEST}
    data: dict[str, Any] = {
        "models": sorted({labels["model_name"] for _, labels, _ in own if labels.get("model_name")}),
        "engines": len(servers),
        "series": len(own),
    }
    for names, combine in ((_SUMS, sum), (_HIGHEST, max)):
        for name, key in names.items():
            told = {_server(labels): value for one, labels, value in own if one == name}
            if told and len(told) < len(servers):
                problems.append(f"vllm:{name} is reported for {len(told)} of {len(servers)} engines")
            elif told and not all(map(math.isfinite, [*told.values(), combine(told.values())])):
                problems.append(f"vllm:{name} is not a number")
            elif told:
                data[key] = _plain(combine(told.values()))
    finished: dict[str, float] = {}
    for name, labels, value in own:
        if name in ("request_success_total", "request_success") and math.isfinite(value):
            reason = labels.get("finished_reason", "unknown")
            finished[reason] = finished.get(reason, 0) + value
    if finished:
        data["finished"] = {reason: _plain(count) for reason, count in finished.items()}
    times = {key: spent for name, key in _TIMES.items() if (spent := _histogram(own, name))}
    if times:
        data["times"] = times
    cache = next((labels for name, labels, _ in own if name == "cache_config_info"), None)
    if cache:
        data["cache"] = dict(cache)
    return data


def _server(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("model_name", ""), labels.get("engine", "")


def _histogram(own: Iterable[Sample], name: str) -> dict[str, Any] | None:
    totals = {
        part: sum(value for one, _, value in own if one == f"{name}_{part}" and math.isfinite(value))
        for part in ("count", "sum")
    }
    if not any(one == f"{name}_count" for one, _, _ in own):
        return None
    mean = round(totals["sum"] / totals["count"], 6) if totals["count"] else None
    return {"count": _plain(totals["count"]), "sum": round(totals["sum"], 6), "mean": mean}


def _plain(value: float) -> int | float:
    return int(value) if value % 1 == 0 else value
