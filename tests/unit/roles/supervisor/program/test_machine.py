# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    NOTHING,
    Probe,
    UnitReport,
)
from hypothesis import given
from hypothesis import strategies as st

from .group import RAY, SERVER, Group

NO_ROUTE = "HTTP 404: Path '/v1/chat/completions' not found. Ping http://.../-/routes for available routes."
"""What Ray's proxy answers before the application has its route."""

# --- the way up ------------------------------------------------------------------------------------------------------


def test_from_boot_to_serving_stage_by_stage() -> None:
    group = Group()
    stages = []
    for _ in range(9):
        group.tick()
        stages.append((group.decision.phase, group.decision.order.stage))
        group.obey()
    assert list(dict.fromkeys(stages)) == [
        ("stopping", -1),
        ("starting", 0),
        ("starting", 1),
        ("starting", 2),
        ("warming", 2),
    ]
    assert group.answer().phase == "serving"
    assert group.events == [
        "all nodes are ready: starts ray.service on spark0",
        "starts ray.service on spark1",
        "starts server.service on spark0",
        "everything runs: waits for the first completion",
        "serves",
    ]


def test_nodes_are_told_that_it_loads_until_it_has_completed_something() -> None:
    group = Group()
    assert not group.tick().order.loading
    assert group.until("starting").order.loading
    assert group.until("warming").order.loading
    assert not group.answer().order.loading


def test_a_start_is_remembered_before_it_is_ordered_and_forgotten_when_it_serves() -> None:
    group = Group()
    decision = group.until("starting")
    assert decision.remember["starting"] == decision.order.epoch
    assert decision.remember["boot"] == "b1"
    assert group.serving().decision.remember["starting"] == ""


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"clean": False, "units": {RAY: UnitReport(stopping=True, words="deactivating")}},
            "still stopping: ray.service",
        ),
        ({"clean": False}, "its units are stopped, but a container is left (ray)"),
        (
            {"ready": False, "problems": ("5 GiB are free", "the image is not there")},
            "5 GiB are free; the image is not",
        ),
        ({"ready": False}, "it reports that it is not ready"),
        ({"seen": "e0"}, "it has not confirmed the order to stop yet"),
    ],
)
def test_no_node_starts_before_every_node_is_clean_and_ready_and_waiting_has_no_limit(
    fields: dict[str, Any], reason: str
) -> None:
    group = Group()
    group.tick()
    group.obey()
    group.set("spark1", **fields)
    for _ in range(5):
        decision = group.tick(10_000)
        assert decision.order.stage == NOTHING
        assert decision.missing["spark1"].startswith(reason)
        assert f"waits for spark1: {reason}" in decision.why
    assert decision.attempts == 0
    group.obey()
    assert group.tick().phase == "starting"


def test_a_node_that_is_away_is_named_with_the_reason() -> None:
    group = Group()
    group.tick()
    group.obey()
    del group.reports["spark1"]
    decision = group.tick()
    assert decision.phase == "gathering"
    assert decision.missing["spark1"].startswith("no report from it for 20 s: check that it is up")
    decision = group.tick(refusals={"spark1": "the token of spark1 does not match the one on spark0"})
    assert decision.why == (
        "waits for spark1: its supervisor is refused: the token of spark1 does not match the one on spark0"
    )


def test_a_stage_that_does_not_come_up_in_time_ends_the_start() -> None:
    group = Group()
    group.until("starting")
    group.obey()
    group.unit("spark0", RAY, UnitReport(active=True, words="activating"))
    assert group.tick(180).why == "waits for units to run: ray.service on spark0 (activating)"
    decision = group.tick(1)
    assert decision.phase == "stopping"
    assert "ray.service on spark0 (activating) did not run within 180 s" in decision.why
    assert decision.attempts == 1


def test_a_refused_connection_while_the_model_loads_is_no_failure_until_the_limit() -> None:
    group = Group()
    group.until("warming")
    group.obey()
    for _ in range(40):
        decision = group.answer("connection refused", alive=False)
    assert decision.phase == "warming"
    assert decision.why.endswith("the last request got: connection refused")
    decision = group.tick(900)
    assert decision.attempts == 1
    assert "no completion within 900 s of the start; the last request got: connection refused" in decision.why


def test_an_answer_to_an_earlier_start_is_not_taken_for_one_of_this() -> None:
    group = Group()
    group.until("warming")
    assert group.tick(probe=Probe(group.now - 5, answered=True)).phase == "warming"


# --- the end of an epoch ---------------------------------------------------------------------------------------------


def test_a_unit_that_ends_takes_the_whole_group_down_whatever_its_exit_status() -> None:
    group = Group().serving()
    epoch = group.decision.order.epoch
    group.unit("spark1", RAY, UnitReport(words="inactive (exit status 0)", last_line="bye"))
    decision = group.tick()
    assert (decision.phase, decision.order.stage) == ("stopping", NOTHING)
    assert decision.order.epoch != epoch
    assert 'ray.service on spark1 has ended (inactive (exit status 0), its last line: "bye")' in decision.why


