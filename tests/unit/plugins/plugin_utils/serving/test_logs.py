# SPDX-License-Identifier: Apache-2.0
"""Lines of several hosts in one order."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.logs import merged_logs
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hostile import ESCAPES, TEMPLATE, documents


def answer(*times: int) -> dict[str, Any]:
    return {"entries": [{"at": at, "text": str(number)} for number, at in enumerate(times)], "cursor": "c"}


def test_lines_are_by_time_and_silent_hosts_are_named() -> None:
    found = merged_logs({"a": answer(1, 5), "b": answer(3), "c": {"unreachable": True, "msg": "ssh: timed out"}})
    assert [(entry["host"], entry["at"]) for entry in found["entries"]] == [("a", 1), ("b", 3), ("a", 5)]
    assert found["cursors"] == {"a": "c", "b": "c"}
    assert found["silent"] == {"c": "unreachable: timed out"}


@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 50), max_size=8)))
def test_a_host_keeps_its_own_order_and_loses_nothing(times: dict[str, list[int]]) -> None:
    found = merged_logs({host: answer(*listed) for host, listed in times.items()})["entries"]
    for host, listed in times.items():
        assert [entry["at"] for entry in found if entry["host"] == host] == listed
    assert len(found) == sum(map(len, times.values()))


@pytest.mark.hostile
@pytest.mark.parametrize(
    "cursor", [TEMPLATE, "{% set x = 1 %}", "s=1 --file=/etc/shadow", "s=1\n", "s" * 600, ["s=1"], {"s": 1}]
)
def test_a_cursor_that_no_journal_has_does_not_go_into_the_next_run(cursor: Any) -> None:
    assert merged_logs({"a": {"entries": [], "cursor": cursor}})["cursors"] == {}


def test_the_cursor_of_a_journal_goes_into_the_next_run() -> None:
    cursor = "s=739ad463348b4ceca5a9e69c95a3c93f;i=4ece7;b=6c7c6013;m=4fc72436e;t=4c508a72423d9;x=d3e5610681098c10"
    assert merged_logs({"a": {"entries": [], "cursor": cursor}})["cursors"] == {"a": cursor}


@pytest.mark.hostile
def test_a_host_speaks_for_itself_alone() -> None:
    entry = {"at": 10**40, "host": "spark0", "priority": "urgent", "unit": 5, "text": ["x"], "more": "y"}
    found = merged_logs({"spark9": {"entries": [entry], "cursor": ""}})["entries"]
    assert found == [{"host": "spark9", "at": 0, "unit": "5", "priority": 6, "text": "['x']"}]


@pytest.mark.hostile
def test_a_host_cannot_fill_the_controller() -> None:
    answer = {"entries": [{"at": 1, "text": "x" * 100_000}] * 20_010, "cursor": ""}
    found = merged_logs({"a": answer})["entries"]
    assert (len(found), max(len(entry["text"]) for entry in found)) == (20_000, 8_192)


NAMES = ("entries", "cursor", "at", "host", "unit", "priority", "text", "msg", "unreachable")


@pytest.mark.hostile
@given(documents(NAMES), st.lists(documents(NAMES), max_size=4))
def test_whatever_a_host_answers_the_others_are_heard(answer: Any, entries: list[Any]) -> None:
    honest = {"at": 5, "unit": "u", "priority": 3, "text": "t"}
    for hostile in (answer, {"entries": entries, "cursor": answer}):
        found = merged_logs({"a": hostile, "b": {"entries": [honest], "cursor": "s=1"}})
        assert {"host": "b", **honest} in found["entries"]
        assert found["cursors"]["b"] == "s=1"
        assert all(isinstance(entry["at"], int) and entry["host"] in "ab" for entry in found["entries"])
        assert ESCAPES not in found["cursors"].get("a", "")
