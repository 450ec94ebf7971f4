# SPDX-License-Identifier: Apache-2.0
"""How far an engine is on one node, as the kernel, the journal and its cache tell it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import Loading, UnitPlan, UnitReport
from ansible_collections.firstlight.cluster.roles.supervisor.program import caches, units
from ansible_collections.firstlight.cluster.roles.supervisor.program.watch import (
    COUNT_SECONDS,
    MOST_KINDS,
    Watch,
    kind_of_line,
)

from tests.unit.fake_host import Call, FakeHost, Reply, failure

RAY, SERVER = "firstlight-ray.service", "firstlight-server.service"
PLAN = (UnitPlan(RAY, 0, "firstlight-ray"), UnitPlan(SERVER, 2, "firstlight-server"))
IDS = {"firstlight-ray": "a" * 64, "firstlight-server": "b" * 64}
SECRET = "key-that-nobody-may-read"


def io(read: int, rchar: int = 0) -> str:
    return f"rchar: {rchar}\nwchar: 0\nread_bytes: {read}\nwrite_bytes: 0\n"


def stat(ticks: int) -> str:
    return f"7 (VLLM::Worker) S 1 7 7 0 -1 0 0 0 0 0 10 20 {ticks} 0 20 0 1 0 5\n"


class Loads(FakeHost):
    """A host on which an engine loads: processes by container, and what units have said."""

    def __init__(self) -> None:
        super().__init__(files={"/proc/": None})
        self.said: dict[str, list[Any]] = {RAY: [], SERVER: []}
        self.ids: dict[str, str] = dict(IDS)
        self.journal_answers = True
        self.process(1, "init.scope", io(10**12))

    def process(self, number: int, group: str, text: str | None, ticks: int = 0) -> None:
        place = f"/system.slice/docker-{IDS[group]}.scope" if group in IDS else f"/system.slice/{group}"
        assert self.files is not None
        self.files |= {
            f"/proc/{number}/cgroup": f"0::{place}\n",
            f"/proc/{number}/io": text,
            f"/proc/{number}/stat": stat(ticks),
        }

    def answer(self, call: Call) -> Reply:
        if call.argv[:2] == ("docker", "inspect"):
            found = self.ids.get(call.argv[-1])
            return f"{found}\n" if found else failure("Error: No such container")
        assert call.argv[0] == "journalctl", call.line
        if not self.journal_answers:
            return Result(call.argv, 1)
        unit = call.argv[1].partition("=")[2]
        after = next((word.partition("=")[2] for word in call.argv if word.startswith("--after-cursor=")), "0")
        told = [
            json.dumps({"__CURSOR": str(number), "__MONOTONIC_TIMESTAMP": str(number), "MESSAGE": message})
            for number, message in enumerate(self.said[unit], 1)
            if number > int(after)
        ]
        return "\n".join(told)

    def asked_docker(self) -> int:
        return sum(line.startswith("docker") for line in self.lines)


def seen(**active: bool) -> dict[str, units.Seen]:
    running = {RAY: True, SERVER: True, **active}
    return {unit: units.Seen(UnitReport(active=running[unit]), "1", f"start-of-{unit}") for unit in (RAY, SERVER)}


def watch(host: Loads, plan: tuple[UnitPlan, ...] = PLAN, cache: str = "") -> Watch:
    return Watch(host, plan, cache, lambda: [SECRET])


def test_what_all_processes_of_all_containers_have_read_is_added_up() -> None:
    host = Loads()
    host.process(10, "firstlight-ray", io(0, 5_000))
    host.process(11, "firstlight-ray", io(70_000, 10), ticks=900)
    host.process(12, "firstlight-server", io(1, 2_000), ticks=150)
    host.process(13, "sshd.service", io(10**12), ticks=10**6)
    found = watch(host).look(0, seen())
    assert found.known
    assert found.bytes_read == 77_000
    # 100 clock ticks a second on every machine that runs Linux today.
    assert found.child_seconds == 10


def test_docker_is_asked_once_for_each_start_of_a_container() -> None:
    host = Loads()
    host.process(10, "firstlight-ray", io(1))
    looks = watch(host)
    del host.ids["firstlight-server"]
    assert not looks.look(0, seen()).known
    host.ids = dict(IDS)
    assert looks.look(5, seen()).known
    asked = host.asked_docker()
    looks.look(10, seen())
    assert host.asked_docker() == asked
    again = {**seen(), SERVER: units.Seen(UnitReport(active=True), "2", "another start")}
    looks.look(15, again)
    assert host.asked_docker() == asked + 1


def test_a_unit_without_a_container_is_known_by_its_own_group() -> None:
    host = Loads()
    host.process(10, SERVER, io(99))
    found = watch(host, (UnitPlan(SERVER),)).look(0, seen())
    assert (found.known, found.bytes_read, host.asked_docker()) == (True, 99, 0)


@pytest.mark.parametrize("trouble", ["no id", "no journal", "no counters", "no process"])
def test_what_cannot_be_read_is_not_taken_for_standing_still(trouble: str) -> None:
    host = Loads()
    if trouble != "no process":
        host.process(10, "firstlight-ray", None if trouble == "no counters" else io(5))
    if trouble == "no id":
        host.ids = {"firstlight-ray": "not an id", "firstlight-server": IDS["firstlight-server"]}
    host.journal_answers = trouble != "no journal"
    assert not watch(host).look(0, seen()).known


def test_only_units_that_run_are_looked_at() -> None:
    host = Loads()
    host.process(10, "firstlight-ray", io(5))
    del host.ids["firstlight-server"]
    assert watch(host).look(0, seen(**{SERVER: False})).known
    assert watch(host).look(0, seen(**{RAY: False, SERVER: False})) == Loading()


def test_a_line_that_is_repeated_is_one_kind_and_no_secret_leaves_the_host() -> None:
    host = Loads()
    host.process(10, "firstlight-ray", io(5))
    looks = watch(host)
    host.said[SERVER] = ["INFO 11-17 14:15:02 [core.py:45] Loading", f"with {SECRET}"]
    first = looks.look(0, seen())
    assert (first.lines, first.last_line) == (2, "with ********")
    complaint = "INFO 11-17 14:{}:02 [shm_broadcast.py:456] No available shared memory broadcast block found in 60 s"
    host.said[SERVER].append(complaint.format(16))
    assert looks.look(60, seen()).lines == 3
    host.said[SERVER] += [complaint.format(17), complaint.format(18), ""]
    third = looks.look(180, seen())
    assert (third.lines, third.last_line) == (3, complaint.format(18))
    host.said[SERVER].append("INFO 11-17 14:20:02 [gpu_model_runner.py:1] Graph capturing finished")
    assert looks.look(200, seen()).lines == 4
    looks.forget()
    assert looks.look(300, seen()).lines == 4


def test_bytes_instead_of_text_and_lines_that_are_too_long_are_lines_too() -> None:
    host = Loads()
    host.process(10, "firstlight-ray", io(5))
    host.said[SERVER] = [list(b"caf\xe9 1"), None, "x" * 5000]
    found = watch(host).look(0, seen())
    assert found.lines == 2
    assert len(found.last_line) == units.LONGEST_LINE


def test_an_engine_that_never_says_the_same_twice_has_said_enough_some_day() -> None:
    host = Loads()
    host.process(10, "firstlight-ray", io(5))
    host.said[SERVER] = ["".join(chr(97 + int(digit)) for digit in str(number)) for number in range(2 * MOST_KINDS)]
    assert watch(host).look(0, seen()).lines == MOST_KINDS


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("took 1.25 s at 14:15:02", "took 3.5 s at 14:16:59", True),
        ("(Worker pid=12) ready", "(Worker pid=99) ready", True),
        ("id 3f2a", "id 9c81", True),
        ("Loading weights", "Capturing graphs", False),
        ("  a   b", "a b", True),
    ],
)
def test_lines_that_say_the_same_are_of_one_kind(one: str, other: str, same: bool) -> None:
    assert (kind_of_line(one) == kind_of_line(other)) is same


def test_files_of_the_cache_are_counted_now_and_then(tmp_path: Path) -> None:
    host = Loads()
    host.process(10, "firstlight-ray", io(5))
    looks = watch(host, cache=str(tmp_path))
    assert looks.look(0, seen()).cached_files == 0
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton/a.cubin").write_text("x")
    assert looks.look(COUNT_SECONDS - 1, seen()).cached_files == 0
    assert looks.look(COUNT_SECONDS, seen()).cached_files == 1


def test_counting_ends_where_there_are_very_many(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}").write_text("")
    assert (caches.count_files(str(tmp_path), 3), caches.count_files(str(tmp_path / "none"))) == (3, 0)


def test_emptying_leaves_the_directory_and_follows_no_link(tmp_path: Path) -> None:
    cache, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    (cache / "triton" / "deep").mkdir(parents=True)
    (cache / "triton" / "deep" / "a").write_text("x")
    (cache / "file").write_text("x")
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("x")
    (cache / "link").symlink_to(elsewhere)
    assert caches.empty(str(cache)) == ""
    assert (list(cache.iterdir()), (elsewhere / "kept").read_text()) == ([], "x")
    assert caches.empty(str(tmp_path / "none")) == ""


def test_what_cannot_be_emptied_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "the start continues with the old compile cache" in caches.empty(str(tmp_path / "file"))
