# SPDX-License-Identifier: Apache-2.0
"""What a run keeps of its durations, and how they are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.serving.engine_starts import start_seconds
from tests.suite import events, footprint, times
from tests.suite.events import Event
from tests.suite.times import KEPT, PartResult, Run


def run_of(seconds: float, *found: Event, status: int = 0, slice_: str = "") -> Run:
    return Run("all" if slice_ else "test", slice_, seconds, 0.9, [PartResult("cluster", seconds, status, list(found))])


def test_events_are_read_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events"
    monkeypatch.setenv(events.FILE, str(path))
    assert events.read(path) == ([], 0)
    first, second = Event("test", "one", 1.5), Event("step", "two", 2.0, "failed")
    events.note(first)
    found, offset = events.read(path)
    assert found == [first]
    events.note(second)
    with path.open("a") as file:
        file.write('{"kind": "te')  # half a line is read when it is whole
    assert events.read(path, offset) == ([second], path.stat().st_size - len('{"kind": "te'))


def test_nothing_is_noted_where_nobody_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(events.FILE, raising=False)
    monkeypatch.chdir(tmp_path)
    events.note(Event("test", "one", 1.0))
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_kept_whole_and_old_ones_go(tmp_path: Path) -> None:
    directory = tmp_path / times.DIRECTORY
    directory.mkdir()
    for number in range(KEPT + 3):
        (directory / f"2020010{number:02}T000000Z-test.json").write_text("{}")
    run = run_of(60, Event("test", "one", 1.5))
    path = times.write(run, tmp_path)
    assert times.read(path) == run
    assert len(list(directory.iterdir())) == KEPT


def test_the_slowest_come_first_beside_the_run_before() -> None:
    before = run_of(60, Event("test", "slow", 40.0))
    now = run_of(50, Event("test", "quick", 1.0), Event("test", "slow", 30.0), Event("engine start", "tp4", 20.0))
    assert times.comparison(now, before, 2) == [
        " seconds   before  part: what",
        "    30.0     40.0  cluster: test slow",
        "    20.0        -  cluster: engine start tp4",
    ]


def test_a_run_is_compared_with_the_last_of_its_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / times.DIRECTORY
    directory.mkdir()
    for number, run in enumerate((run_of(1, slice_="1/4"), run_of(2, slice_="2/4"), run_of(3, slice_="1/4"))):
        times.write(run, tmp_path).rename(directory / f"{number}.json")
    found = times.latest(tmp_path)
    assert found is not None
    assert (found[0].seconds, found[1] and found[1].seconds) == (3, 1)
    assert times.main(["--build", str(tmp_path / "nowhere")]) == 1


def test_a_part_that_fails_without_a_test_is_counted_and_named() -> None:
    wrong = Event("step", "host_tuning: converge", 9.0, "failed", "spark0 says no\nand why")
    run = run_of(60, Event("test", "one", 1.0), wrong, status=2)
    assert times.counts(run) == (1, 1)
    lines = times.summary(run)
    at = lines.index("failed: cluster: host_tuning: converge")
    assert lines[at + 1 : at + 3] == ["    spark0 says no", "    and why"]
    assert any(line.startswith("cluster") and "FAILED" in line for line in lines)


def test_only_what_is_new_is_left_behind() -> None:
    before = {"links": ["eth0", "lo"], "mounts": []}
    after = {"links": ["lo"], "mounts": ["/run/docker"]}
    assert footprint.new_since(before, after) == {"mounts": ["/run/docker"]}


def test_an_engine_start_lasts_from_the_units_to_the_first_answer() -> None:
    def entry(second: int, event: str) -> dict[str, str]:
        return {"at": f"2026-01-01T00:00:{second:02}+00:00", "event": event}

    history = [
        entry(1, "serves"),
        entry(5, "all nodes are ready: starts firstlight-ray.service"),
        entry(9, "ends this start on all nodes: spark1 is lost"),
        entry(10, "all nodes are ready: starts firstlight-ray.service"),
        entry(31, "serves"),
    ]
    assert start_seconds(history) == [21.0]