def test_a_failure_of_an_earlier_start_is_not_one_of_this() -> None:
    group = Group()
    group.until("starting")
    group.unit("spark0", RAY, UnitReport(failed=True, words="failed"))
    assert group.tick().phase == "starting"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"boot": "b2", "epoch": "", "stage": NOTHING, "units": {}, "clean": True}, "spark1 was rebooted"),
        ({"ended": "e1"}, "spark1 has stopped its units: it did not hear from spark0 for 20 s"),
        ({"epoch": "e0"}, "spark1 runs units of a different start than the group"),
    ],
)
def test_a_node_that_has_left_the_epoch_ends_it_at_once(fields: dict[str, Any], words: str) -> None:
    group = Group().serving()
    assert group.decision.order.epoch == "e1"
    group.set("spark1", **fields)
    decision = group.tick()
    assert decision.phase == "stopping"
    assert words in decision.why


def test_a_lost_node_comes_first_in_the_reason() -> None:
    group = Group().serving()
    del group.reports["spark1"]
    group.unit("spark0", SERVER, UnitReport(words="failed"))
    why = group.tick().why
    assert why.index("spark1 is gone: no report from it") < why.index("server.service on spark0 has ended")


def test_questions_without_an_answer_end_it_after_the_failure_threshold_and_a_good_one_makes_them_forgotten() -> None:
    group = Group().serving()
    group.answer("time-out after 60 s", alive=False)
    group.answer()
    group.answer("time-out after 60 s", alive=False)
    assert group.tick(10, probe=Probe(group.now, False, False, "time-out after 60 s")).phase == "serving"
    decision = group.answer("status 500", alive=False)
    assert decision.phase == "stopping"
    assert "2 requests in a row failed, the last: status 500" in decision.why


@pytest.mark.parametrize("refusal", [NO_ROUTE, "HTTP 401: wrong key", "HTTP 429: queue full", "it is busy"])
def test_a_refusal_before_the_first_completion_is_not_ready(refusal: str) -> None:
    group = Group()
    group.until("warming")
    group.obey()
    for _ in range(5):
        decision = group.answer(refusal, alive=True)
    assert decision.phase == "warming"
    assert decision.why == (
        f"everything runs, not ready: waits for the first completion; the last request got: {refusal}"
    )
    assert group.answer().phase == "serving"
    assert group.events[-1] == "serves"


def test_a_server_that_only_refuses_until_the_start_limit_fails_with_the_refusal() -> None:
    group = Group()
    group.until("warming")
    group.obey()
    group.answer(NO_ROUTE, alive=True)
    decision = group.tick(900)
    assert (decision.phase, decision.attempts) == ("stopping", 1)
    assert f"there was no completion within 900 s of the start; the last request got: {NO_ROUTE}" in decision.why


def test_a_refusal_after_the_first_completion_is_shown_and_ends_nothing() -> None:
    group = Group().serving()
    for _ in range(5):
        decision = group.answer("HTTP 429: queue full", alive=True)
    assert (decision.phase, decision.why) == ("serving", "the last request got: HTTP 429: queue full")


def test_requests_are_repeated_quickly_until_the_first_completion() -> None:
    group = Group()
    group.until("warming")
    group.obey()
    assert not group.answer(NO_ROUTE, alive=True).ask
    assert group.tick(2).ask


Step = tuple[str, float]
STEPS = st.lists(
    st.tuples(st.sampled_from(["alive", "dead", "nothing", "supervisor restarts"]), st.floats(0.1, 300)), max_size=30
)


@given(steps=STEPS)
def test_nothing_without_a_completion_ever_leads_to_serving(steps: list[Step]) -> None:
    group = Group()
    group.until("warming")
    for kind, seconds in steps:
        group.obey()
        if kind == "supervisor restarts":
            group.restart_supervisor()
        probe = Probe(group.now + seconds, answered=False, alive=kind == "alive", words=NO_ROUTE)
        group.tick(seconds, probe=probe if kind in ("alive", "dead") else None)
        assert group.decision.phase != "serving", group.events


def test_a_restarted_supervisor_counts_a_refusal_as_alive_if_this_start_has_served_before() -> None:
    group = Group().serving()
    group.restart_supervisor()
    assert group.tick().phase == "warming"
    assert group.answer("HTTP 429: queue full", alive=True).phase == "serving"
    assert group.events[-1] == "serves, though the last request got: HTTP 429: queue full"


def test_that_an_earlier_start_has_served_makes_no_refusal_of_this_one_an_answer() -> None:
    group = Group().serving()
    group.tick(restart=True)
    group.until("warming")
    group.obey()
    group.restart_supervisor()
    group.tick()
    assert group.answer(NO_ROUTE, alive=True).phase == "warming"


def test_questions_are_asked_at_once_then_in_peace_and_quickly_after_a_failure() -> None:
    group = Group()
    assert group.until("warming").ask
    group.obey()
    assert not group.answer().ask
    assert not group.tick(14).ask
    assert group.tick(1).ask
    assert not group.answer("status 500", alive=False).ask
    assert group.tick(2).ask


def test_what_does_not_stop_is_killed_and_said() -> None:
    group = Group().serving()
    group.tick(restart=True)
    assert not group.tick(120).order.force
    decision = group.tick(1)
    assert decision.order.force
    assert group.events[-1] == "spark0 and spark1 did not stop within 120 s: what is left is killed"
    group.obey()
    assert group.tick().phase == "starting"
