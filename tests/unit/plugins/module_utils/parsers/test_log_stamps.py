# SPDX-License-Identifier: Apache-2.0
"""The ways in which logs print a time."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.log_stamps import stamp_seconds, stamp_text
from hypothesis import given
from hypothesis import strategies as st

DAY = 1740327858.0  # Sun Feb 23 16:24:18 2025


@pytest.mark.parametrize(
    ("line", "clock", "seconds"),
    [
        ("[  117.984502] NVRM: x", "uptime", 117.984502),
        (" 4428.423595] bond0: x", "uptime", 4428.423595),
        ("<4>[  117.984502] NVRM: x", "uptime", 117.984502),
        ("kern  :err   : [  117.984502] NVRM: x", "uptime", 117.984502),
        ("[  117.984502 <    0.000012>] NVRM: x", "uptime", 117.984502),
        ("4,1234,117984502,-;NVRM: x", "uptime", 117.984502),
        ("[Sun Feb 23 16:24:18 2025] NVRM: x", "date", DAY),
        ("2025-02-23T16:24:18,123456+00:00 NVRM: x", "date", DAY),
        ("2025-02-23T17:24:18+0100 node kernel: NVRM: x", "date", DAY),
        ("2025-02-23T16:24:18Z node kernel: NVRM: x", "date", DAY),
        ("Sun 2025-02-23 16:24:18 UTC node kernel: NVRM: x", "date", DAY),
    ],
)
def test_times(line: str, clock: str, seconds: float) -> None:
    assert stamp_seconds(line) == (clock, seconds)
    assert stamp_text(line) or clock == "uptime"


def test_syslog_has_no_year() -> None:
    first, second = stamp_seconds("Aug 17 06:18:01 node1 x"), stamp_seconds("Aug  9 06:18:01.123 node1 x")
    assert first
    assert second
    assert first[1] - second[1] == 8 * 86400


@pytest.mark.parametrize(
    "line", ["", "NVRM: x", "Foo 17 06:18:01 x", "Feb 31 06:18:01 node x", "2025-13-01T00:00:00 x"]
)
def test_no_time(line: str) -> None:
    assert stamp_seconds(line) is None


@given(st.text(max_size=100))
def test_any_line(line: str) -> None:
    stamp_seconds(line)
    stamp_text(line)
