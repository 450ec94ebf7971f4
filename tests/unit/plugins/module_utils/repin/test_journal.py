# SPDX-License-Identifier: Apache-2.0
"""The rules of a move: which entry may follow which, what comes next, what a transaction may do, when to reboot."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.moves import (
    Move,
    evaluate_move,
    evaluate_steps,
    left_over,
    loose_packages,
    moves,
    moves_something,
    package_problems,
    remaining,
    set_problems,
    status_after,
    target_holds,
    target_packages,
    watched_packages,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt import Step
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.dpkg_state import Broken, parse_broken
from ansible_collections.firstlight.cluster.plugins.module_utils.repin import journal as book
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.steps import Seen, changed, next_step
from hypothesis import given
from hypothesis import strategies as st

AT = "2026-11-15T09:00:00Z"
NOW = datetime.datetime(2026, 11, 15, 9, 0, tzinfo=datetime.UTC)


def journal(*entries: str, **fields: Any) -> dict[str, Any]:
    """A journal with these entries, `<state` for the rollback; the first one is there already."""
    base = {"id": "m", "stack": "b", "previous_stack": "a", "max_reboots": 4, **fields}
    found = book.new_journal(base, AT, "boot-0")
    found |= {"move": {"install": {"x": "2"}, "remove": []}, "way_back": True, **fields}
    for number, name in enumerate(entries):
        way = book.BACK if name.startswith("<") else book.FORWARD
        found = book.with_entry(found, name.lstrip("<"), way, AT, f"boot-{number}", {"at": "x", "reason": "y"})
    return found


FORWARD = ["drained", "staged", "installed", "reboot-requested", "booted", "verified", "uncordoned"]
BACKWARD = ["<installed", "<reboot-requested", "<booted", "<rolled-back", "<uncordoned"]


def test_the_two_ways() -> None:
    whole = journal(*FORWARD, "failed", *BACKWARD)
    assert book.validated(whole, "x") == whole
    assert (book.direction(journal(*FORWARD)), book.direction(whole)) == ("forward", "back")
    assert [one["state"] for one in book.timeline(whole)][:2] == ["planned", "drained"]


@pytest.mark.parametrize(
    ("entries", "then"),
    [
        ([], "installed"),
        (["drained"], "verified"),
        (["drained", "staged", "installed"], "booted"),
        (["drained", "failed"], "staged"),
        (["drained", "failed"], "<verified"),
        (["failed", "<rolled-back"], "<installed"),
        ([*FORWARD[:3], "failed", "<installed"], "verified"),
    ],
)
def test_what_must_not_follow(entries: list[str], then: str) -> None:
    before = journal(*entries)
    with pytest.raises(book.JournalError, match="must not follow it"):
        journal(*entries, then)
    # An edited file is found out.
    way = book.BACK if then.startswith("<") else book.FORWARD
    edited = {**before, "entries": [*before["entries"], {"state": then.lstrip("<"), "direction": way}]}
    with pytest.raises(book.JournalError, match="Somebody edited it"):
        book.validated(edited, "journal.json")


LOOKED = {"reboot_required": False, "problems": []}


@pytest.mark.parametrize(
    ("entries", "seen", "action", "word"),
    [
        ([], {}, "stop", "drain it"),
        (["drained"], {}, "stage", ""),
        (["drained", "staged"], {}, "install", "forward"),
        (FORWARD[:3], {}, "look", ""),
        (FORWARD[:3], {"reboot_required": True, "problems": []}, "request_reboot", "forward"),
        (FORWARD[:3], LOOKED, "note", "verified"),
        (FORWARD[:3], {"reboot_required": False, "problems": ["bad"]}, "note", "failed"),
        (FORWARD[:4], {"boot_id": "boot-3"}, "request_reboot", "forward"),
        (FORWARD[:4], {"boot_id": "boot-3", "requested": "boot-3"}, "wait", ""),
        (FORWARD[:4], {"boot_id": "boot-9"}, "note", "booted"),
        (FORWARD[:5], {"reboot_required": True, "problems": ["loaded is none"]}, "note", "failed"),
        (FORWARD[:6], {}, "done", "verified"),
        (FORWARD, {}, "done", "verified"),
        (FORWARD[:6], {"direction": "back", "reason": "spark1"}, "note", "spark1"),
        (FORWARD, {"direction": "back"}, "note", "the group is put back"),
        (["failed"], {}, "note", "rolled-back"),
        (["drained", "failed"], {}, "note", "rolled-back"),
        (["drained", "staged", "failed"], {}, "install", "back"),
        ([*FORWARD[:3], "failed", "<installed"], LOOKED, "note", "rolled-back"),
        ([*FORWARD[:3], "failed", "<installed", "<failed"], {}, "install", "back"),
        ([*FORWARD[:3], "failed", "<installed", "<failed"], {"gave_up": True}, "stop", "y"),
        ([*FORWARD[:3], "failed", *BACKWARD[:4]], {}, "done", "rolled-back"),
    ],
)
def test_what_comes_next(entries: list[str], seen: dict[str, Any], action: str, word: str) -> None:
    step = next_step(journal(*entries), Seen(**{"boot_id": "boot-0", **seen}))
    assert step.action == action
    assert word in f"{dict(step.arguments)} {step.words}"


def test_no_journal_and_no_way_back() -> None:
    assert next_step(None, Seen("b")).action == "stop"
    alone = next_step(journal("drained", "staged", "failed", way_back=False), Seen("b"))
    assert (alone.action, "no rollback" in alone.words) == ("stop", True)
    assert next_step(journal("drained", move=None), Seen("b")).words.endswith("fetch them first")
    assert not changed(journal("drained", "failed"))
    assert changed(journal("drained", "staged"))


# Some of them in the future: the clock was set back since.
@pytest.mark.hostile
@given(st.lists(st.integers(-400 * 86400, 20 * 3600) | st.integers(-3600, 3600), max_size=8), st.integers(1, 6))
def test_reboots_within_the_window(ages: list[int], most: int) -> None:
    entries = [
        {"state": "reboot-requested", "at": book.stamp(NOW - datetime.timedelta(seconds=age)), "boot_id": f"b{age}"}
        for age in ages
    ]
    twice = [{"entries": entries}, {"entries": entries}]
    used = book.reboots(twice, NOW)
    assert len(used) == len({age for age in ages if abs(age) < 12 * 3600})
    assert used == sorted(used)
    forward, back = (book.reboot_refusal(used, most, way) for way in ("forward", "back"))
    assert bool(back) == (len(used) + 1 > most)
    assert bool(forward) == (len(used) + 2 > most)
    # Whoever has to wait does so for a day at most, whatever the clock showed.
    assert not used or NOW < book.moment(used[0]) + book.REBOOT_WINDOW < NOW + datetime.timedelta(days=1)


def test_a_move_and_its_undoing() -> None:
    steps = [Step("driver", "1", "2"), Step("firmware-1", "1", None), Step("firmware-2", None, "2")]
    there, back = moves(steps)
    assert there == Move({"driver": "2", "firmware-2": "2"}, ["firmware-1"])
    assert back == Move({"driver": "1", "firmware-1": "1"}, ["firmware-2"])
    assert evaluate_steps(steps, there) == []
    assert evaluate_steps([Step("libc6", "1", None), Step("driver", "1", "3")], there) == [
        "libc6 1 would be removed",
        "driver would become 3 instead of 2",
    ]
    assert left_over(there, steps) == []
    assert left_over(there, steps[:1]) == ["firmware-2 2", "firmware-1 (to be removed)"]
    assert remaining(there, {"driver": "2", "firmware-2": "2"}) == Move({}, [])
    assert remaining(there, {"driver": "2", "firmware-1": "1"}, ["driver"]) == Move(
        {"driver": "2", "firmware-2": "2"}, ["firmware-1"]
    )


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Step("driver", "1", None), "driver would be removed, although it belongs to the set"),
        (Step("driver", "1", "3"), "driver would be 3, its pin is 2"),
        (Step("docker.io", "20", None), "docker.io 20 would be removed, but is not part of the set"),
        (Step("libc6", "1", "2"), "libc6 would change from 1 to 2, although it is in neither set"),
        (Step("dkms", None, "3"), ""),
        (Step("old", "1", None), ""),
        (Step("old", "1", "2"), ""),
        (Step("rival", "1", None), ""),
    ],
)
def test_what_a_move_may_do(step: Step, words: str) -> None:
    assert evaluate_move([step], {"driver": "2"}, ["old"], ["rival"]) == ([words] if words else [])


def test_targets_of_both_ways() -> None:
    move, back = moves([Step("driver", "1", "2"), Step("firmware-2", None, "2"), Step("rival", "1", None)])
    moved = {
        "to": {"packages": {"driver": "2", "headers": None}, "holds": ["driver", "firmware-2"], "files": {}},
        "from": {"packages": {"driver": "1", "headers": "9", "firmware-2": None}, "holds": ["driver", "rival"]},
        "move": move.as_dict(),
        "move_back": back.as_dict(),
    }
    assert target_packages(moved, back=False) == {"driver": "2", "firmware-2": "2", "rival": None}
    assert target_packages(moved, back=True) == {"driver": "1", "firmware-2": None, "rival": "1"}
    assert loose_packages(moved) == ["headers"]
    assert target_holds(moved, back=False) == {"driver": True, "firmware-2": True}
    assert target_holds(moved, back=True) == {"driver": True, "rival": True}
    assert package_problems({"a": "1", "b": None, "c": "1"}, {"a": "2", "b": "1", "c": "1"}) == [
        "package a is version 2, expected version 1",
        "package b is version 1, expected no such package",
    ]


ANY: dict[str, Any] = {
    "to": {"packages": {"docker-ce": None, "headers": None}, "holds": ["headers"], "files": {}},
    "from": {"packages": {"docker-ce": "5", "headers": None}, "holds": ["docker-ce"]},
}


def test_a_package_of_any_version_has_to_be_there_and_nothing_more() -> None:
    assert set_problems(ANY, False, {"docker-ce": "6", "headers": "1"}) == []
    assert set_problems(ANY, True, {"docker-ce": "6", "headers": None}) == []
    lost = "package docker-ce is not installed, expected any version of it"
    assert set_problems(ANY, True, {"docker-ce": None}) == [lost]
    # Somebody's own hold stays, and what the set holds is held only there.
    assert target_holds(ANY, back=False) == {"headers": True}
    assert target_holds(ANY, back=True) == {"docker-ce": True, "headers": False}


def test_a_package_of_any_version_that_was_not_there_goes_again() -> None:
    there, back = moves([Step("headers", None, "9")])
    moved = {**ANY, "move": there.as_dict(), "move_back": back.as_dict()}
    assert loose_packages(moved) == ["docker-ce"]
    assert (target_packages(moved, back=False), target_packages(moved, back=True)) == (
        {"headers": "9"},
        {"headers": None},
    )
    assert watched_packages(moved, back=True) == ["docker-ce", "headers"]
    assert set_problems(moved, True, {"docker-ce": "5", "headers": "9"}) == [
        "package headers is version 9, expected no such package"
    ]


def test_whether_packages_come_or_go() -> None:
    assert moves_something({"move": None})
    assert moves_something({"move": {"install": {}, "remove": ["x"]}})
    assert not moves_something({"move": {"install": {}, "remove": []}})


def test_the_status_file_of_a_move_that_was_not_made() -> None:
    status = "Package: a\nVersion: 1\nDescription: x\n y\n\nPackage: b\nVersion: 1\n\nPackage: c\nVersion: 1\n"
    after = status_after(status, Move({"a": "2"}, ["b"]), ["Package: a\nVersion: 2\nDepends: c\n"])
    assert after == "Package: c\nVersion: 1\n\nPackage: a\nVersion: 2\nDepends: c\nStatus: install ok installed\n"


def test_what_dpkg_left() -> None:
    text = "a\tok\tinstalled\nb\tok\tconfig-files\nc\tok\tunpacked\nd\treinstreq\thalf-installed\nstray\n"
    assert parse_broken(text) == {"c": Broken("unpacked"), "d": Broken("half-installed", True)}


def test_how_to_finish() -> None:
    assert "run the re-pin to b again, or, to go back, to a" in book.how_to_finish(journal("drained"))
    assert "rolling back" in book.how_to_finish(journal("drained", "failed"))
    assert book.failure(journal("drained", "failed")) == {"at": "x", "reason": "y"}
    assert book.failure(journal()) == {}
