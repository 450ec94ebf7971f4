# SPDX-License-Identifier: Apache-2.0
"""The small parts of the program: threads that may hang, files that may not be written, and systemd's socket."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.roles.supervisor.program import main
from ansible_collections.firstlight.cluster.roles.supervisor.program.background import Background, NoAnswerError
from ansible_collections.firstlight.cluster.roles.supervisor.program.notify import Systemd, Talk, one_line, say
from ansible_collections.firstlight.cluster.roles.supervisor.program.shown import Clocks, past, status_line
from ansible_collections.firstlight.cluster.roles.supervisor.program.state_files import StateFiles, moment
from ansible_collections.firstlight.cluster.roles.supervisor.program.supervisor import Supervisor


def test_what_hangs_costs_one_thread() -> None:
    held = threading.Event()

    async def story() -> None:
        background = Background()
        with pytest.raises(NoAnswerError, match=r"the disk gave no answer within 0\.05 s"):
            await background.ask("the disk", held.wait, 0.05)
        with pytest.raises(NoAnswerError, match="the disk has still not answered"):
            await background.ask("the disk", lambda: None, 5)
        assert await background.ask("something else", lambda: 7, 5) == 7
        held.set()
        while True:
            try:
                assert await background.ask("the disk", lambda: 8, 5) == 8
                return
            except NoAnswerError:
                await asyncio.sleep(0.01)

    asyncio.run(story())


def test_a_machine_that_has_no_thread_left_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def ask() -> int:
        background = Background()
        with monkeypatch.context() as short:
            short.setattr(threading.Thread, "start", refuse)
            with pytest.raises(NoAnswerError, match="the disk cannot be queried"):
                await background.ask("the disk", lambda: 1, 1)
        return await background.ask("the disk", lambda: 1, 5)

    assert asyncio.run(ask()) == 1


def test_what_fails_in_a_thread_fails_where_it_was_asked() -> None:
    async def story() -> None:
        with pytest.raises(ZeroDivisionError):
            await Background().ask("a sum", lambda: 1 // 0, 5)

    asyncio.run(story())


def test_systemd_is_told_what_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("notify")
        systemd.settimeout(1)
        told = Systemd({"NOTIFY_SOCKET": "notify", "WATCHDOG_USEC": "60000000"})
        assert told.watchdog == 60
        told.ready()
        told.status("server is\nserving")
        told.status("server is\nserving")
        told.alive()
        told.stopping()
        assert [systemd.recv(100) for _ in range(4)] == [
            b"READY=1",
            b"STATUS=server is serving",
            b"WATCHDOG=1",
            b"STOPPING=1",
        ]
    told.alive()
    Systemd({}).ready()
    assert Systemd({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}).watchdog == 0


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """Of a supervisor with one unit."""
    unit = {"name": "server", "head": "n0", "nodes": {"n0": [{"unit": "server.service"}]}}
    config = {"version": 1, "node": "n0", "head": {"name": "n0"}, "groups": [unit]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return [f"--config={tmp_path}/config.json", f"--run-directory={tmp_path}/run", f"--state-directory={tmp_path}"]


def test_what_the_supervisor_runs_does_not_speak_to_systemd(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
    for name in names:
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(os, "set_blocking", lambda *_: None)
    seen: dict[str, str] = {}

    async def look(_: Supervisor) -> int:
        seen.update(os.environ)
        return 0

    monkeypatch.setattr(Supervisor, "run", look)
    assert main.run(arguments) == 0
    assert seen
    assert not any(name in seen for name in names)


def test_a_second_supervisor_leaves_with_a_word(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = StateFiles(str(tmp_path / "run"), str(tmp_path))
    assert first.lock()
    assert main.run(arguments) == 1
    assert f"another supervisor runs on this node and holds {tmp_path}/run/supervisor.lock" in capfd.readouterr().err


def test_what_goes_on_for_days_does_not_fill_the_journal() -> None:
    talk = Talk()
    told = [talk.is_news(second, "waits for n1", f"n1 has {second} GB free") for second in range(0, 300, 2)]
    assert told.count(True) == 5
    assert talk.is_news(299, "waits for n2", "n2 is away")
    assert not talk.is_news(1000, "waits for n2", "n2 is away")


def test_a_line_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    say("one\ntwo\x1b[0m", 4)
    assert capfd.readouterr().out == "<4>one two [0m\n"
    assert one_line("x" * 10, 8) == "xxxxx..."


def test_files_are_kept_and_found_again(tmp_path: Path) -> None:
    files = StateFiles(str(tmp_path / "run"), str(tmp_path / "state"))
    assert (files.remembered(), files.epochs("b1"), files.shown(), files.drained()) == ({}, {}, {}, False)
    assert files.remember({"server": {"attempts": 2}}) == ""
    assert files.remembered() == {"server": {"attempts": 2}}
    assert (os.stat(files.remembered_path).st_mode & 0o777) == 0o600
    assert files.keep_epochs("b1", {"server": {"epoch": "e"}}) == ""
    assert (files.epochs("b1"), files.epochs("b2")) == ({"server": {"epoch": "e"}}, {})
    assert files.show({"version": 1}) == ""
    assert json.loads(Path(files.state_path).read_text()) == {"version": 1}
    assert (os.stat(files.state_path).st_mode & 0o777) == 0o644


def test_a_node_has_one_supervisor(tmp_path: Path) -> None:
    first, second = (StateFiles(str(tmp_path / "run"), str(tmp_path)) for _ in range(2))
    assert (first.lock(), second.lock()) == (True, False)
    (tmp_path / "file").touch()
    assert StateFiles(str(tmp_path / "file"), str(tmp_path)).lock()


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"version": 9, "groups": {"server": {}}}', '{"version":1,"groups":[]}']
)
def test_a_memory_that_cannot_be_understood_is_none(tmp_path: Path, text: str) -> None:
    files = StateFiles(str(tmp_path), str(tmp_path))
    Path(files.remembered_path).write_text(text)
    assert files.remembered() == {}


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    files = StateFiles(str(tmp_path / "file"), str(tmp_path / "file/below"))
    for problem in (files.show({}), files.remember({}), files.keep_epochs("b", {})):
        assert "cannot be written" in problem
        assert "the supervisor continues" in problem


def test_history_is_taken_over_by_the_next_supervisor() -> None:
    clocks = Clocks(now=100.0, wall=1_800_000_000.0)
    shown = {"groups": {"server": {"history": [{"at": moment(1_799_999_990), "event": "served"}, {"at": 5}, "x"]}}}
    assert past(shown, "server", clocks) == [(90.0, "served")]
    assert clocks.at(90.0) == moment(1_799_999_990)
    assert past({}, "server", clocks) == past({"groups": {"server": {"history": 3}}}, "server", clocks) == []


def test_the_status_says_why_only_where_something_is_wrong() -> None:
    phases = {"a": ("serving", "fine"), "b": ("gathering", "waits for n1")}
    assert status_line(phases, "") == "a is serving; b is gathering: waits for n1"
    assert status_line({}, "no disk") == "no disk"
