# SPDX-License-Identifier: Apache-2.0
"""What an earlier run left on a host is told of, and goes only where that was said."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.exposed_roles import (
    UNITS,
    found,
    leaving,
    leftover_notes,
    leftover_request,
    leftovers,
)


def plan(*planned: str, unwanted: tuple[str, ...] = ()) -> dict[str, Any]:
    roles = {role: {"any": 1} if role in planned else None for role in UNITS}
    return {"roles": {**roles, "host_tuning": {}}, "unwanted": list(unwanted)}


def seen(*roles: str) -> dict[str, Any]:
    return {"units": {unit: {"load": "loaded" if role in roles else "not-found"} for role, unit in UNITS.items()}}


def test_what_is_there_is_found_whatever_the_plan_says() -> None:
    assert found(seen(*UNITS)) == list(UNITS)
    assert found(seen("firewall")) == ["firewall"]
    assert found({}) == []


def test_what_is_planned_is_not_left_over() -> None:
    assert leftovers(plan(*UNITS), seen(*UNITS)) == []
    assert leftover_notes(plan(*UNITS), seen(*UNITS)) == []


def test_what_is_not_there_is_not_left_over() -> None:
    assert leftovers(plan(), seen()) == []
    assert leftovers(plan(), {}) == []
    assert leftovers(plan(), {"units": None}) == []


@pytest.mark.parametrize("role", list(UNITS))
def test_one_that_nobody_speaks_of_stays_and_is_told_of(role: str) -> None:
    assert leaving(plan(), seen(role)) == []
    (note,) = leftover_notes(plan(), seen(role))
    assert UNITS[role] in note
    assert f"set firstlight_{role} to {{enabled: false}}" in note


@pytest.mark.parametrize("role", list(UNITS))
def test_one_that_is_unwanted_goes_without_a_word(role: str) -> None:
    assert leaving(plan(unwanted=tuple(UNITS)), seen(role)) == [role]
    assert leftover_notes(plan(unwanted=tuple(UNITS)), seen(role)) == []


def test_a_refused_plan_says_nothing_of_it() -> None:
    assert leftovers({"roles": {}}, seen(*UNITS)) == []


def test_only_these_are_looked_for() -> None:
    assert leftover_request("endpoint") == {"units": {"firstlight-endpoint.service": {}}}
    assert leftover_request("ray_cluster") == {}
