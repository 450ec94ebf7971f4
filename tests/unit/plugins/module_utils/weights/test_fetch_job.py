# SPDX-License-Identifier: Apache-2.0
"""Work in a process of its own: its result, its errors, its end, and who may end it."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import process_started
from ansible_collections.firstlight.cluster.plugins.module_utils.weights import fetch_job
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.fetch_job import Job, outcome, run_watched
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot_store import HubError, Meter

from tests.unit.full_disk import FullDisk


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_job, "TICK", 0.02)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job("/srv/models/tiny", str(tmp_path / "jobs"))


def hang(meter: Meter) -> dict[str, Any]:
    meter.begin("copying", 1000)
    meter.add(400)
    time.sleep(60)
    return {}


def process_of(job: Job) -> int:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := job._read().get("process"):
            return int(found["pid"])
        time.sleep(0.01)
    raise AssertionError("the job did not begin")


def test_a_result_comes_back_and_nothing_stays(job: Job, tmp_path: Path) -> None:
    job.start(lambda _meter: {"changed": True, "process": os.getpid()})
    result = job.wait(60)
    assert result["changed"]
    assert result["process"] != os.getpid()
    assert list((tmp_path / "jobs").iterdir()) == []


@pytest.mark.parametrize(("user", "place"), [(0, "/run/firstlight/jobs"), (1000, "/run/user/1000/firstlight-jobs")])
def test_jobs_are_kept_where_nobody_else_writes(monkeypatch: pytest.MonkeyPatch, user: int, place: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert Job("x")._directory == place


def refuse(_meter: Meter) -> dict[str, Any]:
    raise HubError("the disk is full: free space")


def vanish(_meter: Meter) -> dict[str, Any]:
    raise FileNotFoundError(2, "No such file or directory", "/srv/x")


def stumble(_meter: Meter) -> dict[str, Any]:
    raise KeyError("size")


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (refuse, "the disk is full: free space"),
        (vanish, "/srv/x cannot be used (No such file or directory): check"),
        (stumble, "the work on /srv/models/tiny failed: KeyError('size')"),
    ],
)
def test_a_refusal_comes_back_too(job: Job, work: Any, words: str) -> None:
    job.start(work)
    result = job.wait(60)
    assert result["failed"]
    assert words in result["msg"]


def test_whoever_asks_early_hears_how_far_it_is(job: Job) -> None:
    job.start(hang)
    process = process_of(job)
    end = time.monotonic() + 60
    while True:
        found = job.wait(0.0)
        assert found["unfinished"]
        if found["progress"].get("done") == 400 or time.monotonic() > end:
            break
        time.sleep(0.02)
    assert found["progress"]["total"] == 1000
    os.kill(process, signal.SIGKILL)
    with pytest.raises(HubError, match="ended without a result"):
        job.wait(60)


def test_a_job_that_nobody_asks_for_makes_way(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.start(hang)
    first = process_of(job)
    monkeypatch.setattr(fetch_job, "UNWATCHED", 0.0)
    job.start(lambda _meter: {"changed": False})
    monkeypatch.setattr(fetch_job, "UNWATCHED", 20.0)
    assert job.wait(60) == {"changed": False}
    assert not process_started(first), "the first has ended"


def test_a_job_that_somebody_watches_stays(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.start(hang)
    first = process_of(job)
    seen = iter(range(100, 200))
    monkeypatch.setattr(job, "_watched_at", lambda: float(next(seen)) + time.time())
    with pytest.raises(HubError, match=r"another run is still working on /srv/models/tiny"):
        job.start(hang)
    os.kill(first, signal.SIGKILL)


@pytest.mark.hostile
def test_a_job_that_was_watched_under_a_clock_ahead_makes_way(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.start(hang)
    first = process_of(job)
    os.utime(job._watched, (time.time() + 86400,) * 2)
    monkeypatch.setattr(fetch_job, "UNWATCHED", 0.1)
    job.start(lambda _meter: {"changed": False})
    monkeypatch.setattr(fetch_job, "UNWATCHED", 20.0)
    assert job.wait(60) == {"changed": False}
    assert not process_started(first), "the first has ended"


@pytest.mark.hostile
@pytest.mark.parametrize(("hours", "goes_on"), [(0, True), (-1, False), (24, False)])
def test_a_job_that_never_began_is_not_waited_for_until_the_clock_comes_round(hours: int, goes_on: bool) -> None:
    assert fetch_job._goes_on({"asked_at": time.time() + 3600 * hours}) is goes_on


def test_a_job_of_before_a_restart_is_not_waited_for(job: Job, tmp_path: Path) -> None:
    with pytest.raises(HubError, match="ended without a result"):
        Job("never begun", str(tmp_path)).wait(5)


@pytest.mark.hostile
@pytest.mark.parametrize("room", [1, 5, 8], ids=["to begin", "for its process", "for its result"])
def test_a_full_run_directory_is_told_and_the_next_run_works(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(fetch_job, "UNWATCHED", 0.3)
    monkeypatch.setattr(fetch_job, "TICK", 60)
    disk = FullDisk(monkeypatch, tmp_path)
    disk.full_at = room
    full = Module(wait=60)
    with pytest.raises(SystemExit):
        run_watched(full, job, lambda _meter: {"changed": True})
    words = "cannot be started or watched: .*No space left on device" if room == 1 else "had no room for the result"
    assert re.search(words, full.said["msg"]), full.said
    disk.full_at = -1
    monkeypatch.setattr(fetch_job, "UNWATCHED", 20.0)
    again = Module(wait=60)
    run_watched(again, job, lambda _meter: {"changed": True})
    assert again.said == {"changed": True}


class Module:
    """What `run_watched` uses of AnsibleModule."""

    def __init__(self, check_mode: bool = False, wait: float = 0, attach: bool = False) -> None:
        self.check_mode = check_mode
        self.params = {"wait": wait, "attach": attach}
        self.said: dict[str, Any] = {}
        self.warnings: list[str] = []

    def warn(self, words: str) -> None:
        self.warnings.append(words)

    def exit_json(self, **result: Any) -> None:
        self.said = result

    def fail_json(self, **result: Any) -> None:
        self.said = {"failed": True, **result}
        raise SystemExit(1)


def test_a_module_runs_at_once_or_as_a_job(job: Job) -> None:
    at_once = Module()
    run_watched(at_once, job, lambda _meter: {"notes": ["look"], "process": os.getpid()})
    assert at_once.said == {"process": os.getpid()}
    assert at_once.warnings == ["look"]
    later = Module(wait=60)
    run_watched(later, job, lambda _meter: {"process": os.getpid()})
    assert later.said["process"] != os.getpid()
    failing = Module(wait=60)
    with pytest.raises(SystemExit):
        run_watched(failing, job, refuse)
    assert failing.said == {"failed": True, "msg": "the disk is full: free space"}


def test_an_outcome_is_the_result() -> None:
    assert outcome(lambda _meter: {"changed": True}, Meter(), "x") == {"changed": True}


def test_a_node_that_restarted_meanwhile_is_named(job: Job, tmp_path: Path) -> None:
    job.start(hang)
    process = process_of(job)
    os.kill(process, signal.SIGKILL)
    for path in (tmp_path / "jobs").iterdir():
        path.unlink()
    (tmp_path / "jobs").rmdir()
    with pytest.raises(HubError, match=r"the node restarted, or .* had no room for the result; run again"):
        job.wait(5)
