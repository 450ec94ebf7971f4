# SPDX-License-Identifier: Apache-2.0
"""Read the power budget of an intent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu.power import BUDGET
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import read_mapping

ERRORS = {"power.value": "A budget that is not a number of watts would pass every machine, or none."}

_MOST = 10_000_000
"""W: more than any row of racks has."""


def read_power(intent: Mapping[str, Any], errors: PlanErrors) -> dict[str, float]:
    """Return those of host_w, rack_w and other_w that are set, in watts."""
    given = read_mapping(intent, "firstlight_power", BUDGET, errors)
    power: dict[str, float] = {}
    for name in BUDGET:
        value = given.get(name)
        if value is None:
            continue
        least = 0 if name == "other_w" else 1
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= _MOST:
            errors.add(
                "power.value",
                f"firstlight_power.{name} is {value!r}",
                f"a power is a number of watts from {least} to {_MOST}",
                "write it without quotes and unit, as rack_w: 17000, or leave it out",
            )
        else:
            power[name] = float(value)
    return power
