# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    Held,
    NodeReport,
    Order,
    UnitPlan,
    UnitReport,
)
from ansible_collections.firstlight.cluster.roles.supervisor.program.follow import (
    WAIT,
    Actions,
    follow,
    held_from_data,
    held_to_data,
)

RAY, SERVER = UnitPlan("ray", 0, "ray-container"), UnitPlan("server", 2, "server-container")
UNITS = (RAY, SERVER)
RUNS = UnitReport(active=True, running=True, words="active")
STOPS = UnitReport(stopping=True, words="deactivating")
BOOTS = {"spark0": "boot-1"}


def report(units: Mapping[str, UnitReport] | None = None, **fields: Any) -> NodeReport:
    units = units or {}
    clean = not any(unit.active or unit.stopping for unit in units.values())
    return NodeReport("spark0", units=units, **{"clean": clean, "boot": "boot-1", **fields})


def order(stage: int, epoch: str = "e1", **fields: Any) -> Order:
    return Order(epoch, stage, **{"boots": BOOTS, **fields})


def test_a_clean_node_starts_what_the_stage_allows_and_notes_it_first() -> None:
    assert follow(order(0), report(), UNITS, Held()) == Actions(Held("e1", 0), start=("ray",))


def test_what_was_compiled_is_thrown_away_once_and_before_anything_uses_it() -> None:
    first = follow(order(0, discard=True), report(), UNITS, Held())
    assert first == Actions(Held("e1", 0), start=("ray",), discard=True)
    later = follow(order(2, discard=True), report({"ray": RUNS}), UNITS, Held("e1", 0))
    assert later == Actions(Held("e1", 2), start=("server",))
    worker = (UnitPlan("ray", 1, "ray-container"),)
    assert not follow(order(0, discard=True), report(), worker, Held()).discard
    assert follow(order(1, discard=True), report(), worker, Held("e1", 0)).discard


def test_the_next_stage_starts_only_what_is_new() -> None:
    actions = follow(order(2), report({"ray": RUNS}), UNITS, Held("e1", 0))
    assert actions == Actions(Held("e1", 2), start=("server",))


def test_a_unit_that_died_is_not_started_again_in_its_epoch() -> None:
    held = Held("e1", 2)
    assert follow(order(2), report({"ray": RUNS}), UNITS, held) == Actions(held)


def test_what_was_started_too_early_is_stopped() -> None:
    held = Held("e1", 0)
    assert follow(order(0), report({"ray": RUNS, "server": RUNS}), UNITS, held) == Actions(held, stop=("server",))


def test_units_of_another_epoch_go_before_the_new_one_starts() -> None:
    shown = report({"ray": RUNS, "server": RUNS})
    assert follow(order(0, "e2"), shown, UNITS, Held("e1", 2)) == Actions(Held("e1", 2, "e1"), stop=("server",))
    assert follow(order(0, "e2"), report(), UNITS, Held("e1", 2, "e1")) == Actions(Held("e2", 0, "e1"), start=("ray",))


@pytest.mark.parametrize("wish", [None, Order("e2"), order(2, boots={"spark0": "boot-0"}), order(2, boots={})])
def test_without_an_order_for_this_boot_nothing_runs(wish: Order | None) -> None:
    shown = report({"ray": RUNS, "server": RUNS})
    assert follow(wish, shown, UNITS, Held("e1", 2)) == Actions(Held("e1", 2, "e1"), stop=("server",))
    assert follow(wish, report({"ray": RUNS}), UNITS, Held("e1", 2, "e1")).stop == ("ray",)


def test_a_drained_node_runs_nothing() -> None:
    assert follow(order(2), report({"ray": RUNS}, drained=True), UNITS, Held("e1", 2)).stop == ("ray",)
    assert follow(order(0), report(drained=True), UNITS, Held()) == Actions(Held())


def test_an_epoch_that_was_left_is_never_entered_again() -> None:
    left = follow(None, report(), UNITS, Held("e1", 2)).held
    assert left == Held(ended="e1")
    assert follow(order(2), report(), UNITS, left) == Actions(left)


def test_while_the_head_has_not_decided_nothing_is_touched() -> None:
    held = Held("e1", 2)
    assert follow(WAIT, report({"ray": RUNS}), UNITS, held) == Actions(held)


def test_units_that_nobody_ordered_are_taken_over_when_all_of_them_run() -> None:
    both = report({"ray": RUNS, "server": RUNS})
    assert follow(order(2, adopt=True), both, UNITS, Held(ended="e0")) == Actions(Held("e1", 2, "e0"))
    assert follow(order(2, adopt=True), report({"ray": RUNS}), UNITS, Held()).stop == ("ray",)
    assert follow(order(2), both, UNITS, Held()).stop == ("server",)


def test_a_container_is_removed_only_when_no_unit_is_about_to_do_so() -> None:
    assert follow(None, report({"ray": STOPS}), UNITS, Held()) == Actions(Held())
    containers = ("ray-container", "server-container")
    assert follow(None, report(clean=False), UNITS, Held()) == Actions(Held(), remove=containers)


def test_force_ends_what_hangs_all_at_once() -> None:
    shown = report({"ray": RUNS, "server": STOPS})
    actions = follow(Order("e2", force=True), shown, UNITS, Held("e1", 2))
    assert (actions.stop, actions.remove, actions.force) == (
        ("ray", "server"),
        ("ray-container", "server-container"),
        True,
    )


def test_a_left_over_container_keeps_a_start_waiting() -> None:
    actions = follow(order(0), report(clean=False), UNITS, Held())
    assert not actions.start
    assert actions.remove


@pytest.mark.parametrize("data", [None, [], {}, {"epoch": "e", "stage": "2", "ended": ""}, {"epoch": 1, "stage": 2}])
def test_a_damaged_note_is_no_note(data: Any) -> None:
    assert held_from_data(data) == Held()


def test_a_note_survives_the_file() -> None:
    held = Held("e2", 2, "e1")
    assert held_from_data(held_to_data(held)) == held
