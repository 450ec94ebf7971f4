# SPDX-License-Identifier: Apache-2.0
"""Parse the results of the engines' benchmark clients into one format. Pure functions; every field is validated."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

RESULT = "result.json"
PERCENTILES = ("50", "95", "99")
LARGEST = 128 << 20
"""Maximum number of result bytes to read. Ten thousand requests with all of their tokens need fewer."""
TIMES = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")
RATES = ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s")

_PHRASES = {status.phrase.lower(): status.value for status in HTTPStatus} | {
    # The phrases nginx uses.
    "service temporarily unavailable": 503,
    "gateway time-out": 504,
    "request entity too large": 413,
}
_KINDS = (
    ("certificate", ("certificate_verify", "sslcert", "sslerror")),
    ("timeout", ("timeouterror", "timed out", "connectiontimeout", "servertimeout")),
    ("disconnected", ("serverdisconnected", "connectionreset", "clientpayload", "transferencoding", "brokenpipe")),
    ("connection refused", ("connectionrefused", "connect call failed", "clientconnector", "cannot connect to host")),
    ("no token", ("never received a valid chunk",)),
)
"""Failure kinds, and the substrings of an exception's text that identify them. The first match wins."""


class OutputError(ValueError):
    """The client's output is not a valid result."""


def parse_result(
    engine: str, text: str, requests: int, targets: Mapping[str, float | None] | None = None
) -> dict[str, Any]:
    """Return the figures of one run. Raises OutputError."""
    document = _document(text)
    errors = [str(one) for one in _list(document, "errors") if one]
    figures = _from_requests(document, targets or {}) if engine == "sglang" else _from_percentiles(document)
    failures: dict[str, int] = {}
    for error in errors:
        failures[kind_of(error)] = failures.get(kind_of(error), 0) + 1
    completed = _whole(document, "completed")
    unaccounted = max(requests - completed - len(errors), 0)
    if unaccounted:
        failures["other"] = failures.get("other", 0) + unaccounted
    if not completed:
        # With no completed request the clients write zeros, which would read as very fast.
        figures |= dict.fromkeys(TIMES)
    return {
        "seconds": round(_number(document, "duration"), 3),
        "requests": requests,
        "completed": completed,
        "failed": len(errors) + unaccounted,
        "failures": dict(sorted(failures.items())),
        **figures,
    }


def no_result(requests: int, seconds: float) -> dict[str, Any]:
    """Return the figures of a run that produced no result."""
    figures: dict[str, Any] = dict.fromkeys([*RATES, *TIMES, "goodput_requests_per_s"])
    counts = {"completed": 0, "failed": 0, "failures": {}}
    return {"seconds": round(seconds, 3), "requests": requests, **counts, **figures}


def kind_of(error: str) -> str:
    """Classify a failure by the client's error text: an HTTP reason phrase or an exception traceback."""
    status = _PHRASES.get(error.partition(":")[0].strip().lower())
    if status:
        return f"HTTP {status}"
    lowered = error.lower()
    return next((kind for kind, signs in _KINDS if any(sign in lowered for sign in signs)), "other")


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile `share` (in percent) of the values, with linear interpolation."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * share / 100
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))


def _document(text: str) -> Mapping[str, Any]:
    try:
        # SGLang's client writes an infinite rate for a closed loop; every number that is used is validated on its own.
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OutputError(f"the client's result is not JSON ({str(error)[:120]})") from error
    if not isinstance(document, Mapping):
        raise OutputError("the client's result is not a JSON object")
    return document


def _from_percentiles(document: Mapping[str, Any]) -> dict[str, Any]:
    """Take the percentiles that vLLM's client has computed."""
    found: dict[str, Any] = {
        name: _number(document, key)
        for name, key in zip(RATES, ("output_throughput", "total_token_throughput", "request_throughput"), strict=True)
    }
    for name, own in zip(TIMES, ("ttft", "tpot", "itl", "e2el"), strict=True):
        shares = {share: _number(document, f"p{share}_{own}_ms") for share in PERCENTILES}
        found[name] = {"mean": _number(document, f"mean_{own}_ms"), **shares}
    goodput = None if document.get("request_goodput") is None else _number(document, "request_goodput")
    return {**found, "goodput_requests_per_s": goodput}


def _from_requests(document: Mapping[str, Any], targets: Mapping[str, float | None]) -> dict[str, Any]:
    """Compute the figures from SGLang's per-request data; its client reports neither all percentiles nor targets."""
    found: dict[str, Any] = {
        name: _number(document, key)
        for name, key in zip(RATES, ("output_throughput", "total_throughput", "request_throughput"), strict=True)
    }
    columns = [_list(document, name) for name in ("ttfts", "itls", "output_lens", "errors")]
    if len({len(column) for column in columns}) != 1:
        raise OutputError("the client's result has lists with different numbers of requests")
    rows: list[dict[str, float]] = []
    gaps: list[float] = []
    for ttft, itls, tokens, error in zip(*columns, strict=True):
        if error:
            continue
        if not isinstance(itls, list) or not all(map(_is_number, [ttft, tokens, *itls])):
            raise OutputError("the client's result has a request without times")
        decode = math.fsum(itls)
        gaps += itls
        rows.append({"ttft_ms": ttft, "e2e_ms": ttft + decode, "tpot_ms": decode / (tokens - 1) if tokens > 1 else 0.0})
    for name in TIMES:
        values = gaps if name == "itl_ms" else [row[name] for row in rows]
        found[name] = _spread([value * 1000 for value in values])
    wanted = {name: value / 1000 for name, value in targets.items() if value is not None}
    good = sum(all(row[name] <= limit for name, limit in wanted.items()) for row in rows)
    seconds = _number(document, "duration")
    return {**found, "goodput_requests_per_s": good / seconds if wanted and seconds else None}


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {"mean": math.fsum(values) / len(values)} | {one: percentile(values, float(one)) for one in PERCENTILES}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _number(document: Mapping[str, Any], key: str) -> float:
    value = document.get(key)
    if not _is_number(value):
        raise OutputError(f"the client's result has {key}: {str(value)[:60]}, expected a number")
    return float(value)  # type: ignore[arg-type]


def _whole(document: Mapping[str, Any], key: str) -> int:
    return int(_number(document, key))


def _list(document: Mapping[str, Any], key: str) -> list[Any]:
    value = document.get(key) or []
    if not isinstance(value, list):
        raise OutputError(f"the client's result has {key}: {str(value)[:60]}, expected a list")
    return value
