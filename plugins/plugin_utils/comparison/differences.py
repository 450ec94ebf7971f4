# SPDX-License-Identifier: Apache-2.0
"""The comparison of a host's desired and observed state, with every kind of state that there is."""

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
"""Whose kinds were registered by importing them."""


def differences_by_role(
    desired_by_role: Mapping[str, Mapping[str, Any]],
    observed: Mapping[str, Any],
    peers: Peers | None = None,
) -> dict[str, list[Difference]]:
    """`differences` for each role's slice of the plan."""
    return {role: differences(desired, observed, peers) for role, desired in desired_by_role.items()}
