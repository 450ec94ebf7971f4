# SPDX-License-Identifier: Apache-2.0
"""Read the service targets of an intent, against which status, dashboard and alerts compare a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import read_mapping

ERRORS = {"targets.value": "A target that is not a valid figure would never be missed, or always."}

_HOUR_MS = 3_600_000
_TIME = (1, _HOUR_MS, f"a time is a number of milliseconds from 1 to {_HOUR_MS}", "write it without quotes and unit")
_RANGES: Mapping[str, tuple[float, float, str, str]] = {
    "ttft_p95_ms": _TIME,
    "tpot_p95_ms": _TIME,
    "e2e_p95_ms": _TIME,
    "queue": (
        0,
        1_000_000,
        "it is the number of requests that may wait, 0 to 1000000",
        "write a whole number, as queue: 16",
    ),
    "prefix_hit_rate": (0, 1, "it is a share from 0 to 1", "write 30 % as prefix_hit_rate: 0.3"),
}
TARGET_KEYS = tuple(_RANGES)


def read_targets(intent: Mapping[str, Any], errors: PlanErrors) -> dict[str, float]:
    """Return the targets that are set; none of them has a default."""
    given = read_mapping(intent, "firstlight_targets", TARGET_KEYS, errors)
    targets: dict[str, float] = {}
    for name, (least, most, rule, remedy) in _RANGES.items():
        value = given.get(name)
        if value is None:
            continue
        kinds = (int,) if name == "queue" else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
            found = f"firstlight_targets.{name} is {value!r}"
            errors.add("targets.value", found, rule, f"{remedy}, or leave it out")
        else:
            targets[name] = value
    return targets
