# SPDX-License-Identifier: Apache-2.0
"""A part that is dead, hangs or breaks is told as such, and takes no other part with it."""

from __future__ import annotations

import threading

from ansible_collections.firstlight.cluster.roles.monitoring.program.page import Family, gauge
from ansible_collections.firstlight.cluster.roles.monitoring.program.pages import Pages
from ansible_collections.firstlight.cluster.roles.monitoring.program.reading import AbsentError, ReadError


def good() -> list[Family]:
    return [gauge("firstlight_good", "Good.", [({}, 1)])]


def test_dead_parts_are_zero_and_the_others_are_there() -> None:
    said: list[str] = []

    def dead() -> list[Family]:
        raise ReadError("it does not answer")

    def broken() -> list[Family]:
        raise KeyError("phase")

    pages = Pages({"good": (good, 0), "dead": (dead, 0), "broken": (broken, 0)}, said.append)
    for _ in range(3):
        page = pages.page() or ""
        assert 'firstlight_source_up{source="good"} 1\n' in page
        assert 'firstlight_source_up{source="dead"} 0\n' in page
        assert 'firstlight_source_up{source="broken"} 0\n' in page
        assert "firstlight_good 1\n" in page
    assert sorted(said) == ["broken: KeyError: 'phase'", "dead: it does not answer"]


def test_a_part_that_hangs_is_started_once_and_told_again_when_it_is_back() -> None:
    said: list[str] = []
    go, started = threading.Event(), []

    def slow() -> list[Family]:
        started.append(1)
        go.wait(60)
        return good()

    pages = Pages({"slow": (slow, 0), "good": (good, 0)}, said.append, longest=0.05)
    for _ in range(3):
        page = pages.page() or ""
        assert 'firstlight_source_up{source="slow"} 0\n' in page
        assert 'firstlight_source_up{source="good"} 1\n' in page
    assert len(started) == 1
    go.set()
    page = ""
    for _ in range(200):
        page = pages.page() or ""
        if 'source="slow"} 1' in page:
            break
    assert 'firstlight_source_up{source="slow"} 1\n' in page
    assert said == ["slow: it gave no answer within 0.05 s", "slow: can be read again"]


def test_a_reading_is_kept_as_long_as_it_is_good() -> None:
    now, read = [0.0], []

    def counted() -> list[Family]:
        read.append(1)
        return good()

    pages = Pages({"counted": (counted, 60)}, lambda _: None, clock=lambda: now[0])
    for moment in (0.0, 30.0, 59.0, 61.0):
        now[0] = moment
        assert "firstlight_good 1\n" in (pages.page() or "")
    assert len(read) == 2


def test_a_part_that_cannot_be_there_is_said_once_and_is_not_down() -> None:
    said: list[str] = []

    def absent() -> list[Family]:
        raise AbsentError("it has none")

    pages = Pages({"good": (good, 0), "absent": (absent, 0)}, said.append)
    for _ in range(3):
        page = pages.page() or ""
        assert 'firstlight_source_up{source="good"} 1\n' in page
        assert 'source="absent"' not in page
    assert said == ["absent: it has none"]
