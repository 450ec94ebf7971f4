# SPDX-License-Identifier: Apache-2.0
"""A job on a host is asked until it ends, also over a connection that breaks, and the callback is told meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.blocks import Waiting, notes_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.display import Progress
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.notes import (
    VARIABLE,
    close_notes,
    note,
    open_notes,
    read_notes,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.watching import LOST, watch

HALF = {"unfinished": True, "progress": {"doing": "copying", "done": 1e9, "total": 2e9, "rate": 1e8, "left": 10.0}}


class Far:
    """A host that gives these answers, with a clock that its pauses move."""

    def __init__(self, *answers: dict[str, Any] | None) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.now = 0.0

    def ask(self, extra: dict[str, Any]) -> dict[str, Any] | None:
        self.asked.append(extra)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def watch(self) -> dict[str, Any] | None:
        return watch(self.ask, self.said.append, lambda: self.now, self.pause)


def test_a_short_job_is_asked_once() -> None:
    far = Far({"changed": True})
    assert far.watch() == {"changed": True}
    assert far.asked == [{"wait": 4.0}]
    assert far.said == []


def test_a_long_job_is_asked_until_it_ends() -> None:
    far = Far(HALF, HALF, {"changed": True})
    assert far.watch() == {"changed": True}
    assert far.asked[1:] == [{"wait": 4.0, "attach": True}] * 2
    assert far.said == ["copying 1.0 of 2.0 GB, 100.0 MB/s, 10 s left"] * 2


def test_a_connection_that_breaks_does_not_end_it() -> None:
    far = Far(HALF, None, None, HALF, {"changed": True})
    assert far.watch() == {"changed": True}
    assert far.said.count("unreachable, the job continues there") == 2


def test_a_host_that_stays_away_is_given_up() -> None:
    far = Far(HALF, None)
    assert far.watch() is None
    assert far.now >= LOST
    assert Far(None).watch() is None


def test_notes_go_from_one_process_to_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    note("spark0", "to nobody")
    directory = open_notes()
    assert os.stat(directory).st_mode & 0o777 == 0o700
    note("spark0", "1 of 2 GB")
    note("spark/1", "half")
    assert read_notes(directory) == {"spark0": "1 of 2 GB", "spark/1": "half"}
    note("spark0", "")
    note("spark0", "")
    (Path(directory) / "other").write_text("{")
    assert read_notes(directory) == {"spark/1": "half"}
    close_notes(directory)
    assert VARIABLE not in os.environ
    assert read_notes(directory) == {}
    monkeypatch.setenv(VARIABLE, directory)
    note("spark0", "too late")


def test_a_note_is_shown_while_its_task_runs() -> None:
    run = Progress(lambda: 0.0)
    run.start_phase("Weights", "p")
    run.start_task("spark0", "t", "Provide the model")
    run.note({"spark0": "1 of\n2 GB", "spark9": "nobody waits for it"})
    assert run.status(100).endswith("spark0: Provide the model (0 s, 1 of 2 GB)")


def test_hosts_that_differ_are_told_apart() -> None:
    def waiting(host: str, words: str) -> Waiting:
        return Waiting(host, "k", "Copy", 0.0, note=words)

    assert notes_of([waiting("a", ""), waiting("b", "try 2 of 3")]) == "try 2 of 3"
    assert notes_of([waiting("a", "half"), waiting("b", "third")]) == "a half; b third"
    assert notes_of([waiting("a", "")]) == ""
