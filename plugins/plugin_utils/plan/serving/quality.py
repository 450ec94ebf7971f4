# SPDX-License-Identifier: Apache-2.0
"""Read the quality part of an intent: whether a change of model or stack is gated by answers, and the limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.prompts import MEASURES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import check_keys, read_mapping

ERRORS = {"quality.limit": "A limit that every answer meets, or none can, would gate nothing or everything."}
QUALITY_KEYS = ("gate", "limits")
_NAME = "firstlight_quality"


@dataclass(frozen=True)
class Quality:
    """How answers are assessed."""

    gate: bool | None = None
    """Whether a change is gated; None gates it where answers of the model were accepted."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Limits that replace the catalog's, for every kind of change."""

    def is_wanted(self, *, accepted: bool) -> bool:
        """Whether a change is gated; `accepted` says whether there are answers to compare with."""
        return accepted if self.gate is None else self.gate

    def limits_of(self, usual: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        """Return the catalog's limits, overridden by those of the intent."""
        return {kind: {**limits, **self.limits} for kind, limits in usual.items()}


def read_quality(intent: Mapping[str, Any], errors: PlanErrors) -> Quality:
    """Read firstlight_quality and report an error for each invalid value."""
    given = read_mapping(intent, _NAME, QUALITY_KEYS, errors)
    gate = given.get("gate")
    if gate is not None and not isinstance(gate, bool):
        errors.add(
            "intent.type",
            f"{_NAME}.gate is {gate!r}",
            "gate is true or false",
            "leave it out to gate changes wherever answers of the model were accepted",
        )
        gate = None
    limits = given.get("limits")
    if limits is None:
        return Quality(gate)
    if not isinstance(limits, Mapping):
        errors.add(
            "intent.type", f"{_NAME}.limits is {limits!r}", "limits is a mapping", "write it as limits: {bleu: 0.01}"
        )
        return Quality(gate)
    check_keys(limits, MEASURES, f"{_NAME}.limits", errors)
    read = {name: limits[name] for name in MEASURES if limits.get(name) is not None}
    for name, value in read.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            errors.add(
                "quality.limit",
                f"{_NAME}.limits.{name} is {value!r}",
                "it is how far the figure may be below the reference's, a fraction from 0 to 1",
                f"write 0.5 % as {name}: 0.005, or leave it out",
            )
    return Quality(gate, {name: float(value) for name, value in read.items() if isinstance(value, (int, float))})
