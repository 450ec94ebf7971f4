# SPDX-License-Identifier: Apache-2.0
"""The workload as a host runs it: one text on standard input, with a PyTorch that does what a broken GPU does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in import sampling
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.program import program
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.runs import START
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.sampling import Sampler

pytestmark = pytest.mark.slow  # real programs that hang

TORCH = """
import os, time, types
__version__ = "2.11.0+stub"
version = types.SimpleNamespace(cuda="13.0")
def device(*words): return words
class cuda:
    @staticmethod
    def device_count(): {count}
    @staticmethod
    def set_device(device): pass
    @staticmethod
    def get_device_properties(device): {properties}
"""

SMI = """#!/bin/sh
echo '0, GPU-aa, 1500, 1980, 3201, 690.5, 700.00, 60, 0x0000000000000004'
"""


def run(
    place: Path, *arguments: str, torch: str | None = None, timeout: float = 90, hidden: str = ""
) -> tuple[int, dict[str, Any]]:
    """The workload in an interpreter that sees nothing of this project."""
    if torch is not None:
        (place / "torch.py").write_text(torch, encoding="utf-8")
    (place / "nvidia-smi").write_text(SMI, encoding="utf-8")
    (place / "nvidia-smi").chmod(0o755)
    environment = {"PATH": f"{place}:{os.environ['PATH']}", "PYTHONPATH": str(place), "CUDA_VISIBLE_DEVICES": hidden}
    command = [sys.executable, "-W", "ignore", "-c", START, *arguments]
    done = subprocess.run(
        command, input=program(), capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_without_pytorch_it_says_so(tmp_path: Path) -> None:
    rc, document = run(tmp_path, torch="raise ImportError('libcudart.so.13: cannot open')")
    assert (rc, document["gpus"]) == (1, [])
    assert document["problems"] == ["PyTorch cannot be imported: libcudart.so.13: cannot open"]


@pytest.mark.parametrize(
    ("count", "limit", "words"),
    [
        ("return 0", 60, "PyTorch sees no CUDA device"),
        (
            "raise RuntimeError('Error 802: system not yet initialized')",
            60,
            "CUDA could not be queried for its devices: Error 802",
        ),
        ("os._exit(9)", 60, "CUDA could not be queried for its devices: the process died"),
        ("time.sleep(600)", 1, "CUDA could not be queried for its devices: no answer"),
    ],
)
def test_a_driver_that_does_not_count_its_gpus_ends_the_run(tmp_path: Path, count: str, limit: int, words: str) -> None:
    rc, document = run(tmp_path, "--time-limit", str(limit), torch=TORCH.format(count=count, properties="pass"))
    assert rc == 1
    assert document["problems"][0].startswith(words)


def test_each_gpu_tells_its_own_trouble_and_none_waits_for_ever(tmp_path: Path) -> None:
    trouble = """
        number = device[1]
        if number == 0: raise RuntimeError("uncorrectable ECC error")
        if number == 1: os._exit(3)
        time.sleep(600)"""
    rc, document = run(tmp_path, "--time-limit", "4", torch=TORCH.format(count="return 4", properties=trouble))
    assert rc == 1
    told = [gpu["problems"] for gpu in document["gpus"]]
    assert told[0] == ["the GPU could not be set up: uncorrectable ECC error"]
    assert told[1] == ["its process exited with 3"]
    assert not any("done" in gpu for gpu in document["gpus"])
    assert told[2] == told[3] == ["not finished within the time limit", "its process exited with -9"]


def test_a_process_that_cannot_be_killed_does_not_hold_the_answer(tmp_path: Path) -> None:
    """As one in a driver: here it leaves a child behind that lives on with whatever it was given."""
    left = tmp_path / "left"
    trouble = f"""
        child = os.fork()
        if child == 0:
            os.setsid()
            time.sleep(600)
            os._exit(0)
        with open({str(left)!r}, "w") as file: file.write(str(child))
        raise RuntimeError("Xid 79")"""
    _, document = run(tmp_path, "--time-limit", "60", torch=TORCH.format(count="return 1", properties=trouble))
    os.kill(int(left.read_text()), signal.SIGKILL)  # raises where it did not live on
    assert document["gpus"][0]["problems"] == ["the GPU could not be set up: Xid 79"]


def test_no_gpu_is_hidden_from_the_run(tmp_path: Path) -> None:
    torch = TORCH.format(count="return 0 if 'CUDA_VISIBLE_DEVICES' in os.environ else 1", properties="os._exit(3)")
    _, document = run(tmp_path, "--time-limit", "5", torch=torch, hidden="0")
    assert len(document["gpus"]) == 1


def test_a_warning_between_the_rows_is_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "0, GPU-aa\nWARNING: infoROM is corrupted at gpu 0000:0F:00.0\n\n"
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, stdout=told, stderr=""))
    assert sampling._ask(["index", "uuid"]) == [["0", "GPU-aa"]]


def rows(*cells: str) -> list[str]:
    return ["0", "GPU-aa", "1500", "1980", "3201", "690.5", "700.00", "60", *cells]


def test_samples_belong_to_the_phase_and_the_gpu_they_were_taken_in() -> None:
    sampler = Sampler()
    sampler.rows = [
        (0.5, rows("0x4")),
        (2.0, rows("0x4")),
        (3.0, rows("0x44")),
        (3.5, ["1", "GPU-bb", *rows("0x8")[2:]]),
    ]
    load = sampler.of_gpu({"index": 0, "uuid": "aa", "phases": [["bf16", 0.0, 4.0], ["fp8", 4.0, 5.0]]})
    assert set(load) == {"bf16"}  # nothing was sampled in the other one
    assert load["bf16"]["samples"] == 2  # the first came while the clocks were on their way
    assert load["bf16"]["reasons"] == {"sw_power_cap": 2, "hw_thermal_slowdown": 1}
    assert load["bf16"]["power_w"] == {"least": 690.5, "middle": 690.5, "most": 690.5}
    other = sampler.of_gpu({"index": 1, "uuid": None, "phases": [["bf16", 0.0, 4.0]]})
    assert other["bf16"]["reasons"] == {"hw_slowdown": 1}


@pytest.mark.parametrize(
    ("cell", "reasons"), [("0x0", {}), ("0x200", {"0x200": 1}), ("[N/A]", "N/A"), ("ERR!", None), ("0xzz", None)]
)
def test_reasons_that_cannot_be_read_are_not_none(cell: str, reasons: Any) -> None:
    sampler = Sampler()
    sampler.rows = [(2.0, rows(cell))]
    load = sampler.of_gpu({"index": 0, "uuid": "aa", "phases": [["bf16", 0.0, 4.0]]})
    assert load["bf16"]["reasons"] == reasons


def test_a_value_that_is_not_told_is_none() -> None:
    sampler = Sampler()
    sampler.rows = [(2.0, ["0", "GPU-aa", "[N/A]", "[N/A]", "[N/A]", "[N/A]", "[N/A]", "39", "0x1"])]
    load = sampler.of_gpu({"index": 0, "uuid": "aa", "phases": [["fp8", 0.0, 4.0]]})["fp8"]
    assert load["sm_mhz"] is load["power_w"] is load["power_limit_w"] is None
    assert load["temperature_c"]["most"] == 39


def test_an_old_driver_is_asked_by_the_old_name(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Sampler()
    asked: list[str] = []

    def ask(fields: list[str]) -> list[list[str]] | str:
        asked.append(fields[-1])
        if len(asked) > 2:
            sampler.done.set()
        return 'Field "x" is not a valid field to query.' if "event" in fields[-1] else [rows("0x0")]

    monkeypatch.setattr(sampling, "_ask", ask)
    monkeypatch.setattr(sampling, "PAUSE", 0)
    sampler.run()
    assert asked[:2] == list(sampling.REASONS)
    assert (len(sampler.rows), sampler.problems) == (2, [])


def test_a_tool_that_fails_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Sampler()
    monkeypatch.setattr(sampling, "_ask", lambda _: "nvidia-smi: not there")
    monkeypatch.setattr(sampling, "PAUSE", 0)
    sampler.run()
    assert sampler.problems == ["nvidia-smi: not there"] * sampling.MOST_PROBLEMS
