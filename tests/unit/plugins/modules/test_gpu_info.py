# SPDX-License-Identifier: Apache-2.0
"""gpu_info on a machine made of scripts: facts, checks, raw output, and a tool that hangs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.gpu_health import checks_of, readings_of
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.gpu_probe import KINDS, Answer
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.health import expected_by
from ansible_collections.firstlight.cluster.plugins.modules import gpu_info as module

pytestmark = pytest.mark.slow  # the module in a process of its own, as on a host

ROOT = Path(__file__).parents[4]
OURS = ROOT / "tests" / "fixtures" / "nvidia-smi" / "h200-firecracker"
HARDWARE = yaml.safe_load((ROOT / "catalog" / "hardware" / "h200-sxm-1.yml").read_text(encoding="utf-8"))

SMI = """#!/bin/sh
case "$*" in
  "topo -m") cat {ours}/topo-m.txt ;;
  "-q -x") cat {ours}/qx.txt ;;
  "nvlink -s") {nvlink} ;;
  *) echo "nvidia-smi: $*: not played" >&2; exit 2 ;;
esac
"""


def machine(place: Path, nvlink: str = ":") -> Path:
    """A directory of programs that answer as the captures of this project do."""
    programs = place / "bin"
    programs.mkdir()
    program = programs / "nvidia-smi"
    program.write_text(SMI.format(ours=OURS, nvlink=nvlink))
    program.chmod(0o755)
    return programs


def run(programs: Path, **arguments: Any) -> dict[str, Any]:
    """The module as a program of its own, the way a target runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.firstlight.cluster.plugins.modules.gpu_info"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        env={"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "collections")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_one_call_gives_facts_and_verdicts_of_what_was_asked(tmp_path: Path) -> None:
    found = run(
        machine(tmp_path),
        kinds=["topo", "smi-xml"],
        expected={"profile": "h200-sxm-1", "hardware": HARDWARE, "driver": "580.159.04"},
    )
    assert found["changed"] is False
    assert found["facts"]["topo"]["gpus"] == ["GPU0"]
    verdicts = {one["id"]: one["verdict"] for one in found["checks"]}
    assert verdicts["gpu.count"] == verdicts["gpu.name"] == verdicts["driver.version"] == "pass"
    assert sum(found["verdicts"].values()) == len(found["checks"])
    assert "raw" not in found


def test_what_the_commands_printed_is_kept_where_that_is_asked_for(tmp_path: Path) -> None:
    found = run(machine(tmp_path), kinds=["topo"], raw=True)
    assert "checks" not in found
    kept = found["raw"]["topo"]
    assert kept["text"] == (OURS / "topo-m.txt").read_text(encoding="utf-8")
    assert (kept["kind"], kept["command"], kept["rc"], kept["problem"]) == ("topo", "nvidia-smi topo -m", 0, "")


def test_serial_numbers_and_uuids_do_not_leave_the_host(tmp_path: Path) -> None:
    plain = run(machine(tmp_path), kinds=["smi-xml"], raw=True)["raw"]["smi-xml"]["text"]
    uuid = plain.partition("<uuid>")[2].partition("</uuid>")[0]
    assert uuid.startswith("GPU-")
    again = tmp_path / "again"
    again.mkdir()
    told = json.dumps(run(machine(again), kinds=["smi-xml"], raw=True, redact={"key": "a collection"}))
    assert uuid not in told
    assert "NVIDIA H200" in told


def test_a_tool_that_hangs_fails_its_check_and_does_not_hold_the_call(tmp_path: Path) -> None:
    found = run(
        machine(tmp_path, nvlink="sleep 600"),
        kinds=["topo", "nvlink"],
        expected={"hardware": HARDWARE},
        timeout=3,
    )
    (answer,) = (one for one in found["checks"] if one["id"] == "gpu.answer")
    assert answer["verdict"] == "fail"
    assert "gave no answer within 3 s" in answer["observed"]
    assert found["problems"]["nvlink"] == ["nvidia-smi gave no answer within 3 s"]
    assert found["facts"]["topo"]["gpus"] == ["GPU0"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"kinds": ["topology"]}, "value of kinds must be one or more of"),
        (
            {"expected": {"hardware": {"gpus": 8}}},
            "has no gpu_name, expected an entry of catalog/hardware",
        ),
        ({"expected": {"profile": "x"}}, "missing required arguments: hardware"),
    ],
)
def test_what_cannot_be_evaluated_by_is_refused(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    found = run(machine(tmp_path), **arguments)
    assert found["failed"] is True
    assert words in found["msg"]


def test_documentation_is_complete() -> None:
    documentation = yaml.safe_load(module.DOCUMENTATION)
    assert set(documentation["options"]) == {
        "kinds", "ports", "metrics_port", "expected", "container", "timeout", "raw", "redact",
    }  # fmt: skip
    assert documentation["options"]["kinds"]["choices"] == list(KINDS)
    assert yaml.safe_load(module.EXAMPLES)
    assert yaml.safe_load(module.RETURN)


def test_what_a_real_h200_answered_is_evaluated_as_it_was_there() -> None:
    recorded = json.loads((ROOT / "tests" / "fixtures" / "gpu-info" / "h200.json").read_text(encoding="utf-8"))
    answers = [Answer(name, **one) for name, one in recorded["raw"].items()]
    expected = expected_by({"profile": "h200-sxm-1", "hardware": HARDWARE, "driver": "580.159.04"})
    checks = checks_of(answers, readings_of(answers), expected, serving=False)
    there = {one["id"]: (one["verdict"], one["observed"]) for one in recorded["checks"]}
    here = {one["id"]: (one["verdict"], one["observed"]) for one in checks}
    # Of the kernel's log only the driver's lines were kept.
    assert {name: told for name, told in here.items() if not name.startswith("kernel.")} == {
        name: told for name, told in there.items() if not name.startswith("kernel.")
    }
    assert here["kernel.xid"][0] == there["kernel.xid"][0] == "pass"
    assert set(recorded["verdicts"]) == {"pass", "not_applicable"}
