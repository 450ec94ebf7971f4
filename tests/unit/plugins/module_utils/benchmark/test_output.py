# SPDX-License-Identifier: Apache-2.0
"""What the clients leave behind: figures of real runs, failures by kind, and output that nobody should believe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.benchmark.output import (
    PERCENTILES,
    TIMES,
    OutputError,
    kind_of,
    parse_result,
    percentile,
)
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[5]
RECORDED = json.loads((ROOT / "tests/fixtures/performance/h200-vllm-0.26.0.json").read_text())
POINTS = [
    (name, point) for name, model in RECORDED["models"].items() for point in model["points"] if point.get("itl_ms")
]
REFUSED = (
    "Traceback (most recent call last):\n  ...\naiohttp.client_exceptions.ClientConnectorError: Cannot connect to host "
    "127.0.0.1:290 ssl:default [Connect call failed ('127.0.0.1', 290)]\n"
)
CUT = "Traceback (most recent call last):\n  ...\naiohttp.client_exceptions.ServerDisconnectedError: disconnected\n"


def vllm(point: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A result as vLLM's client (0.26 to 0.32) writes it with --save-detailed, with the figures of a recorded point."""
    seconds = point["completed"] * point["output"] / point["output_tokens_per_s"]
    found: dict[str, Any] = {
        "date": "20261118-083000",
        "backend": "openai",
        "num_prompts": point["completed"],
        "request_rate": "inf",
        "max_concurrency": point["concurrency"],
        "duration": seconds,
        "completed": point["completed"],
        "failed": 0,
        "request_throughput": point["completed"] / seconds,
        "request_goodput": None,
        "output_throughput": point["output_tokens_per_s"],
        "total_token_throughput": point["output_tokens_per_s"] * (1 + point["input"] / point["output"]),
        "errors": [""] * point["completed"],
    }
    for own in ("ttft", "tpot", "itl", "e2el"):
        times = point.get(f"{own}_ms") or point["ttft_ms"]
        found |= {f"mean_{own}_ms": times["50"], f"median_{own}_ms": times["50"], f"std_{own}_ms": 0.1}
        found |= {f"p{share}_{own}_ms": times[share] for share in PERCENTILES}
    return {**found, **more}


@pytest.mark.parametrize(("model", "point"), POINTS[:6], ids=lambda one: one if isinstance(one, str) else "")
def test_the_figures_of_a_recorded_run(model: str, point: dict[str, Any]) -> None:
    del model
    run = parse_result("vllm", json.dumps(vllm(point)), point["completed"])
    assert run["output_tokens_per_s"] == point["output_tokens_per_s"]
    assert {share: run["ttft_ms"][share] for share in PERCENTILES} == point["ttft_ms"]
    assert {share: run["itl_ms"][share] for share in PERCENTILES} == point["itl_ms"]
    assert (run["completed"], run["failed"], run["failures"]) == (point["completed"], 0, {})
    assert run["goodput_requests_per_s"] is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("Bad Gateway", "HTTP 502"),
        ("Too Many Requests", "HTTP 429"),
        ('Internal Server Error: {"error": "x"}', "HTTP 500"),
        ("Gateway Time-out", "HTTP 504"),
        ("Unauthorized", "HTTP 401"),
        (REFUSED, "connection refused"),
        (CUT, "disconnected"),
        ("Traceback ...\nasyncio.exceptions.TimeoutError", "timeout"),
        ("ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "certificate"),
        ("Never received a valid chunk to calculate TTFT.This response will be marked as failed!", "no token"),
        ("something else", "other"),
    ],
)
def test_failures_have_a_kind(error: str, kind: str) -> None:
    assert kind_of(error) == kind


def test_failures_are_counted_by_kind() -> None:
    errors = [""] * 5 + ["Bad Gateway"] * 3 + [REFUSED] * 2
    run = parse_result("vllm", json.dumps(vllm(POINTS[0][1], completed=5, failed=5, errors=errors)), 12)
    assert run["failures"] == {"HTTP 502": 3, "connection refused": 2, "other": 2}
    assert run["failed"] == 7


