# SPDX-License-Identifier: Apache-2.0
"""Hosts by a fact, from hostvars as playbooks give them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.filter.hosts_where import hosts_where

HOSTVARS: dict[str, dict[str, Any]] = {
    "a": {"due": True, "seen": {"serving": {"drained": {"by": "somebody"}}}},
    "b": {"due": False, "seen": {"serving": {"drained": None}}},
    "c": {"due": "", "seen": {"unreachable": True}},
    "d": {},
    "e": {"due": True, "seen": "a text"},
}


@pytest.mark.parametrize(
    ("fact", "expected"),
    [("due", ["a", "e"]), ("seen.serving.drained", ["a"]), ("seen.serving", ["a", "b"]), ("no", [])],
)
def test_those_with_the_fact_in_the_order_given(fact: str, expected: list[str]) -> None:
    assert hosts_where(list(HOSTVARS), HOSTVARS, fact) == expected
    assert hosts_where(reversed(list(HOSTVARS)), HOSTVARS, fact) == expected[::-1]


@pytest.mark.parametrize(("hosts", "hostvars"), [("spark0", HOSTVARS), (None, HOSTVARS), (["a"], "hostvars")])
def test_another_use_is_told_how(hosts: object, hostvars: object) -> None:
    with pytest.raises(TypeError, match=r"write `ansible_play_hosts \| firstlight.cluster.hosts_where"):
        hosts_where(hosts, hostvars, "due")
