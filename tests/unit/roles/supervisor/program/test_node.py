# SPDX-License-Identifier: Apache-2.0
"""One node's passes: what is reported when nobody answers, and what is done with a unit that does not go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import DRAINED_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.repin.journals import MARKER
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import parse_config
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    NOTHING,
    Held,
    Loading,
    NodeReport,
    Order,
)
from ansible_collections.firstlight.cluster.roles.supervisor.program.background import Background
from ansible_collections.firstlight.cluster.roles.supervisor.program.node import WATCH, Node, Tools
from ansible_collections.firstlight.cluster.roles.supervisor.program.readiness import Readiness
from ansible_collections.firstlight.cluster.roles.supervisor.program.state_files import StateFiles
from ansible_collections.firstlight.cluster.roles.supervisor.program.units import Seen
from ansible_collections.firstlight.cluster.roles.supervisor.program.watch import Watch

from tests.unit.fake_host import Call, FakeHost, Reply, no_answer

from .test_units import block

UNIT, CONTAINER = "firstlight-server.service", "firstlight-server"
CONFIG = parse_config(
    {
        "version": 1,
        "node": "n0",
        "head": {"name": "n0"},
        "groups": [
            {
                "name": "server",
                "head": "n0",
                "nodes": {"n0": [{"unit": UNIT, "container": CONTAINER}]},
                "timing": {"stop_timeout": 10},
            }
        ],
    }
)


class Scripted(FakeHost):
    """A host whose unit is in one state, and whose commands can be told to hang."""

    def __init__(self) -> None:
        super().__init__()
        self.state = "active"
        self.containers = CONTAINER
        self.hung: set[str] = set()
        self.did: list[str] = []

    def answer(self, call: Call) -> Reply:
        program, verb = call.argv[:2]
        if program in self.hung:
            return no_answer(call)
        if verb == "show":
            return block(UNIT, ActiveState=self.state, SubState="x")
        if verb in ("start", "stop", "kill", "rm"):
            self.did.append(verb)
        return self.containers if verb == "ps" else ""


class Story:
    """A node with a clock of its own."""

    def __init__(self, place: Path, cache: str = "") -> None:
        self.host = Scripted()
        group = CONFIG.groups[0]
        group = replace(group, needs=replace(group.needs, compile_cache=cache))
        self.now = 0.0
        self.order: Order | None = Order("e1", 0, {"n0": "b"})
        self.held: list[Held] = []
        self.news = 0
        files = StateFiles(str(place), str(place))
        tools = Tools(CONFIG, self.host, files, Background(), "b", clock=lambda: self.now)
        self.node = Node(
            tools,
            group,
            order=lambda: self.order,
            keep=self.held.append,
            heard=self._heard,
            held=Held("e1", 0),
        )

    def _heard(self) -> None:
        self.news += 1

    @property
    def report(self) -> NodeReport | None:
        return self.node.report

    def once(self) -> list[str]:
        """One pass; what it did."""
        self.host.did = []
        asyncio.run(self.node.once())
        return self.host.did


def test_a_systemd_that_hangs_changes_nothing_but_what_is_said(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.host.hung = {"systemctl"}
    story.once()
    assert story.report is None
    assert "systemd did not report" in story.node.problem
    story.host.hung = set()
    story.once()
    assert story.node.report is not None
    assert (story.node.report.units[UNIT].running, story.node.problem) == (True, "")
    story.host.hung = {"systemctl"}
    assert story.once() == []
    assert story.node.report.units[UNIT].running
    assert (story.node.report.ready, len(story.node.report.problems)) == (False, 1)


def test_what_the_head_says_of_loading_reaches_the_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[bool] = []

    async def while_running(_: Readiness, *, loading: bool = False) -> None:
        seen.append(loading)

    monkeypatch.setattr(Readiness, "while_running", while_running)
    story = Story(tmp_path)
    for order in (Order("e1", 0, {"n0": "b"}, loading=True), Order("e1", 0, {"n0": "b"}), None):
        story.order = order
        story.once()
    assert seen == [True, False, False]


def test_a_docker_that_hangs_is_a_node_that_is_not_clean(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.host.state, story.host.hung = "inactive", {"docker"}
    story.order = Order("e2", NOTHING)
    story.once()
    report = story.node.report
    assert report is not None
    assert (report.clean, report.ready) == (False, False)
    assert "Docker did not list its containers (docker gave no answer" in report.problems[0]


def test_the_marker_of_a_drain_or_a_re_pin_stops_what_serves_until_it_is_gone(tmp_path: Path) -> None:
    assert StateFiles().drained_path == DRAINED_PATH == MARKER
    story = Story(tmp_path)
    marker = Path(StateFiles(state=str(tmp_path)).drained_path)
    marker.touch()
    assert story.once() == ["stop"]
    assert story.report is not None
    assert (story.report.drained, story.report.ready) == (True, False)
    assert "n0 is drained" in story.report.problems[0]
    marker.unlink()
    story.host.state, story.host.containers = "inactive", ""
    story.once()
    assert (story.report.drained, story.report.ready) == (False, True)


def test_a_unit_that_does_not_go_is_killed_in_the_end_and_that_is_said(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.order = None
    assert story.once() == ["stop"]
    story.host.state = "deactivating"
    story.now = 9.0
    assert story.once() == []
    story.now = 11.0
    assert sorted(story.once()) == ["kill", "rm", "stop"]
    assert "still exists more than 10 s after the order to stop" in story.node.problem
    story.once()
    assert story.node.report is not None
    assert story.node.problem in story.node.report.problems
    story.host.state, story.host.containers = "inactive", ""
    assert story.once() == []
    assert (story.node.problem, story.node.report.clean, story.node.report.ready) == ("", True, True)
    assert story.held[-1] == Held(ended="e1")


def test_only_news_are_told_at_once(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.once()
    story.once()
    assert story.news == 1
    story.host.state = "failed"
    story.once()
    assert story.news == 2


def test_how_far_the_engine_is_is_read_now_and_then_and_only_while_the_head_wants_to_know(tmp_path: Path) -> None:
    story = Story(tmp_path)

    def read() -> int:
        before = len(story.host.lines)
        story.once()
        return sum(line.startswith("journalctl") for line in story.host.lines[before:])

    assert read() == 0
    story.order = Order("e1", 0, {"n0": "b"}, measure=True)
    assert [read(), read()] == [1, 0]
    story.now += WATCH
    assert read() == 1
    story.host.state, story.host.containers = "inactive", ""
    story.now += WATCH
    assert read() == 0
    story.order = Order("e1", 0, {"n0": "b"})
    assert read() == 0


def test_what_was_compiled_is_thrown_away_before_the_first_unit_starts(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "triton").mkdir(parents=True)
    story = Story(tmp_path, str(cache))
    story.host.state, story.host.containers = "inactive", ""
    story.order = Order("e2", 0, {"n0": "b"})
    assert story.once() == ["start"]
    assert list(cache.iterdir()) != []
    story = Story(tmp_path, str(cache))
    story.host.state, story.host.containers = "inactive", ""
    story.order = Order("e2", 0, {"n0": "b"}, discard=True)
    assert story.once() == ["start"]
    assert list(cache.iterdir()) == []


def test_a_docker_that_is_slow_while_a_model_loads_does_not_hold_up_what_is_said_of_the_units(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.order = Order("e1", 0, {"n0": "b"}, measure=True)
    held = threading.Event()

    class Slow(Watch):
        def look(self, now: float, seen: Mapping[str, Seen]) -> Loading:
            held.wait(30)
            return Loading(known=True, bytes_read=7)

    story.node._watch = Slow(story.host, (), "", list)

    async def two_looks() -> list[NodeReport | None]:
        await story.node.once()
        first = story.node.report
        held.set()
        await story.node.once()
        return [first, story.node.report]

    first, second = asyncio.run(two_looks())
    assert first is not None
    assert (first.units[UNIT].running, first.loading) == (True, Loading())
    assert second is not None
    assert second.loading.bytes_read == 7


def test_a_reading_that_fails_is_said_and_the_units_are_reported_all_the_same(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.order = Order("e1", 0, {"n0": "b"}, measure=True)

    class Broken(Watch):
        def look(self, now: float, seen: Mapping[str, Seen]) -> Loading:
            raise ZeroDivisionError("no such thing")

    story.node._watch = Broken(story.host, (), "", list)
    story.once()
    assert story.node.report is not None
    assert story.node.report.units[UNIT].running
    assert not story.node.report.loading.known
