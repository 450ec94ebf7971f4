# SPDX-License-Identifier: Apache-2.0
"""Find exposed services of earlier runs that the inventory no longer asks for: endpoint, metrics page or firewall.

Leaving a variable out of the inventory removes nothing. A lost line must never open up a host, so a run reports what is
still there and removes only what it is explicitly asked to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.endpoint import UNIT as ENDPOINT_UNIT
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.firewall import UNIT as FIREWALL_UNIT

METRICS_UNIT = "firstlight-metrics.service"
UNITS: dict[str, str] = {"firewall": FIREWALL_UNIT, "endpoint": ENDPOINT_UNIT, "monitoring": METRICS_UNIT}
"""The systemd unit that shows that a role was applied."""


def leftover_request(role: str) -> dict[str, Any]:
    """Return what to observe on a host whose plan does not include this role."""
    return {"units": {UNITS[role]: {}}} if role in UNITS else {}


def found(observation: Mapping[str, Any]) -> list[str]:
    """Return the roles whose unit is present on the host, planned or not."""
    units = observation.get("units") or {}
    return [role for role, unit in UNITS.items() if (units.get(unit) or {}).get("load") == "loaded"]


def leftovers(plan: Mapping[str, Any], observation: Mapping[str, Any]) -> list[str]:
    """Return the roles present on the host that its plan does not include."""
    roles = plan.get("roles") or {}
    return [role for role in found(observation) if roles and not roles.get(role)]


def leaving(plan: Mapping[str, Any], observation: Mapping[str, Any]) -> list[str]:
    """Return the leftover roles that the intent asks to remove."""
    unwanted = plan.get("unwanted") or ()
    return [role for role in leftovers(plan, observation) if role in unwanted]


def leftover_notes(plan: Mapping[str, Any], observation: Mapping[str, Any]) -> list[str]:
    """Return a line for each leftover role that stays, with how to remove it."""
    unwanted = plan.get("unwanted") or ()
    return [
        f"the {role} of an earlier run is still installed ({UNITS[role]}), but the inventory does not ask for it on "
        f"this host: it is left unchanged; to remove it, set firstlight_{role} to {{enabled: false}} and run site.yml"
        for role in leftovers(plan, observation)
        if role not in unwanted
    ]
