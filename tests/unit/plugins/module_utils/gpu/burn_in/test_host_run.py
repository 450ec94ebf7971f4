# SPDX-License-Identifier: Apache-2.0
"""The burn-in on a host: when it is due, when it is refused, and what it leaves behind."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.host_run import Request, accept, result_of
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.program import program
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.runs import START
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import expected_of
from ansible_collections.firstlight.cluster.plugins.module_utils.host import RC_TIMEOUT, Result

from firstlight_lab.bus_texts import dcgm_diag
from tests.unit.fake_host import FakeHost, failure, no_answer, not_installed

ROOT = Path(__file__).parents[6]
PRINTED = (ROOT / "tests/fixtures/gpu-burn-in/h200.json").read_text(encoding="utf-8")
PROFILE = yaml.safe_load((ROOT / "catalog/hardware/h200-sxm-1.yml").read_text(encoding="utf-8"))
EXPECTED = expected_of("h200-sxm-1", PROFILE)
UUID = "GPU-00000001-0000-0000-0000-000000000001"


class Machine(FakeHost):
    """A host with one H200; what the container prints is given."""

    def __init__(self, printed: str = PRINTED) -> None:
        super().__init__(
            {
                "nvidia-smi": lambda _: self.gpus or 9,
                "nvidia-smi --query-compute-apps": lambda _: self.processes,
                "systemctl": lambda call: (
                    f"LoadState=loaded\nActiveState={self.units.get(call.argv[-1], 'inactive')}\n"
                ),
                "docker run": printed or failure("docker: no such image", 125),
                "/opt/e/bin/python": printed,
                "docker rm": "",
                "dcgmi": not_installed,
            }
        )
        self.gpus = f"{UUID}, 580.159.04\n"
        self.processes = ""
        self.units: dict[str, str] = {}

    @property
    def runs(self) -> list[tuple[str, ...]]:
        return [argv for argv in self.ran if argv[:2] == ("docker", "run") or argv[0].startswith("/")]


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    return Request(EXPECTED, image="r/i@sha256:1", record=str(tmp_path / "var" / "record.json"))


def test_it_runs_in_the_pinned_image_without_network_and_is_evaluated(request_: Request) -> None:
    machine = Machine()
    outcome = accept(machine, request_)
    assert (outcome.ran, outcome.wrong, outcome.refused) == (True, [], "")
    (command,) = machine.runs
    assert {"--network=none", "--pull=never", "--rm", "--ipc=private"} <= {*command}
    assert command[command.index("--gpus") + 1] == "all"
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in command
    assert command[command.index("r/i@sha256:1") :][:4] == ("r/i@sha256:1", "-c", START, "--device")
    assert command[command.index("--time-limit") + 1] == "270"
    assert "--unified" not in command
    assert next(call.stdin for call in machine.calls if call.stdin) == program()
    assert not any("sha256:1" in word and "token" in word for word in command)


def test_the_program_is_the_same_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = program()
    monkeypatch.setattr("time.time", lambda: 1_000_000_000.0)
    assert program() == now


def test_the_record_holds_no_uuid_and_is_not_made_again(request_: Request) -> None:
    accept(Machine(), request_)
    text = Path(request_.record).read_text(encoding="utf-8")
    assert "00000001-0000" not in text
    machine = Machine()
    again = accept(machine, request_)
    assert (again.ran, again.due, again.wrong, machine.runs) == (False, False, [], [])
    assert len(again.checks) == 12


@pytest.mark.parametrize("change", ["driver", "gpu", "image", "force", "record"])
def test_what_a_record_does_not_hold_for_is_tried_again(request_: Request, change: str) -> None:
    accept(Machine(), request_)
    machine, request = Machine(), request_
    if change == "driver":
        machine.gpus = f"{UUID}, 590.48.01\n"
    elif change == "gpu":
        machine.gpus = "GPU-2, 580.159.04\n"
    elif change == "image":
        request = replace(request, image="r/i@sha256:2")
    elif change == "force":
        request = replace(request, force=True)
    else:
        Path(request.record).write_text("{", encoding="utf-8")
    assert accept(machine, request).ran
    assert len(machine.runs) == 1


def slow() -> str:
    document: dict[str, Any] = copy.deepcopy(json.loads(PRINTED))
    document["gpus"][0]["bf16_tflops"] = 300.0
    return json.dumps(document, indent=1)


def test_a_result_that_was_not_right_is_tried_again_and_may_be_accepted(request_: Request) -> None:
    first = accept(Machine(slow()), request_)
    assert len(first.wrong) == 1
    assert first.wrong[0].startswith("burn_in.bf16 fails: GPU 0: 300 TFLOP/s, expected at least 574 TFLOP/s")
    assert accept(Machine(slow()), replace(request_, accept=("burn_in.bf16",))).ran is False
    fixed = accept(Machine(), request_)
    assert (fixed.ran, fixed.wrong) == (True, [])


@pytest.mark.parametrize("unit", ["firstlight-server.service", "firstlight-ray.service"])
def test_a_cluster_that_serves_is_not_tried(request_: Request, unit: str) -> None:
    machine = Machine()
    machine.units[unit] = "active"
    outcome = accept(machine, request_)
    assert (outcome.ran, outcome.refused, outcome.wrong, machine.runs) == (False, f"{unit} is active", [], [])
    assert [one["verdict"] for one in outcome.checks] == ["could_not_check"]
    # Who asks for it is told that it did not happen.
    assert accept(machine, replace(request_, force=True)).wrong
    assert not Path(request_.record).exists()


def test_gpus_that_somebody_uses_are_not_tried(request_: Request) -> None:
    machine = Machine()
    machine.processes = "4711, python3\n"
    outcome = accept(machine, request_)
    assert outcome.refused == "another process computes on the GPUs: 4711, python3"
    assert outcome.wrong
    assert machine.runs == []


@pytest.mark.parametrize("told", ["", "Unable to determine the device handle for GPU0\n", "No devices were found\n"])
def test_gpus_that_are_not_told_are_not_tried(request_: Request, told: str) -> None:
    machine = Machine()
    machine.gpus = told
    outcome = accept(machine, request_)
    assert outcome.refused.startswith("nvidia-smi does not list the GPUs")
    assert (outcome.ran, bool(outcome.wrong)) == (False, True)


def test_check_mode_looks_and_runs_nothing(request_: Request) -> None:
    machine = Machine()
    outcome = accept(machine, request_, look_only=True)
    assert (outcome.ran, outcome.due, outcome.wrong, machine.runs) == (False, True, [], [])
    # What a run would do is told; where a record holds it does nothing.
    assert result_of(outcome)["changed"] is True
    accept(Machine(), request_)
    assert result_of(accept(Machine(), request_, look_only=True))["changed"] is False
    machine.units["firstlight-ray.service"] = "active"
    assert result_of(accept(machine, replace(request_, force=True), look_only=True))["changed"] is False


def test_a_container_that_hangs_is_removed_by_its_name(request_: Request) -> None:
    machine = Machine()
    machine.commands["docker run"] = no_answer
    outcome = accept(machine, request_)
    name = machine.runs[0][machine.runs[0].index("--name") + 1]
    assert ("docker", "rm", "--force", name) in machine.ran
    assert outcome.checks[0]["observed"] == "docker gave no answer within 300 s"
    assert outcome.checks[0]["verdict"] == "could_not_check"


def test_what_was_told_before_a_gpu_held_the_container_is_evaluated(request_: Request) -> None:
    machine = Machine()
    machine.commands["docker run"] = lambda call: replace(no_answer(call), partial=PRINTED)
    machine.commands["docker rm"] = failure("device or resource busy\n")
    outcome = accept(machine, request_)
    verdicts = {one["id"]: one["verdict"] for one in outcome.checks}
    assert (verdicts["burn_in.ran"], verdicts["burn_in.bf16"]) == ("fail", "pass")
    assert "it did not exit: docker gave no answer within 300 s; the container firstlight-burn-in-" in outcome.wrong[0]
    assert "may still be there: docker returned 1: device or resource busy" in outcome.wrong[0]


def test_of_a_program_that_fell_the_last_line_is_told(request_: Request) -> None:
    machine = Machine()
    said = "warning: x\nTraceback (most recent call last):\n  File 1\nOSError: No space left on device\n"
    machine.commands["docker run"] = failure(said, 125)
    assert accept(machine, request_).checks[0]["observed"] == "docker returned 125: OSError: No space left on device"


def test_where_nobody_can_tell_who_uses_the_gpus_they_are_not_tried(request_: Request) -> None:
    for silent in ("systemctl", "nvidia-smi --query-compute-apps"):
        machine = Machine()
        machine.commands[silent] = no_answer
        outcome = accept(machine, request_)
        assert (bool(outcome.wrong), machine.runs) == (True, [])
        assert "does not report" in outcome.refused
        assert "gave no answer" in outcome.refused


def test_a_machine_without_systemd_serves_nothing_of_ours(request_: Request) -> None:
    machine = Machine()
    machine.commands["systemctl"] = not_installed
    assert accept(machine, request_).ran


@pytest.mark.parametrize("printed", ["", "Traceback ...\n", PRINTED[: len(PRINTED) // 2]])
def test_a_result_that_is_none_is_not_right(request_: Request, printed: str) -> None:
    accept(Machine(), request_)
    outcome = accept(Machine(printed), replace(request_, force=True))
    assert [one["verdict"] for one in outcome.checks] == ["could_not_check"]
    assert outcome.wrong
    # What was right before holds no more.
    assert not Path(request_.record).exists()


def test_greetings_of_an_image_are_passed_over(request_: Request) -> None:
    assert accept(Machine(f"== NVIDIA PyTorch ==\n{{not this}}\n{PRINTED}"), request_).wrong == []


def test_a_virtual_environment_runs_it_with_its_own_interpreter(request_: Request) -> None:
    machine = Machine()
    accept(machine, replace(request_, image="", python="/opt/e/bin/python", engine="lock"))
    assert machine.runs[0][:2] == ("/opt/e/bin/python", "-c")
    valid = json.loads(Path(request_.record).read_text(encoding="utf-8"))["valid_for"]
    assert (valid["engine"], valid["driver"]) == ("lock", "580.159.04")


def test_shared_memory_and_the_processor_are_told_to_the_workload(request_: Request) -> None:
    machine = Machine()
    machine.gpus = ""
    unified = expected_of("gb10", {"gpus": 1, "gpu_name": "NVIDIA GB10", "unified": True})
    accept(machine, replace(request_, expected=unified, device="cpu", timeout=20))
    (command,) = machine.runs
    assert "--gpus" not in command
    assert command[-1] == "--unified"
    assert command[command.index("--time-limit") + 1] == "10"


def test_every_check_has_a_line(request_: Request) -> None:
    lines = result_of(accept(Machine(), request_))["lines"]
    assert "pass            burn_in.bandwidth: 4249 GB/s (at least 3840 GB/s (80% of 4800))" in lines


def test_where_dcgm_is_installed_its_diagnostic_is_asked_for_and_evaluated(request_: Request) -> None:
    machine = Machine()
    machine.commands["dcgmi"] = Result(("dcgmi",), 226, dcgm_diag(1, "580.159.04", failing=[0]))
    outcome = accept(machine, request_)
    assert ("dcgmi", "diag", "-r", "1", "-j") in machine.ran
    assert outcome.wrong[0].startswith("burn_in.dcgm fails: software on GPU 0: Persistence mode for GPU 0 is disabled.")
    machine.commands["dcgmi"] = Result(("dcgmi",), 0, dcgm_diag(1, "580.159.04"))
    assert accept(machine, request_).wrong == []
    # What is kept is evaluated as the run was, without asking again.
    kept = accept(Machine(), request_)
    assert (kept.ran, kept.wrong) == (False, [])
    assert [one["verdict"] for one in kept.checks if one["id"] == "burn_in.dcgm"] == ["pass"]


@pytest.mark.parametrize(
    "answer",
    [
        Result(("dcgmi",), RC_TIMEOUT, problem="dcgmi gave no answer within 180 s"),
        Result(("dcgmi",), 1, "Error: unable to establish a connection to the specified host: localhost\n"),
        Result(("dcgmi",), 0, dcgm_diag(0, "580.159.04")),
        Result(("dcgmi",), 226, dcgm_diag(1, "580.159.04")),
        Result(("dcgmi",), 0, ""),
    ],
)
def test_a_diagnostic_that_tells_nothing_is_never_right(request_: Request, answer: Result) -> None:
    machine = Machine()
    machine.commands["dcgmi"] = answer
    outcome = accept(machine, request_)
    assert [one["verdict"] for one in outcome.checks if one["id"] == "burn_in.dcgm"] == ["could_not_check"]
    assert len(outcome.wrong) == 1