def test_zeros_of_a_run_without_an_answer_are_no_times() -> None:
    run = parse_result("vllm", json.dumps(vllm(POINTS[0][1], completed=0, failed=10, errors=[REFUSED] * 10)), 10)
    assert [run[name] for name in TIMES] == [None] * 4


SGLANG: dict[str, Any] = {
    "backend": "sglang-oai",
    "duration": 4.0,
    "completed": 3,
    "request_throughput": 0.75,
    "output_throughput": 3.0,
    "total_throughput": 9.0,
    "ttfts": [0.1, 0.2, 0.3, 0.0],
    "itls": [[0.01, 0.03], [0.02, 0.02, 0.02], [0.05], []],
    "output_lens": [3, 4, 2, 0],
    "errors": ["", "", "", "Bad Gateway: nginx"],
}


def test_percentiles_and_goodput_of_sglang_come_from_its_requests() -> None:
    run = parse_result("sglang", json.dumps(SGLANG) + "\n", 4, {"ttft_ms": 250, "tpot_ms": 30, "e2e_ms": None})
    assert run["ttft_ms"]["50"] == pytest.approx(200)
    assert run["tpot_ms"]["mean"] == pytest.approx((20 + 20 + 50) / 3)
    assert run["e2e_ms"]["50"] == pytest.approx(260)
    assert run["itl_ms"]["99"] == pytest.approx(percentile([10, 30, 20, 20, 20, 50], 99))
    assert run["goodput_requests_per_s"] == pytest.approx(2 / 4)
    assert run["failures"] == {"HTTP 502": 1}


def test_a_result_that_sglang_wrote_on_an_h200() -> None:
    """Three of its requests. Of a closed loop the rate is infinite, which is no JSON, and which nobody asks for."""
    text = (ROOT / "tests/fixtures/performance/sglang-0.5.16-result.json").read_text(encoding="utf-8")
    assert '"request_rate": Infinity' in text
    run = parse_result("sglang", text, 3, {"ttft_ms": 800, "tpot_ms": 50})
    assert (run["completed"], run["failed"]) == (3, 0)
    own = json.loads(text)
    assert run["tpot_ms"]["50"] == pytest.approx(own["median_tpot_ms"], rel=0.01)
    assert run["ttft_ms"]["50"] == pytest.approx(own["median_ttft_ms"], rel=0.2)
    assert run["goodput_requests_per_s"] == pytest.approx(3 / own["duration"])


@pytest.mark.hostile
@pytest.mark.parametrize(
    "text",
    [
        "",
        "not JSON",
        "[" * 100_000,
        "[]",
        "{}",
        '{"duration": NaN}',
        json.dumps(vllm(POINTS[0][1])).replace('"duration": ', '"duration": 1e999, "x": '),
        json.dumps(vllm(POINTS[0][1], duration="long")),
        json.dumps(vllm(POINTS[0][1], completed=None)),
        json.dumps(vllm(POINTS[0][1], errors={"a": 1})),
        json.dumps(vllm(POINTS[0][1], output_throughput=-1)),
        json.dumps(vllm(POINTS[0][1], p95_ttft_ms=True)),
        json.dumps({key: value for key, value in vllm(POINTS[0][1]).items() if key != "p99_itl_ms"}),
    ],
)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_what_is_no_result_is_none(engine: str, text: str) -> None:
    with pytest.raises(OutputError):
        parse_result(engine, text, 10)


@pytest.mark.hostile
@pytest.mark.parametrize(
    "change", [{"ttfts": [1]}, {"itls": [1, 2, 3, 4]}, {"output_lens": ["x"] * 4}, {"itls": "abcd"}]
)
def test_requests_of_sglang_that_do_not_fit_together(change: dict[str, Any]) -> None:
    with pytest.raises(OutputError):
        parse_result("sglang", json.dumps({**SGLANG, **change}), 4)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0, 100))
def test_a_percentile_lies_among_its_values(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert (
        min(values) <= found <= max(values)
        or found == pytest.approx(min(values))
        or found == pytest.approx(max(values))
    )
    assert percentile(values, 0) == min(values)
    assert percentile(values, 100) == max(values)
