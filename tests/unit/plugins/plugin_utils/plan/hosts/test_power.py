# SPDX-License-Identifier: Apache-2.0
"""What an intent may say of power."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.hosts.power import read_power


def test_a_budget_is_read() -> None:
    errors = PlanErrors()
    assert read_power({}, errors) == {}
    assert read_power({"firstlight_power": {"rack_w": 17000, "other_w": 0}}, errors) == {
        "rack_w": 17000,
        "other_w": 0,
    }
    assert not errors


@pytest.mark.parametrize(
    ("power", "identifier"),
    [
        ({"rack_w": "17 kW"}, "power.value"),
        ({"rack_w": 0}, "power.value"),
        ({"host_w": True}, "power.value"),
        ({"other_w": -1}, "power.value"),
        ({"rack_w": float("nan")}, "power.value"),
        ({"rack": 17000}, "intent.unknown-key"),
        (17000, "intent.type"),
    ],
)
def test_what_is_no_power_is_refused(power: Any, identifier: str) -> None:
    errors = PlanErrors()
    assert read_power({"firstlight_power": power}, errors) == {}
    assert [one["id"] for one in errors.found] == [identifier]
