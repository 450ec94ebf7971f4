# SPDX-License-Identifier: Apache-2.0
"""The lease on the head: one holds it, whatever the clock, the disk and the order of events do."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.lease import (
    BEAT,
    LOST,
    LeaseError,
    Leases,
    beat_command,
    release_command,
)

from tests.unit.full_disk import FullDisk

pytestmark = pytest.mark.hostile


class Head:
    """A head in a directory, whose boot and time since it the test decides."""

    def __init__(self, root: Path) -> None:
        self.path = root / "var" / "lease.json"
        self.uptime, self.boot = root / "uptime", root / "boot_id"
        self.at(100)
        self.leases = Leases(str(self.path), str(self.uptime), str(self.boot))

    def at(self, seconds: float, boot: str = "one") -> None:
        self.uptime.write_text(f"{seconds} 3.5\n")
        self.boot.write_text(f"{boot}\n")

    def take(self, run: str, replace: str = "") -> dict[str, Any]:
        wanted = {"run": run, "owner": f"{run}@control", "machine": "m", "pid": 4711, "playbook": "site.yml"}
        return self.leases.take(wanted, replace)


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path)


def shell(command: str) -> int:
    return subprocess.run(["/bin/sh", "-c", command], check=False, timeout=60).returncode


def test_the_second_hears_whose_it_is_since_when_and_when_that_was_heard(head: Head) -> None:
    first = head.take("alice")
    assert (first["taken"], first["renewed"]) == (True, False)
    head.at(112.5)
    second = head.take("bob")
    assert (second["taken"], second["lease"], second["age"]) == (False, first["lease"], 12.5)
    assert second["lease"]["owner"] == "alice@control"
    assert second["lease"]["since"].endswith(" UTC")
    again = head.take("alice")
    assert (again["taken"], again["renewed"], again["lease"]) == (True, True, first["lease"])


def test_only_the_lease_that_was_seen_is_taken_over(head: Head) -> None:
    head.take("alice")
    assert head.take("bob", replace="alice")["taken"]
    assert head.take("carol", replace="alice")["lease"]["run"] == "bob", "somebody was quicker"


def test_of_many_at_once_one_gets_it(head: Head) -> None:
    with ThreadPoolExecutor(16) as pool:
        taken = [answer["taken"] for answer in pool.map(head.take, [f"run{number}" for number in range(16)])]
    assert sum(taken) == 1


@pytest.mark.parametrize(
    ("seconds", "boot", "age"),
    [(130, "one", 30), (99, "one", 0), (20, "two", 20)],
    ids=["later", "never negative", "after a boot at least since then"],
)
def test_the_clock_does_not_matter(head: Head, seconds: float, boot: str, age: float) -> None:
    """It is nowhere read for this: an hour back and a day forward are the same."""
    head.take("alice")
    head.at(seconds, boot)
    assert head.leases.age() == age


def test_a_heartbeat_that_cannot_be_read_says_nothing(head: Head) -> None:
    head.take("alice")
    head.path.with_name(head.path.name + BEAT).write_text("")
    assert head.take("bob")["age"] is None


def test_a_heartbeat_and_the_end_on_the_head(head: Head) -> None:
    path = str(head.path)
    assert shell(beat_command(path, "alice")) == 0, "a lease that somebody removed is no reason to stop"
    assert not head.path.parent.exists()
    head.take("alice")
    beat = head.path.with_name(head.path.name + BEAT)
    before = beat.read_text()
    assert shell(beat_command(path, "alice")) == 0
    assert beat.read_text() != before
    assert Leases(path).age() == pytest.approx(0, abs=50)
    assert shell(beat_command(path, "bob")) == LOST
    assert shell(release_command(path, "bob")) == LOST
    assert head.path.exists()
    assert shell(release_command(path, "alice")) == 0
    assert not head.path.parent.exists(), "nothing else was there"


def test_a_directory_that_goes_with_the_former_lease_is_made_again(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    going = iter([True, True, False])
    real = os.makedirs

    def made(path: str, **named: Any) -> None:
        real(path, **named)
        if next(going):
            os.rmdir(path)

    monkeypatch.setattr(os, "makedirs", made)
    assert head.take("alice")["taken"]
    monkeypatch.setattr(os, "makedirs", lambda path, **_named: shutil.rmtree(path, ignore_errors=True))
    with pytest.raises(LeaseError, match="keeps disappearing"):
        head.take("bob")


def test_what_others_keep_beside_it_stays(head: Head) -> None:
    head.take("alice")
    (head.path.parent / "drained").touch()
    assert shell(release_command(str(head.path), "alice")) == 0
    assert [path.name for path in head.path.parent.iterdir()] == ["drained"]


@pytest.mark.parametrize("text", ["", "[]", '{"run": "alice"}', "\x00"])
def test_a_file_that_is_no_lease_is_named(head: Head, text: str) -> None:
    head.path.parent.mkdir()
    head.path.write_text(text)
    with pytest.raises(LeaseError, match=r"lease\.json was not written by a run, expected .*remove the file"):
        head.take("alice")
    assert head.path.read_text() == text


def test_a_full_disk_is_told_and_leaves_the_former_lease_or_a_whole_one(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch, tmp_path)
    for point in itertools.count():
        disk.points, disk.full_at = 0, point
        try:
            head.take("alice")
        except LeaseError as error:
            problem = str(error)
        else:
            break
        disk.full_at = -1
        assert "cannot be kept in" in problem
        assert "No space left on device" in problem
        found = head.leases.read()
        assert found is None or found["run"] == "alice"
    assert point > 3
    disk.full_at = -1
    assert head.take("bob")["taken"] is False
