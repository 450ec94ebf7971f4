# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from firstlight.commands import cost as command
from firstlight.commands import estimate
from firstlight.commands.fit import load_catalog
from firstlight.errors import UsageError

LLAMA = ["llama-3.3-70b-fp8-dynamic", "--hardware", "h100-sxm-4-nvswitch", "--gpus", "4"]


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return command.run(parser.parse_args(["cost", *words]))


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    status = call(*words, "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert status == (2 if found["errors"] else 0)
    assert ("own" in found) == (not found["errors"])
    return found


def test_the_speed_is_that_of_the_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, *LLAMA, "--input", "2k")
    parser = argparse.ArgumentParser()
    estimate.add_parser(parser.add_subparsers())
    asked = parser.parse_args(["estimate", *LLAMA, "--input", "2k", "--concurrency", "32"])
    known = estimate.compute(load_catalog(asked), asked)
    assert found["tokens_per_s"] == known["output_tokens_per_s"]
    assert all(one["source"] for one in found["assumed"])


def test_the_speed_of_a_benchmark(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    configuration = {"model": LLAMA[0], "hardware": LLAMA[2], "gpus": 4}
    point = {"streams": 16, "rate": None, "summary": {"output_tokens_per_s": 777.0}}
    result = {
        "format": 1,
        "run": "r",
        "configuration": configuration,
        "workloads": [{"name": "chat", "points": [point]}],
    }
    file.write_text(json.dumps(result), encoding="utf-8")
    assert document(capsys, *LLAMA, "--bench", str(file))["tokens_per_s"] == 777
    assert document(capsys, *LLAMA, "--bench", str(file), "--concurrency", "16")["tokens_per_s"] == 777
    others = ["qwen3-235b-a22b-fp8", *LLAMA[1:], "--bench", str(file)]
    assert [one["id"] for one in document(capsys, *others)["errors"]] == ["cost.bench"]
    with pytest.raises(UsageError, match="cannot be read"):
        call(*LLAMA, "--bench", str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("words", "identifier"),
    [
        ([*LLAMA, "--price", "0"], "cost.arguments"),
        ([*LLAMA, "--price", "nan"], "cost.arguments"),
        ([*LLAMA, "--utilisation", "1.5"], "cost.arguments"),
        ([*LLAMA, "--months", "-3"], "cost.arguments"),
        ([*LLAMA, "--currency", "EUR"], "cost.missing"),
        ([*LLAMA, "--input", "0"], "estimate.arguments"),
        ([*LLAMA, "--gpus", "0"], "tp.size"),
        (["llama-3.3-70b", "--hardware", "h200-sxm-1", "--gpus", "1"], "fit.too-big"),
        (["nothing", "--hardware", "h200", "--gpus", "1"], "fit.hardware"),
    ],
)
def test_nonsense_is_refused(capsys: pytest.CaptureFixture[str], words: list[str], identifier: str) -> None:
    assert identifier in {one["id"] for one in document(capsys, *words)["errors"]}


def test_what_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*LLAMA, "--price", "250000", "--api-price-per-million", "0.5") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "llama-3.3-70b-fp8-dynamic on 4 GPUs of h100-sxm-4-nvswitch"
    assert any(line.startswith("price per month:") and "250,000 / 36 = 6,944 USD" in line for line in lines)
    assert any(line.startswith("price, USD:") and line.endswith("250,000, --price") for line in lines)
    assert call(*LLAMA, "--utilisation", "0") == 2
    assert "[cost.arguments]" in capsys.readouterr().out


def test_a_sites_own_prices(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    entry = "{name: ours, what: gpu_hour, currency: USD, low: 1.5, high: 1.5, source: contract, date: 2026-11-01}"
    (tmp_path / "prices.yml").write_text(f"- {entry}\n", encoding="utf-8")
    words = [*LLAMA[:1], "--hardware", "h200-sxm-1", "--gpus", "1", "--price", "40000", "--catalog", str(tmp_path)]
    assert document(capsys, *words)["rent"]["per_month"] == pytest.approx(1.5 * 730 * 0.67)
    (tmp_path / "prices.yml").write_text("- {name: ours}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="lacks what"):
        call(*words)
