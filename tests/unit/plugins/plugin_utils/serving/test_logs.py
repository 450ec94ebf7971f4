# SPDX-License-Identifier: Apache-2.0
"""Lines of several hosts in one order."""

from __future__ import annotations

from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.logs import merged_logs
from hypothesis import given
from hypothesis import strategies as st


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
