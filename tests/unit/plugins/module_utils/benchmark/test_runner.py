# SPDX-License-Identifier: Apache-2.0
"""A client on a host with a Docker that is played: it ends, hangs, fails, is killed, and leaves nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.benchmark.runner import (
    LOG,
    Job,
    Load,
    RunnerError,
    how_far,
    last_line,
    remove_leftovers,
    run_client,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import DOCKER

from tests.unit.fake_host import Call, FakeHost, Reply, failure
from tests.unit.plugins.module_utils.benchmark.test_output import POINTS, REFUSED, vllm

POINT = POINTS[0][1]
REQUESTS = POINT["completed"]
KEY = "sk-very-secret"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\n"


class Machine(FakeHost):
    """A host whose container lives for some looks; what it writes is real, what the kernel says of it is not."""

    def __init__(self, job: Job, looks: int = 3) -> None:
        super().__init__()
        self.job, self.looks, self.looked = job, looks, 0
        self.exit, self.oom = 0, "false"
        self.started: list[str] = []
        self.removed: list[str] = []
        self.seen: dict[str, str] = {}
        self.writes: Callable[[int], None] = self.result
        self.cpu = 0.1
        """Processors that its first thread uses."""
        self.image_is_missing = False

    def result(self, look: int) -> None:
        Path(self.job.out, LOG).write_text("x" * look)
        if look == self.looks:
            Path(self.job.out, "result.json").write_text(json.dumps(vllm(POINT)))

    def answer(self, call: Call) -> Reply:
        verb = call.argv[1]
        if verb == "run" and self.image_is_missing:
            return failure("No such image: firstlight/engine")
        if verb == "run" or call.argv[0] == "systemd-run":
            self.started = list(call.argv)
            self.seen = {path.name: path.read_text() for path in Path(self.job.place).iterdir() if path.is_file()}
            assert all(
                path.stat().st_mode & 0o077 == 0 for path in [Path(self.job.place), *Path(self.job.place).iterdir()]
            )
            return "0123\n"
        if verb in ("rm", "stop", "reset-failed"):
            self.removed.append(call.line)
            return ""
        self.looked += 1
        self.writes(self.looked)
        runs = self.looked < self.looks
        if verb == "show":
            state = "active" if runs else "inactive"
            return f"ActiveState={state}\nExecMainStatus={self.exit}\nMainPID={42 if runs else 0}\nResult=success\n"
        return f"{str(runs).lower()} {self.exit} {42 if runs else 0} {self.oom}\n"

    def read_text(self, path: str) -> str | None:
        if not path.startswith("/proc/42"):
            return super().read_text(path)
        ticks = int(self.now * self.cpu * os.sysconf("SC_CLK_TCK"))
        return f"42 (vllm ) S) S 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 1 0 0"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(
        run="20261118T083000Z-1f3a",
        argv=["vllm", "bench", "serve", "--seed=1"],
        engine="vllm",
        requests=REQUESTS,
        image="firstlight/engine:sha256-00",
        model_directory="/var/lib/firstlight/models/tiny",
        key=KEY,
        authority=CERTIFICATE,
        limit_s=100,
        stall_s=20,
        cpus=2,
        directory=str(tmp_path / "bench"),
    )


def run(machine: Machine) -> dict[str, Any]:
    try:
        return run_client(machine, machine.job, machine.clock, machine.pause)
    finally:
        assert not Path(machine.job.place).exists()
        assert machine.removed


def test_a_run_to_its_end(job: Job) -> None:
    machine = Machine(job)
    found = run(machine)
    assert found["output_tokens_per_s"] == POINT["output_tokens_per_s"]
    assert (found["problem"], found["stop"]) == (None, False)
    assert found["client_load"] == pytest.approx(0.1, abs=0.02)
    assert machine.removed == [f"{DOCKER} rm --force --volumes firstlight-bench-{job.run}"]


def test_the_container_may_do_next_to_nothing(job: Job) -> None:
    machine = Machine(job)
    run(machine)
    words = machine.started
    for word in ("--cap-drop=ALL", "--security-opt=no-new-privileges", "--read-only", "--network=host", "--cpus=2"):
        assert word in words
    assert not any(word.startswith(("--gpus", "--device", "--privileged", "--cap-add")) for word in words)
    model = job.model_directory
    assert f"--mount=type=bind,source={model},target={model},readonly" in words
    assert words[-4:] == list(job.argv)
    assert f"--env-file={job.place}/client.env" in words
    assert "--env=SSL_CERT_FILE=/bench/ca.crt" in words


@pytest.mark.hostile
def test_the_key_is_in_one_file_alone(job: Job) -> None:
    machine = Machine(job)
    run(machine)
    assert machine.seen["client.env"] == f"OPENAI_API_KEY={KEY}\n"
    assert machine.seen["ca.crt"] == CERTIFICATE
    assert not any(KEY in word for call in machine.calls for word in call.argv)


def test_a_virtual_environment_is_a_unit(job: Job) -> None:
    job.runtime = "venv"
    machine = Machine(job)
    found = run(machine)
    assert found["problem"] is None
    assert machine.started[0] == "systemd-run"
    assert "--property=NoNewPrivileges=yes" in machine.started
    assert f"--property=EnvironmentFile={job.place}/client.env" in machine.started
    assert machine.started[machine.started.index("--") + 1 :] == list(job.argv)
    assert [line.split()[1] for line in machine.removed] == ["stop", "reset-failed"]


def test_a_server_that_stalls(job: Job) -> None:
    machine = Machine(job, looks=10_000)
    machine.writes = lambda _: None if Path(job.out, LOG).exists() else _write(job, " 10%| | 3/12 [00:01<00:04]")
    found = run(machine)
    assert found["problem"] == "stalled: no request was answered for 20 s (3 of 12 requests done)"
    assert (found["stop"], found["completed"]) == (True, 0)


def test_a_run_that_takes_too_long(job: Job) -> None:
    machine = Machine(job, looks=10_000)
    found = run(machine)
    assert found["problem"].startswith("timeout: the run took longer than 100 s")
    assert machine.now < 110


def test_a_server_that_refuses_every_request(job: Job) -> None:
    machine = Machine(job)
    failed = vllm(POINT, completed=0, failed=REQUESTS, errors=[REFUSED] * REQUESTS)
    machine.writes = lambda _: _write(job, json.dumps(failed), "result.json")
    found = run(machine)
    assert found["failures"] == {"connection refused": REQUESTS}
    assert found["stop"] is True


@pytest.mark.hostile
def test_a_client_that_fails_is_quoted_without_the_key(job: Job) -> None:
    machine = Machine(job)
    machine.exit = 1
    machine.writes = lambda _: _write(job, f"Traceback\nValueError: \x1b[31mno tokenizer {KEY}\n")
    problem = run(machine)["problem"]
    assert "status 1" in problem
    assert "no tokenizer ********" in problem
    assert KEY not in problem
    assert "\x1b" not in problem


def test_a_client_without_memory_says_so(job: Job) -> None:
    machine = Machine(job)
    machine.exit, machine.oom, machine.writes = 137, "true", lambda _: None
    assert "ran out of memory" in run(machine)["problem"]


def test_the_load_of_a_client_that_has_no_processor_left(job: Job) -> None:
    machine = Machine(job, looks=30)
    machine.cpu = 0.97
    found = run(machine)
    assert found["client_load"] > 0.9


@pytest.mark.hostile
@pytest.mark.parametrize("kind", ["link", "fifo", "huge"])
def test_a_result_that_is_a_trap(job: Job, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ansible_collections.firstlight.cluster.plugins.module_utils.benchmark.runner.LARGEST", 1000)
    machine = Machine(job)

    def trap(_: int) -> None:
        path = Path(job.out, "result.json")
        if kind == "link" and not path.is_symlink():
            path.symlink_to("/etc/passwd")
        elif kind == "fifo" and not path.exists():
            os.mkfifo(path)
        elif kind == "huge":
            path.write_text("1" * 2000)

    machine.writes = trap
    found = run(machine)
    assert "the client ended with status 0" in found["problem"]
    assert "root:" not in found["problem"]


def test_nothing_is_left_where_it_is_told_to_end(job: Job) -> None:
    machine = Machine(job)

    def ended(_: int) -> None:
        raise RunnerError("it was asked to stop")

    machine.writes = ended
    with pytest.raises(RunnerError, match="asked to stop"):
        run(machine)


def test_an_image_that_is_not_there_is_said(job: Job) -> None:
    machine = Machine(job)
    machine.image_is_missing = True
    with pytest.raises(RunnerError, match="No such image"):
        run(machine)


@pytest.mark.hostile
@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "a b", "x" * 65])
def test_a_name_that_leads_elsewhere_is_refused(job: Job, name: str) -> None:
    job.run = name
    with pytest.raises(RunnerError, match="expected letters"):
        run_client(FakeHost(), job)


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "20261118T083000Z-1f3a" / "out").mkdir(parents=True)
    (tmp_path / "20261118T083000Z-1f3a" / "client.env").write_text(f"OPENAI_API_KEY={KEY}\n")
    host = FakeHost(
        {
            f"{DOCKER} ps": "firstlight-bench-20261118T083000Z-1f3a\nsomething-else\n",
            f"{DOCKER} rm": "",
            "systemctl list-units": "firstlight-bench-x.service loaded active running it\n",
            "systemctl": "",
        }
    )
    found = remove_leftovers(host, str(tmp_path))
    assert len(found) == 3
    assert list(tmp_path.iterdir()) == []
    assert f"{DOCKER} rm --force --volumes something-else" not in host.lines
    assert "systemctl stop firstlight-bench-x.service" in host.lines


def test_nothing_is_removed_where_nothing_was_left(tmp_path: Path) -> None:
    host = FakeHost({f"{DOCKER} ps": "", "systemctl list-units": ""})
    assert remove_leftovers(host, str(tmp_path / "not-there")) == []


def test_progress_is_read_from_the_clients_bar() -> None:
    text = "Starting main benchmark run...\n\r  0%|          | 0/160 [00:00<?, ?it/s]\r 23%|██▎| 37/160 [00:12<00:40]"
    assert how_far(text) == "37 of 160 requests done"
    assert how_far("loading") == "before the first request"
    assert last_line(" a \r\n b\x07\n\n") == "b"


def test_load_counts_only_the_measured_part() -> None:
    load = Load(cpus=4, ticks=100.0)
    for at in range(20):
        busy = min(at, 10) * 100 + max(at - 10, 0) * 20  # ten seconds of preparing prompts, then ten of asking
        line = f"1 (x) S 1 1 1 0 -1 0 0 0 0 0 {busy} 0 0"
        load.add(float(at), line, line)
    assert load.over(9.0) == pytest.approx(0.2)
    assert Load(4, 100.0).over(9.0) is None


def _write(job: Job, text: str, name: str = LOG) -> None:
    Path(job.out, name).write_text(text)
