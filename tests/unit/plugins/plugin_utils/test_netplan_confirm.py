# SPDX-License-Identifier: Apache-2.0
"""Coming back to a host: what is asked in which order, and what the operator is told."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.netplan_confirm import (
    NETPLAN,
    Coming,
    UnreachableError,
    begin,
)

WORKS = {"waiting": False, "works": True}
WAITING = {"waiting": True}


def outcome(**changes: Any) -> dict[str, Any]:
    base = {"change": "c", "undone": True, "alone": True, "reason": "the controller did not come back within 60 s"}
    return {**base, "problem": "", "readded": [], "seconds": 61, **changes}


class Script:
    """A host that answers from a list; text means that it does not answer."""

    def __init__(self, *answers: dict[str, Any] | str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.said: list[str] = []
        self.clock = 0.0

    def step(self, name: str, change: str) -> dict[str, Any]:
        assert change == "c"
        self.asked.append(name)
        self.clock += 10
        if name == "forget":
            return {}
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, str):
            raise UnreachableError(answer)
        return answer

    def say(self, words: str) -> None:
        self.said.append(words)

    def now(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds


def come(script: Script) -> dict[str, Any]:
    return Coming(script, "c", "/etc/netplan/40-cx7.yaml", 60).run()


def test_it_looks_and_then_confirms() -> None:
    script = Script(WAITING, WORKS, WORKS)
    assert come(script) == {}
    assert script.asked == ["check", "check", "confirm"]
    assert script.said == []


def test_a_host_that_takes_it_back_at_once() -> None:
    taken = outcome(alone=False, reason="20 s after netplan apply: link fab0 has mtu 1500")
    script = Script({"waiting": False, "works": False, "outcome": taken})
    result = come(script)
    assert result["msg"] == (
        "The fabric ports did not come up: 20 s after netplan apply: link fab0 has mtu 1500. "
        "The host restored /etc/netplan/40-cx7.yaml and applied it."
    )
    assert script.asked == ["check", "forget"]


def test_a_host_that_was_cut_off_and_came_back() -> None:
    script = Script("timed out", "timed out", {"waiting": False, "works": False, "outcome": outcome()})
    result = come(script)
    assert "cut the host off from its controller (timed out)" in result["msg"]
    assert "rolled it back by itself after 61 s: the controller did not come back within 60 s" in result["msg"]
    assert "correct that, and run again" in result["msg"]
    assert result["outcome"]["alone"]
    assert len(script.said) == 1
    assert script.asked[-1] == "forget"


def test_an_undo_that_came_before_the_confirmation() -> None:
    script = Script(WORKS, {"waiting": False, "works": False, "outcome": outcome()})
    assert "cut the host off from its controller, and the host" in come(script)["msg"]
    assert script.asked == ["check", "confirm", "forget"]


def test_a_host_that_stays_away() -> None:
    script = Script("no route to host")
    result = come(script)
    assert "no longer answers (no route to host), 240 s after" in result["msg"]
    assert "console" in result["msg"]
    assert script.clock < 300


def test_a_step_that_refuses() -> None:
    assert come(Script({"failed": True, "msg": "it could not be taken back"}))["msg"] == "it could not be taken back"


def test_a_change_that_is_gone_without_a_word_is_not_taken_for_kept() -> None:
    script = Script({**WORKS, "over": True})
    found = come(script)
    assert found["failed"]
    assert "does not report the outcome of the change" in found["msg"]
    assert script.asked == ["check"]


def test_a_confirmation_whose_answer_got_lost_counts() -> None:
    script = Script(WORKS, "connection lost", {**WORKS, "over": True})
    assert come(script) == {}
    assert script.asked == ["check", "confirm", "confirm"]


BUSY = {"changed": False, "busy": {"change": "c1", "run": "theirs"}}


def start(answers: list[dict[str, Any]], over: bool) -> tuple[dict[str, Any], list[str], Script]:
    asked: list[str] = []
    script = Script()

    def ask(ended: str) -> dict[str, Any]:
        asked.append(ended)
        return dict(answers.pop(0) if len(answers) > 1 else answers[0])

    return begin(ask, lambda _run: over, script, NETPLAN, 180), asked, script


@pytest.mark.hostile
def test_a_change_of_a_run_that_is_over_is_taken_back_at_once() -> None:
    assert start([BUSY, {"changed": True}], over=True)[:2] == ({"changed": True}, ["", "c1"])


@pytest.mark.hostile
def test_a_change_of_a_run_that_may_live_is_waited_for() -> None:
    found, asked, script = start([BUSY, BUSY, {"changed": False}], over=False)
    assert (found, asked) == ({"changed": False}, ["", "", ""])
    assert script.now() > 0


@pytest.mark.hostile
def test_a_change_that_stays_is_told_and_left_alone() -> None:
    found, asked, script = start([BUSY], over=False)
    assert found["failed"]
    assert set(asked) == {""}
    assert script.now() > 180
    assert "Another run (theirs) has had a change under way" in found["msg"]
