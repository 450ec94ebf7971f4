# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from firstlight.commands import fit as command
from firstlight.errors import UsageError
from firstlight.memory_view import memory_bar

ROOT = Path(__file__).parents[3]
KEYS = {"fits", "weights_bytes_per_gpu", "kv_bytes_per_token_per_gpu", "kv_tokens", "max_concurrency", "legal_tp"}
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["fit", *words])
    status = command.run(arguments)
    assert arguments.run is command.run
    return status


def document(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    status = call(*words, "--json")
    found = json.loads(capsys.readouterr().out)
    assert KEYS | {"errors", "memory", "notes"} <= found.keys()
    assert status == (0 if found["fits"] else 2)
    assert found["fits"] != bool(found["errors"])
    return status, found


def test_a_model_that_fits(capsys: pytest.CaptureFixture[str]) -> None:
    status, found = document(
        capsys, "qwen3-235b-a22b-fp8", "--hardware", "h100-sxm-8", "--gpus", "4", "--max-model-len", "32768"
    )
    assert status == 0
    assert found["tensor_parallel"] == 4
    assert found["legal_tp"] == [1, 2, 4]
    assert found["kv_tokens"] > 32768


def test_the_largest_legal_size_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    _, found = document(
        capsys, "qwen3-235b-a22b-fp8", "--hardware", "h100-sxm-8", "--gpus", "8", "--max-model-len", "8192"
    )
    assert (found["tensor_parallel"], found["replicas"]) == (4, 2)
    _, found = document(capsys, "qwen2.5-72b-block-fp8", "--hardware", "h200-sxm-8", "--gpus", "8")
    assert (found["tensor_parallel"], found["replicas"]) == (1, 8)


@pytest.mark.parametrize(
    ("words", "identifier"),
    [
        (["qwen3.5-397b-a17b-fp8", "--hardware", "h100-sxm-4", "--gpus", "4"], "fit.too-big"),
        (["llama-3.3-70b", "--hardware", "h100-sxm-8", "--gpus", "2"], "fit.context"),
        (["qwen2.5-72b-block-fp8", "--hardware", "h100-sxm-8", "--gpus", "8", "--tensor-parallel", "8"], "tp.blocks"),
        (["qwen3.5-397b-a17b-fp8", "--hardware", "gb10", "--gpus", "4", "--tensor-parallel", "8"], "world.size"),
        (
            ["qwen3.5-397b-a17b-fp8", "--hardware", "gb10", "--gpus", "4", "--gpu-memory-utilization", "0.9"],
            "fit.utilisation",
        ),
        (["llama-3.3-70b", "--hardware", "h100-sxm-8", "--gpus", "0"], "tp.size"),
        (["llama-3.3-70b", "--hardware", "h100-sxm-8", "--gpus", "8", "--pipeline-parallel", "-1"], "tp.size"),
        (["llama-3.3-70b", "--hardware", "h100-sxm-8", "--gpus", "8", "--max-model-len", "-1"], "fit.arguments"),
        (["llama-3.3-70b", "--hardware", "h100-sxm-8", "--gpus", "8", "--max-model-len", "400000"], "fit.beyond-model"),
        (["llama-3.3-70b", "--hardware", "h100-sxm-8", "--gpus", "8", "--dtype", "int4"], "fit.arguments"),
        (["llama-3.3-70b", "--hardware", "h100-sxm-4", "--gpus", "4", "--dtype", "float32"], "fit.context"),
        (["llama-3.3-70b", "--hardware", "h100", "--gpus", "8"], "fit.hardware"),
        (["llama-3.4-70b", "--hardware", "h100-sxm-8", "--gpus", "8"], "fit.model"),
        (["no/such/config.json", "--hardware", "h100-sxm-8", "--gpus", "8"], "model.config"),
        (["x" * 5000, "--hardware", "y" * 5000, "--gpus", "8"], "fit.model"),
        (["a\0b", "--hardware", "gb10", "--gpus", "8"], "fit.model"),
    ],
)
def test_what_does_not_fit_is_refused(capsys: pytest.CaptureFixture[str], words: list[str], identifier: str) -> None:
    status, found = document(capsys, *words)
    assert status == 2
    assert identifier in {one["id"] for one in found["errors"]}
    assert all(len(one["found"]) < 600 for one in found["errors"])


def test_unknown_model_and_hardware_are_refused_together(capsys: pytest.CaptureFixture[str]) -> None:
    _, found = document(capsys, "llama-3.3-70", "--hardware", "h100-sxm8", "--gpus", "8")
    assert {one["id"] for one in found["errors"]} == {"fit.model", "fit.hardware"}
    assert "did you mean llama-3.3-70b?" in found["errors"][0]["remedy"]
    assert "did you mean h100-sxm-8?" in found["errors"][1]["remedy"]


@pytest.mark.parametrize("alias", ["qwen-3.5-235b-a17b", "Qwen3.5-235B-A17B", "neuralmagic/Qwen3.5-235B-A17B-FP8"])
def test_a_name_of_a_model_that_does_not_exist_is_explained(capsys: pytest.CaptureFixture[str], alias: str) -> None:
    _, found = document(capsys, alias, "--hardware", "h100-sxm-8", "--gpus", "4", "--max-model-len", "8192")
    assert "is qwen3-235b-a22b-fp8 in the catalog" in found["notes"][0]
    assert "does not exist" in found["notes"][0]


def test_a_wrong_number_is_refused_once(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["--gpus", "0"],
        ["--gpus", "8", "--tensor-parallel", "0"],
        ["--gpus", "8", "--pipeline-parallel", "-1"],
    ):
        _, found = document(capsys, "llama-3.3-70b", "--hardware", "h100-sxm-8", *words)
        assert [one["id"] for one in found["errors"]] == ["tp.size"]
    call("llama-3.3-70b", "--hardware", "h100-sxm-8", "--gpus", "0")
    assert "does not fit" not in capsys.readouterr().out


def test_remedies_are_whole_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    _, found = document(capsys, "llama-3.3-70b", "--hardware", "h200-sxm8", "--gpus", "8")
    assert found["errors"][0]["remedy"].startswith("did you mean h200-sxm-8? Or name")
    _, found = document(capsys, "llama-3.3-70b", "--hardware", "zzz", "--gpus", "8")
    assert "h200-sxm-8; or name" in found["errors"][0]["remedy"]
    _, found = document(capsys, "deepseek-r1", "--hardware", "gb10", "--gpus", "1", "--max-model-len", "163840")
    assert ", or serve a smaller or more strongly quantised model" in found["errors"][0]["remedy"]
    small = ["llama-3.3-70b", "--hardware", "h100-sxm-8", "--gpus", "2"]
    _, found = document(capsys, *small)
    assert "or less, use an FP8 cache, or use tensor parallel 4 on 4 GPUs" in found["errors"][0]["remedy"]


def test_a_link_to_itself_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    for path in (loop, loop / "config.json"):
        _, found = document(capsys, str(path), "--hardware", "h100-sxm-8", "--gpus", "1")
        assert [one["id"] for one in found["errors"]] == ["model.config"]
        assert "symbolic links" in found["errors"][0]["found"]


def test_a_hostile_config_and_file_name_are_shown_harmlessly(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a\x1b[31m\udcff.json"
    path.write_text(json.dumps({**LLAMA, "model_type": "\ud800\x1b[2J", "dtype": "\x07"}))
    assert call(str(path), "--hardware", "h100-sxm-8", "--gpus", "1") == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert r"model_type \ud800\x1b[2J" in out
    path.write_text("{")
    assert call(str(path), "--hardware", "h100-sxm-8", "--gpus", "1") == 2
    assert "\x1b" not in capsys.readouterr().out


def test_any_config_json_can_be_given(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    directory = tmp_path / "my-model"
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(LLAMA))
    for path in (directory, directory / "config.json"):
        assert call(str(path), "--hardware", "h100-sxm-8", "--gpus", "1") == 0
        assert "my-model fits" in capsys.readouterr().out
    (directory / "config.json").write_text(json.dumps(LLAMA)[:-20])
    _, found = document(capsys, str(directory), "--hardware", "h100-sxm-8", "--gpus", "1")
    assert [one["id"] for one in found["errors"]] == ["model.config"]


def test_a_person_sees_a_bar_and_what_would_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("llama-4-maverick-fp8", "--hardware", "h100-sxm-4", "--gpus", "4", "--max-model-len", "32768") == 2
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "█" in out
    assert "does not fit 4 GPUs" in out
    assert "that fit: llama-4-maverick-awq" in out
    assert "tensor parallel 8 on 8 GPUs" in out
    assert call("qwen2.5-72b-block-fp8", "--hardware", "h100-sxm-8", "--gpus", "8", "--tensor-parallel", "8") == 2
    assert "cannot be served this way" in capsys.readouterr().out
    assert call("qwen3-235b-a22b-fp8", "--hardware", "h100-sxm-8", "--gpus", "8", "--max-model-len", "8192") == 0
    assert "one of 2 replicas" in capsys.readouterr().out


def test_a_bar_is_as_wide_as_asked_for() -> None:
    memory = {
        "total_bytes": 100 << 30,
        "os_bytes": 10 << 30,
        "weights_bytes": 50 << 30,
        "activation_bytes": 3 << 30,
        "runtime_bytes": 2 << 30,
        "kv_bytes": 30 << 30,
        "free_bytes": 5 << 30,
    }
    assert len(memory_bar(memory, 60).plain) == 62
    assert len(memory_bar({**memory, "weights_bytes": 500 << 30}, 60).plain) <= 66


FIT = ("fit", "llama-4-maverick-fp8", "--hardware", "h100-sxm-4", "--gpus", "4")


def program(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    found = shutil.which("firstlight", path=str(Path(sys.executable).parent))
    assert found is not None
    env = {**os.environ, **environment}
    return subprocess.run([found, *words], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow  # the command in a process of its own
@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (FIT, {"PYTHONIOENCODING": "ascii"}),
        (FIT, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
        pytest.param(
            *(("plan", "-i", str(ROOT / "inventory" / "h100x4")), {"PYTHONIOENCODING": "ascii"}),
            marks=pytest.mark.extended,  # a process that plans, and draws as the first does
        ),
    ],
)
def test_a_terminal_without_the_marks_gets_others(words: tuple[str, ...], environment: dict[str, str]) -> None:
    found = program(*words, **environment)
    assert found.returncode in (0, 2)
    assert found.stderr == ""
    assert "[##" in found.stdout
    assert "# weights" in found.stdout
    assert found.stdout.isascii()
    assert [line for line in found.stdout.splitlines() if line != line.rstrip()] == []


@pytest.mark.slow  # the command in a process of its own
def test_whoever_reads_may_stop_early() -> None:
    binary = shutil.which("firstlight", path=str(Path(sys.executable).parent))
    line = f"{binary} fit llama-3.3-70b --hardware h100-sxm-8 --gpus 8 | head -1"
    found = subprocess.run(["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert found.stderr == ""
    assert found.stdout.count("\n") == 1


def test_a_sites_catalog_comes_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for kind in ("hardware", "stacks", "models"):
        (tmp_path / kind).mkdir()
    entry = {"name": "mine", "source": "here", "date": "2026-01-01", "repository": "a/b", "revision": None}
    (tmp_path / "models" / "mine.yml").write_text(json.dumps({**entry, "config": LLAMA}))
    (tmp_path / "models" / "bare.yml").write_text(json.dumps({**entry, "name": "bare"}))
    site = ("--catalog", str(tmp_path), "--hardware", "h100-sxm-8", "--gpus", "1")
    status, _ = document(capsys, "mine", *site)
    assert status == 0
    _, found = document(capsys, "bare", *site)
    assert "has no config" in found["errors"][0]["found"]
    (tmp_path / "models" / "mine.yml").write_text("[")
    with pytest.raises(UsageError, match="cannot be used"):
        call("mine", *site)


@pytest.mark.slow  # the command in a process of its own
def test_the_command_answers_the_same_every_time() -> None:
    program = shutil.which("firstlight", path=str(Path(sys.executable).parent))
    assert program is not None
    words = [program, "fit", "deepseek-v4-flash", "--hardware", "h100-sxm-8", "--gpus", "4", "--json"]
    first, second = (
        subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout for _ in range(2)
    )
    assert first == second
    assert json.loads(first)["fits"] is True
