# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstlight.commands import estimate as command

ROOT = Path(__file__).parents[3]
RECORD = json.loads((ROOT / "tests/fixtures/performance/h200-vllm-0.26.0.json").read_text(encoding="utf-8"))["models"]
LLAMA = ["llama-3.3-70b-fp8-dynamic", "--hardware", "h200-sxm-1", "--gpus", "1", "--tp", "1"]
SPARKS = ["qwen3.5-397b-a17b-fp8", "--hardware", "gb10", "--gpus", "4", "--tp", "4"]


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["estimate", *words])
    return command.run(arguments)


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    status = call(*words, "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert {"output_tokens_per_s", "ttft_ms", "tpot_ms", "bound_by", "notes", "errors"} <= found.keys()
    assert status == (2 if found["errors"] else 0)
    assert (found["output_tokens_per_s"] is None) == bool(found["errors"])
    return found


def test_a_recorded_server_by_the_path_of_its_config(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(RECORD["llama-8b"]["config"]), encoding="utf-8")
    for point in RECORD["llama-8b"]["points"]:
        asked = {"--input": point["input"], "--output": point["output"], "--concurrency": point["concurrency"]}
        words = [str(word) for pair in asked.items() for word in pair]
        found = document(
            capsys, str(tmp_path), "--hardware", "h200-sxm-1", "--gpus", "1", "--tensor-parallel", "1", *words
        )
        assert found["output_tokens_per_s"] == pytest.approx(point["output_tokens_per_s"], rel=0.15)
        assert found["tpot_ms"] == pytest.approx(point["tpot_ms"]["50"], rel=0.15)
        low, high = found["range"]
        assert low < point["output_tokens_per_s"] < high
        assert found["bound_by"] in command.BOUNDS


def test_more_clients_than_the_cache_holds(capsys: pytest.CaptureFixture[str]) -> None:
    few, many = (document(capsys, *LLAMA, "--input", "8k", "--concurrency", str(size)) for size in (16, 400))
    assert (few["waiting"], many["bound_by"]) == (0, "cache")
    assert many["running"] + many["waiting"] == 400
    assert many["ttft_ms"] > 10 * few["ttft_ms"]
    limited = document(capsys, *LLAMA, "--concurrency", "64", "--max-num-seqs", "8")
    assert (limited["bound_by"], limited["running"]) == ("max_num_seqs", 8)


def test_replicas_share_the_clients(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["qwen3-235b-a22b-fp8", "--hardware", "h100-sxm-8", "--tp", "4"]
    one = document(capsys, *words, "--gpus", "4", "--concurrency", "16")
    two = document(capsys, *words, "--gpus", "8", "--concurrency", "32")
    assert two["replicas"] == 2
    assert two["output_tokens_per_s"] == pytest.approx(2 * one["output_tokens_per_s"], rel=0.001)
    alone = document(capsys, *words, "--gpus", "8", "--concurrency", "1")
    assert alone["output_tokens_per_s"] == document(capsys, *words, "--gpus", "4")["output_tokens_per_s"]


def test_drafted_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    plain = document(capsys, *SPARKS)
    usual, none = (document(capsys, *SPARKS, "--speculative", "2", *more) for more in ([], ["--acceptance", "0"]))
    assert usual["tokens_per_step"] == pytest.approx(2.44)
    assert usual["output_tokens_per_s"] > 1.1 * plain["output_tokens_per_s"] > none["output_tokens_per_s"]


def test_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, *LLAMA, "--rate", "0.5", "--concurrency", "64")
    assert found["requests_per_s"] == pytest.approx(0.5, rel=0.15)
    open_end = document(capsys, *LLAMA, "--rate", "0.5")
    assert open_end["concurrency"] > 64, "as many as the server takes, not one at a time"
    assert open_end["ttft_ms"] == pytest.approx(found["ttft_ms"], rel=0.1)


def test_replicas_share_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["llama-3.3-70b-fp8-dynamic", "--hardware", "h200-sxm-8", "--gpus", "8", "--tp", "1", "--rate", "1"]
    found = {size: document(capsys, *words, "--concurrency", str(size)) for size in (4, 9, 16)}
    assert all(one["replicas"] == 8 for one in found.values())
    for size in (9, 16):
        assert found[size]["requests_per_s"] == pytest.approx(1, rel=0.15)
        assert found[size]["running"] + found[size]["waiting"] <= size
    assert found[4]["running"] == 4


def test_no_more_requests_run_than_there_are_clients(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["llama-3.3-70b-fp8-dynamic", "--hardware", "h200-sxm-8", "--gpus", "8", "--tp", "1", "--concurrency", "9"]
    found = document(capsys, *words)
    assert (found["running"], found["waiting"]) == (9, 0)
    limited = document(capsys, *words, "--max-num-seqs", "1")
    assert (limited["running"], limited["waiting"]) == (8, 1)


@pytest.mark.parametrize(
    ("words", "identifier"),
    [
        ([*LLAMA, "--input", "0"], "estimate.arguments"),
        ([*LLAMA, "--output", "-5"], "estimate.arguments"),
        ([*LLAMA, "--concurrency", "99999999"], "estimate.arguments"),
        ([*LLAMA, "--rate", "nan"], "estimate.arguments"),
        ([*LLAMA, "--rate", "-1"], "estimate.arguments"),
        ([*SPARKS, "--speculative", "1", "--acceptance", "1.5"], "estimate.arguments"),
        ([*SPARKS, "--speculative", "99"], "speculative.mtp"),
        ([*LLAMA, "--speculative", "2"], "speculative.mtp"),
        ([*LLAMA, "--max-model-len", "1000"], "estimate.length"),
        ([*LLAMA, "--input", "200000"], "fit.beyond-model"),
        ([*LLAMA, "--gpu-memory-utilization", "2"], "fit.arguments"),
        (["llama-3.3-70b", "--hardware", "h200-sxm-1", "--gpus", "1", "--tp", "3"], "tp.heads"),
        (["llama-3.3-70b", "--hardware", "h200-sxm-1", "--gpus", "1", "--tp", "1"], "fit.too-big"),
        (["nothing", "--hardware", "h200", "--gpus", "1"], "fit.hardware"),
    ],
)
def test_nonsense_is_refused(capsys: pytest.CaptureFixture[str], words: list[str], identifier: str) -> None:
    found = document(capsys, *words)
    assert identifier in {one["id"] for one in found["errors"]}


def test_hardware_without_its_bandwidth_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    entry = yaml.safe_load((ROOT / "catalog/hardware/h200-sxm-1.yml").read_text(encoding="utf-8"))
    entry.pop("memory_bandwidth_gb_s")
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware/unknown.yml").write_text(yaml.safe_dump(entry | {"name": "unknown"}), encoding="utf-8")
    words = [LLAMA[0], "--hardware", "unknown", "--gpus", "1", "--catalog", str(tmp_path)]
    (error,) = document(capsys, *words)["errors"]
    assert (error["id"], error["found"]) == ("estimate.hardware", "hardware unknown lacks memory_bandwidth_gb_s")


def test_what_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*LLAMA, "--concurrency", "16") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "llama-3.3-70b-fp8-dynamic on 1 GPU of h200-sxm-1, tensor parallel 1"
    assert any(line.startswith("output:") and "probably" in line for line in lines)
    assert any(line.startswith("bound by:") and "memory bandwidth" in line for line in lines)
    assert call(*LLAMA, "--concurrency", "0") == 2
    assert "[estimate.arguments]" in capsys.readouterr().out
