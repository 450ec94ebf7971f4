# SPDX-License-Identifier: Apache-2.0
"""What each role wants of a host, as a pure function of the role's own variables.

One module a role, each with `desired(variables)`; they are looked up by name here so that filters, the
planner and the tests all ask in one place. Controller only: modules on the target are handed the finished
state.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

ROLES: tuple[str, ...] = (
    "preflight",
    "container_runtime",
    "host_tuning",
    "fabric_network",
    "inference_image",
    "model_weights",
    "ray_cluster",
    "inference_server",
)
"""Every role with a desired state, in the order a bring-up runs them."""

FURTHER_ROLES: tuple[str, ...] = ("nvidia_driver",)
"""Roles that are used alone and are no part of a bring-up's plan."""


def desired_state(role: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The state `role` converges a host to, given its full variables."""
    if role not in (*ROLES, *FURTHER_ROLES):
        known = ", ".join((*ROLES, *FURTHER_ROLES))
        raise ValueError(f"role {role!r} has no desired state; known roles are {known}")
    module = importlib.import_module(f".{role}", __package__)
    state: dict[str, Any] = module.desired(variables)
    return state
