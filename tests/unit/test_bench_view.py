# SPDX-License-Identifier: Apache-2.0
"""What a person reads of a benchmark."""

from __future__ import annotations

import re
from typing import Any

import pytest

from firstlight.bench_view import show

NOTHING: dict[str, Any] = {"metric": None, "measured": None, "low": None, "high": None, "of": None, "source": None}
LINES: list[dict[str, Any]] = [
    {
        "workload": "chat",
        "streams": 16,
        "rate": None,
        "metric": "output_tokens_per_s",
        "measured": 412.4,
        "low": 800.0,
        "high": 1500.0,
        "of": "envelope",
        "source": "4x H100 reference stack",
        "verdict": "slow",
        "note": "48% below its range",
    },
    {
        "workload": "chat",
        "streams": None,
        "rate": 200.0,
        "metric": "ttft_ms.95",
        "measured": 640.0,
        "low": None,
        "high": 800.0,
        "of": "plan",
        "source": "the plan's estimate",
        "verdict": "pass",
        "note": "",
    },
    {"workload": "batch", "streams": 64, "rate": None, **NOTHING, "verdict": "not measured", "note": "\x1b[31mwarm"},
]
VERDICT = {"verdict": "slow", "lines": LINES, "look_at": ["spark1: enp1s0f1np1 at 100 of 200 Gb/s", "not known: x"]}
DOCUMENT = {
    "run": "20261118T083000Z-1f3a",
    "configuration": {"model": "qwen3-235b-a22b-fp8", "hardware": "h100-sxm-4-nvswitch"},
    "client": {"host": "spark1", "through": "endpoint", "on_head": False},
}


def test_every_comparison_is_a_row_and_the_reasons_follow(capsys: pytest.CaptureFixture[str]) -> None:
    show(DOCUMENT, VERDICT)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "SLOW  qwen3-235b-a22b-fp8  h100-sxm-4-nvswitch  20261118T083000Z-1f3a"
    assert lines[1].split() == ["workload", "load", "metric", "measured", "expected", "by", "verdict"]
    assert "  412  " in lines[2]
    assert "  800 to 1500  4x H100 reference stack  slow" in lines[2]
    assert lines[3].startswith(
        "chat      200 requests/s  first token, ms, p95  640       at most 800  the plan's estimate"
    )
    assert lines[4].split() == ["batch", "64", "streams", "-", "-", "-", "-", "not", "measured"]
    assert "chat, 16 streams   48% below its range" in lines
    assert "batch, 64 streams  \\x1b[31mwarm" in lines
    assert lines[-3:] == ["Look at first", "1. spark1: enp1s0f1np1 at 100 of 200 Gb/s", "2. not known: x"]


def test_a_narrow_terminal_has_one_comparison_after_the_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show({}, {**VERDICT, "look_at": []})
    shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert "chat, 16 streams: slow, metric tokens/s, measured 412" in " ".join(shown.split())
    assert all(len(line) <= 60 for line in shown.splitlines())
