# SPDX-License-Identifier: Apache-2.0
"""A machine that replaces another: its key is trusted when that is said, and pinned when it is verified."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from firstlight.ssh import trust
from firstlight.ssh.faults import NodeError
from firstlight.ssh.host_keys import HostKey, with_pin
from firstlight.ssh.session import Session
from firstlight.ssh.targets import Target
from firstlight.ssh.trust import Trust

OLD = HostKey("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIAwmaaOl67Yg/OYERrXT123KZvVJM4RdhTNZ5+qMDrgA")
NEW = HostKey("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIBvcHeWtPcBr7IVF02vsuNnmT2SZYMjk8F39ALCd+bdc")
THIRD = HostKey("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIBvcHeWtPcBr7IVF02vsuNnmT2SZYMjk8F39ALCd+bdd")
NODE = Target("spark2", "10.0.0.7", serial="S2")
OTHERS = f"spark1,10.0.0.6 {OLD.kind} {OLD.blob}\n"


class Shown:
    """A host that shows a key."""

    def __init__(self, key: HostKey) -> None:
        self.host_key = key

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def known(tmp_path: Path) -> Path:
    path = tmp_path / "known_hosts"
    path.write_text(f"{OTHERS}spark2,10.0.0.7 {OLD.kind} {OLD.blob}\n")
    return path


def opened(monkeypatch: pytest.MonkeyPatch, trusted: Trust, key: HostKey) -> str:
    """How a connection to a host with this key ends."""

    def shows(*_: Any) -> Shown:
        return Shown(key)

    monkeypatch.setattr(Session, "open", shows)
    try:
        trusted.open(NODE, 22)
    except NodeError as error:
        return error.fault.kind
    return "open"


def test_without_a_word_a_changed_key_is_refused(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened(monkeypatch, Trust(known, accepted=["spark2"]), NEW) == "host-key-changed"
    assert opened(monkeypatch, Trust(known, accepted=["spark2"], replaces=["spark1"]), NEW) == "host-key-changed"


def test_that_it_is_replaced_confirms_no_key(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened(monkeypatch, Trust(known, replaces=["spark2"]), NEW) == "host-key-unknown"


def test_the_old_pin_stays_until_the_machine_is_verified(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = known.read_text()
    trusted = Trust(known, accepted=["spark2"], replaces=["spark2"])
    assert opened(monkeypatch, trusted, NEW) == "open"
    assert trusted.waits(NODE, 22)
    assert known.read_text() == before
    assert opened(monkeypatch, trusted, THIRD) == "host-key-changed"
    trusted.replace(NODE, 22)
    assert known.read_text() == f"{OTHERS}spark2,10.0.0.7 {NEW.kind} {NEW.blob}\n"
    assert not trusted.waits(NODE, 22)
    assert opened(monkeypatch, Trust(known), NEW) == "open"
    assert opened(monkeypatch, Trust(known), OLD) == "host-key-changed"


def test_the_old_machine_is_still_the_pinned_one(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = Trust(known, accepted=["spark2"], replaces=["spark2"])
    assert opened(monkeypatch, trusted, OLD) == "open"
    assert not trusted.waits(NODE, 22)


def test_a_node_that_was_never_pinned_is_pinned_as_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = Trust(tmp_path / "known_hosts", accepted=["spark2"], replaces=["spark2"])
    assert opened(monkeypatch, trusted, NEW) == "open"
    assert trusted.known(NODE, 22) == [NEW, NEW]


@pytest.mark.hostile
def test_two_commands_at_once_lose_no_pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has read the file before the other one writes it, unless one waits for the other."""
    both = threading.Barrier(2)

    def meets(text: str, *arguments: Any) -> str:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.1)
        return with_pin(text, *arguments)

    path = tmp_path / "new" / "known_hosts"
    targets = [Target(f"spark{number}", f"10.0.0.{number}") for number in (1, 2)]
    monkeypatch.setattr(trust, "with_pin", meets)
    commands = [threading.Thread(target=Trust(path).pin, args=(target, 22, OLD)) for target in targets]
    for command in commands:
        command.start()
    for command in commands:
        command.join()
    monkeypatch.undo()
    assert [Trust(path).known(target, 22) for target in targets] == [[OLD, OLD]] * 2
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["known_hosts"]


@pytest.mark.hostile
def test_a_key_is_not_pinned_beside_another_that_came_first(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two operators accept what a node shows, and a stranger has answered one of them."""
    known.write_text(OTHERS)
    mine = Trust(known, accepted=["spark2"])
    assert mine.evaluate(NODE, 22, NEW) == "accepted"
    monkeypatch.setattr(Trust, "evaluate", lambda *_: "accepted")
    Trust(known).pin(NODE, 22, OLD)
    before = known.read_text()
    assert opened(monkeypatch, mine, NEW) == "host-key-changed"
    assert known.read_text() == before
    assert mine.new == {}


def test_a_file_that_can_only_be_read_is_no_fault_where_the_key_is_pinned(
    known: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trust, "_alone", None)
    assert opened(monkeypatch, Trust(known), OLD) == "open"
