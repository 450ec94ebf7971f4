# SPDX-License-Identifier: Apache-2.0
"""Who is meant: hosts and groups of the cluster, and nobody else."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.scale.chosen_hosts import chosen
from hypothesis import given
from hypothesis import strategies as st

GROUPS = {
    "all": ["a1", "a2", "b1", "b2", "elsewhere"],
    "cluster": ["a1", "a2", "b1", "b2"],
    "head": ["a1"],
    "rack_b": ["b1", "b2"],
    "rack_c": ["elsewhere"],
}


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        ("b1", ["b1"]),
        ("b2, a2", ["a2", "b2"]),
        ("rack_b", ["b1", "b2"]),
        ("rack_b,a2", ["a2", "b1", "b2"]),
        (["b1"], ["b1"]),
    ],
)
def test_hosts_and_groups_are_found_in_the_order_of_the_inventory(words: object, hosts: list[str]) -> None:
    assert chosen(words, GROUPS) == {"hosts": hosts, "problem": ""}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "no host is named, expected the new hosts: add -e nodes=b2"),
        (None, "no host is named"),
        ("b3", "b3 is neither a host of the cluster nor a group with any, expected one of a1, a2, b1, b2"),
        ("rack_c", "rack_c is neither"),
        ("elsewhere", "not in its group cluster"),
        ("a1,b1", "a1 is the head"),
        ("cluster", "a1 is the head"),
    ],
)
def test_others_are_refused(words: object, said: str) -> None:
    found = chosen(words, GROUPS)
    assert found["hosts"] == []
    assert said in found["problem"]


def test_one_host_is_one_host() -> None:
    assert "expected one host" in chosen("rack_b", GROUPS, single=True)["problem"]
    assert chosen("b1", GROUPS, single=True)["hosts"] == ["b1"]


@given(st.text())
def test_no_text_breaks_it_and_only_members_come_out(text: str) -> None:
    assert set(chosen(text, GROUPS)["hosts"]) <= {"a2", "b1", "b2"}
