# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    HOLD,
    NOTHING,
    NodeReport,
    Timing,
    UnitReport,
)
from ansible_collections.firstlight.cluster.roles.supervisor.program.machine import Head
from ansible_collections.firstlight.cluster.roles.supervisor.program.memory import Memory, recall

from .group import PLAN, RAY, SERVER, Group, running

# --- failures in a row -----------------------------------------------------------------------------------------------


def test_failed_starts_pause_longer_and_end_in_giving_up_with_a_reason() -> None:
    group = Group()
    pauses = []
    for _ in range(2):
        decision = group.fail_start()
        assert decision.phase == "backing-off"
        assert decision.next_start is not None
        pauses.append(decision.next_start - group.now)
        group.tick(pauses[-1] - 1)
        assert group.decision.phase == "backing-off"
        group.tick()
    assert pauses == [5, 10]
    decision = group.fail_start()
    assert decision.phase == "failed"
    assert decision.why == (
        "gave up after 3 failed starts in a row and stays down: fix the reported cause, then run playbooks/serve.yml. "
        "The last start: ray.service on spark0 has ended (failed (exit status 1))"
    )
    assert group.tick(100_000).order.stage == NOTHING


def test_a_pause_has_a_longest() -> None:
    plan = replace(PLAN, timing=Timing(start_attempts=99, max_backoff=300))
    head = Head(plan, {"attempts": 50}, "b", lambda: "e")
    reports = {node: NodeReport(node, seen="e") for node in PLAN.nodes}
    assert head.tick(0, reports).next_start == 300


def test_giving_up_survives_a_boot_and_a_restart_request_forgets_it() -> None:
    group = Group()
    for _ in range(3):
        decision = group.fail_start()
        group.now += 1000
    later = Group(decision.remember, boot="b2")
    assert later.until("failed").why == decision.why
    assert later.tick(restart=True).attempts == 0
    assert later.until("starting").remember["given_up"] == ""


def test_giving_up_waits_until_all_is_stopped_but_not_for_ever() -> None:
    group = Group(Memory(attempts=2).as_data())
    group.until("starting")
    group.obey()
    group.unit("spark0", RAY, UnitReport(failed=True))
    group.tick()
    group.set("spark0", clean=False)
    assert group.tick(240).phase == "stopping"
    assert group.tick(1).phase == "failed"


def test_units_started_by_a_person_end_a_giving_up() -> None:
    group = running("")
    given_up = Group(Memory(attempts=3, given_up="it burnt").as_data())
    given_up.reports = group.reports
    decision = given_up.tick()
    assert (decision.phase, decision.attempts, decision.remember["given_up"]) == ("warming", 0, "")


@pytest.mark.parametrize(
    ("boot", "words"),
    [
        (
            "b1",
            ("the supervisor of spark0 was restarted during a start, and ray.service, server.service is not running"),
        ),
        ("b2", "spark0 itself went down while the group was starting"),
    ],
)
def test_a_start_that_takes_the_head_or_its_supervisor_down_counts(boot: str, words: str) -> None:
    group = Group(Group().until("starting").remember, boot)
    assert group.until("starting").attempts == 1
    assert group.events[0].startswith(f"failed start 1 of at most 3: {words}")


def test_a_boot_after_it_served_counts_nothing() -> None:
    group = Group(Group().serving().decision.remember, "b2")
    assert group.until("starting").attempts == 0


def test_serving_for_long_makes_failures_forgotten_and_a_later_end_starts_again_without_a_pause() -> None:
    group = Group()
    group.fail_start()
    group.now += 5
    group.serving()
    assert group.decision.attempts == 1
    assert group.decision.forgotten_at == group.now + 600
    assert group.tick(599).attempts == 1
    decision = group.tick(1)
    assert (decision.attempts, decision.forgotten_at) == (0, None)
    assert group.events[-1] == "has served for 600 s: earlier failures are forgotten"
    group.unit("spark0", SERVER, UnitReport(words="failed"))
    assert group.tick().attempts == 0
    group.obey()
    assert group.tick().phase == "starting"


def test_failures_have_no_time_when_they_are_forgotten_while_it_does_not_serve() -> None:
    group = Group()
    assert group.fail_start().forgotten_at is None
    group.now += 5
    assert (group.until("warming").attempts, group.decision.forgotten_at) == (1, None)


def test_one_that_serves_only_for_a_moment_each_time_is_given_up_as_well() -> None:
    group = Group()
    for _ in range(3):
        group.serving()
        group.unit("spark0", SERVER, UnitReport(words="failed"))
        group.tick()
        group.obey()
        group.tick()
        group.now += 100
    assert group.decision.phase == "failed"


def test_a_node_that_goes_away_while_it_serves_is_no_failed_start() -> None:
    group = Group().serving()
    lost = group.reports.pop("spark1")
    assert group.tick().attempts == 0
    group.reports["spark1"] = lost
    group.until("starting")
    del group.reports["spark1"]
    assert group.tick().attempts == 1


