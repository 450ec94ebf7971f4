# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from firstlight.commands import flags
from firstlight.errors import UsageError


def run(*words: str) -> int:
    parser = argparse.ArgumentParser(prog="firstlight")
    flags.add_parser(parser.add_subparsers(required=True))
    arguments = parser.parse_args(["flags", *words])
    status: int = arguments.run(arguments)
    return status


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    status = run(*words)
    return status, json.loads(capsys.readouterr().out)


GOOD = ["vllm", "serve", "/model", "--tensor-parallel-size", "4"]
BAD = ["vllm", "serve", "/model", "--scheduler-policy", "continuous", "--max-num-b", "7", "--port", "x"]


@pytest.mark.parametrize("before", [["--json", "vllm==0.32.0"], ["vllm==0.32.0", "--json"]])
def test_json_for_programs(capsys: pytest.CaptureFixture[str], before: list[str]) -> None:
    status, document = run_json(capsys, *before, "--", *GOOD)
    assert status == 0
    assert (document["engine"], document["version"], document["errors"]) == ("vllm", "0.32.0", [])
    assert [finding["flag"] for finding in document["flags"]] == ["--tensor-parallel-size"]


def test_refused(capsys: pytest.CaptureFixture[str]) -> None:
    status, document = run_json(capsys, "vllm==0.32.0", "--json", "--", *BAD)
    assert status == 2
    assert [error["id"] for error in document["errors"]] == [
        "flags.replaced",
        "flags.abbreviation",
        "flags.value",
    ]
    assert all(set(error) == {"id", "found", "rule", "remedy"} for error in document["errors"])
    assert [finding["known"] for finding in document["flags"]] == [False, False, True]


def test_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("vllm==0.32.0", "--", *BAD) == 2
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "--max-num-batched-tokens" in out
    assert "Continuous batching is always on" in out
    assert run("vllm==0.32.0", *GOOD) == 0
    assert "vllm 0.32.0 knows all of these flags." in capsys.readouterr().out


@pytest.mark.parametrize("engine", ["vllm==9.9.9", "vlm", "", "==", "../../x==1", "\x1b[31m==" + "9" * 500])
def test_an_unknown_engine_says_what_there_is(capsys: pytest.CaptureFixture[str], engine: str) -> None:
    status, document = run_json(capsys, "--json", engine, "--", "--x")
    assert status == 2
    (error,) = document["errors"]
    assert error["id"] == "engine.schema"
    assert "vllm==0.32.0" in error["rule"]


@pytest.mark.parametrize("words", [["--api-key hunter2"], ["--api-key", "a", "--hf-token", "b", "hunter2"]])
def test_a_secret_is_not_printed(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert run("vllm==0.32.0", "--", "/model", *words) == 2
    assert run("vllm==0.32.0", "--json", "--", "/model", *words) == 2
    printed = capsys.readouterr()
    assert "hunter2" not in printed.out + printed.err


def test_no_arguments_are_no_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("vllm==0.32.0") == 0
    assert "No flags to check" in capsys.readouterr().out


def test_a_broken_catalog_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines" / "vllm-0.32.0.json").write_text("{")
    with pytest.raises(UsageError, match="generate it again"):
        run("--catalog", str(tmp_path), "vllm==0.32.0", "--", "--port", "1")


@pytest.mark.parametrize("engine", ["trtllm", "trtllm-serve", "tensorrt_llm", "TensorRT-LLM"])
def test_an_engine_has_many_names(capsys: pytest.CaptureFixture[str], engine: str) -> None:
    status, document = run_json(capsys, f"{engine}==1.2.1", "--json", "--", "trtllm-serve", "/model", "--tp_size", "4")
    assert (status, document["engine"]) == (0, "tensorrt-llm")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--scheduler-policy continuous"], "flags.stray"),
        (["NCCL_TIMEOUT=600"], "flags.environment"),
        (["NCCL_TIMEOUT=600", "vllm", "serve", "m"], "flags.environment"),
        (["vllm", "bench", "serve"], "flags.program"),
        (["m", "--port", "99999999"], "flags.value"),
    ],
)
def test_what_is_no_flag_is_refused_too(capsys: pytest.CaptureFixture[str], words: list[str], error: str) -> None:
    status, document = run_json(capsys, "vLLM==0.32.0", "--json", "--", *words)
    assert status == 2
    assert [one["id"] for one in document["errors"]] == [error]


def test_without_standard_output_the_status_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert run("vllm==0.32.0", "--", *BAD) == 2
    assert run("vllm==0.32.0", "--", *GOOD) == 0
