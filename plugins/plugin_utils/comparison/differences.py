# SPDX-License-Identifier: Apache-2.0
"""Compare a host's desired and observed state, with all kinds of state registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric import firmware
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric import kinds as fabric_kinds
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall import kinds as firewall_kinds
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu import health
from ansible_collections.firstlight.cluster.plugins.module_utils.serving import kinds as serving_kinds
from ansible_collections.firstlight.cluster.plugins.module_utils.state import host_kinds
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import (
    Difference,
    Peers,
    differences,
    explain,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning import kinds as tuning_kinds

from . import driver_kinds, image_kinds, venv_kinds, weights_kinds

__all__ = ["SUBJECTS", "Difference", "differences", "differences_by_role", "explain"]

SUBJECTS = (
    driver_kinds,
    fabric_kinds,
    firewall_kinds,
    firmware,
    health,
    host_kinds,
    image_kinds,
    serving_kinds,
    tuning_kinds,
    venv_kinds,
    weights_kinds,
)
"""Modules that register their kinds on import."""


def differences_by_role(
    desired_by_role: Mapping[str, Mapping[str, Any]],
    observed: Mapping[str, Any],
    peers: Peers | None = None,
) -> dict[str, list[Difference]]:
    """Run `differences` on each role's slice of the plan."""
    return {role: differences(desired, observed, peers) for role, desired in desired_by_role.items()}