def test_a_reboot_that_first_looked_like_a_death_does_not_count() -> None:
    group = Group().serving()
    group.unit("spark1", RAY, UnitReport(words="inactive"))
    assert group.tick().attempts == 1
    group.set("spark1", boot="b2", epoch="", stage=NOTHING)
    group.obey()
    group.tick()
    group.tick(5)
    assert (group.decision.phase, group.decision.attempts) == ("starting", 0)
    assert "spark1 was rebooted meanwhile: this explains the last failure, which does not count" in group.events


# --- drained nodes and restarts --------------------------------------------------------------------------------------


def test_a_drained_node_takes_the_group_down_without_a_failure_and_holds_it_until_it_is_back() -> None:
    group = Group().serving()
    group.set("spark1", drained=True)
    assert "spark1 was drained" in group.tick().why
    group.obey()
    decision = group.tick()
    assert (decision.phase, decision.attempts) == ("drained", 0)
    assert decision.why == "waits for spark1: it is drained: uncordon it when it may serve again"
    group.set("spark1", drained=False)
    assert group.tick().phase == "starting"


@pytest.mark.parametrize("phase", ["starting", "warming", "serving"])
def test_a_restart_stops_and_starts_all_and_forgets_failures(phase: str) -> None:
    group = Group()
    group.fail_start()
    group.now += 5
    group.serving() if phase == "serving" else group.until(phase)
    epoch = group.decision.order.epoch
    decision = group.tick(restart=True)
    assert (decision.phase, decision.attempts) == ("stopping", 0)
    group.obey()
    assert group.tick().phase == "starting"
    assert group.decision.order.epoch != epoch


def test_a_restart_ends_a_pause() -> None:
    group = Group()
    assert group.fail_start().phase == "backing-off"
    assert group.tick(restart=True).phase == "starting"


# --- taking over -----------------------------------------------------------------------------------------------------


def test_a_supervisor_that_was_restarted_goes_on_with_the_epoch_that_runs() -> None:
    group = running("e-before")
    decision = group.tick()
    assert (decision.phase, decision.order.epoch, decision.order.stage) == ("warming", "e-before", 2)
    assert group.answer().phase == "serving"
    assert not group.decision.order.adopt


def test_units_that_somebody_else_started_are_taken_over_as_a_new_epoch() -> None:
    group = running("")
    decision = group.tick()
    assert (decision.phase, decision.order.epoch, decision.order.adopt) == ("warming", "e1", True)
    assert decision.remember["starting"] == "e1"
    group.obey()
    assert not group.tick().order.adopt


def test_until_all_nodes_are_heard_nothing_is_touched() -> None:
    group = running("e-before")
    late = group.reports.pop("spark1")
    decision = group.tick(20)
    assert decision.order.stage == HOLD
    assert decision.why.startswith("checks whether the group is already running, waits for spark1: no report from it")
    group.reports["spark1"] = late
    assert group.tick().order.epoch == "e-before"


def test_a_node_that_is_not_heard_for_long_ends_the_looking() -> None:
    group = running("e-before")
    del group.reports["spark1"]
    group.tick(40)
    assert group.tick().order.stage == NOTHING
    assert group.events == ["stops the running units: no report from spark1"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"epoch": "e-other"}, "the nodes run units of different starts"),
        ({"ended": "e-before"}, "spark1 is stopping its units"),
        ({"units": {}}, "ray.service is not running on spark1"),
        ({"drained": True}, "spark1 is drained"),
    ],
)
def test_anything_that_is_not_a_whole_group_is_stopped(fields: dict[str, Any], words: str) -> None:
    group = running("e-before")
    group.set("spark1", **fields)
    assert group.tick().order.stage == NOTHING
    assert group.events == [f"stops the running units: {words}"]


@pytest.mark.parametrize("remembered", [Memory(ended="e-before"), Memory(attempts=3, given_up="it burnt")])
def test_a_start_that_has_failed_is_not_taken_over(remembered: Memory) -> None:
    group = Group(remembered.as_data())
    group.reports = running("e-before").reports
    assert group.tick().order.stage == NOTHING


def test_a_unit_that_dies_while_it_is_taken_over_ends_it() -> None:
    group = running("")
    group.tick()
    group.unit("spark1", RAY, UnitReport(words="failed"))
    assert group.tick().phase == "stopping"


# --- what is remembered ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [{}, {"attempts": "3"}, {"attempts": -1, "given_up": None}, {"attempts": True, "ended": 5}]
)
def test_a_damaged_memory_is_none(data: dict[str, Any]) -> None:
    assert recall(data) == Memory()


def test_a_memory_comes_back_as_it_was() -> None:
    memory = Memory(2, "reason", "e1", "e0", "why", "b1", "e0")
    assert recall(memory.as_data()) == memory


def test_nodes_that_are_not_in_the_plan_change_nothing() -> None:
    group = Group()
    group.reports["spark9"] = NodeReport("spark9", clean=False, drained=True)
    assert group.until("starting").order.boots == {"spark0": "b1", "spark1": "b1"}
