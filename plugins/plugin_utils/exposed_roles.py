# SPDX-License-Identifier: Apache-2.0
"""What of an earlier run still faces others on a host: an endpoint, a page of metrics or a firewall nobody asks for.

Leaving a variable out of an inventory removes nothing. To open a host by a line that was lost would be the worst of all
surprises, so a run says what is still there, and takes away only what it is told to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.endpoint import UNIT as ENDPOINT_UNIT
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.firewall import UNIT as FIREWALL_UNIT

METRICS_UNIT = "firstlight-metrics.service"
UNITS: dict[str, str] = {"firewall": FIREWALL_UNIT, "endpoint": ENDPOINT_UNIT, "monitoring": METRICS_UNIT}
"""The unit that shows that such a role was here."""


def leftover_request(role: str) -> dict[str, Any]:
    """What to look at on a host whose plan has nothing of this role."""
    return {"units": {UNITS[role]: {}}} if role in UNITS else {}


def found(observation: Mapping[str, Any]) -> list[str]:
    """Roles of which something is here, planned or not."""
    units = observation.get("units") or {}
    return [role for role, unit in UNITS.items() if (units.get(unit) or {}).get("load") == "loaded"]


def leftovers(plan: Mapping[str, Any], observation: Mapping[str, Any]) -> list[str]:
    """Those of them that the plan of this host has not."""
    roles = plan.get("roles") or {}
    return [role for role in found(observation) if roles and not roles.get(role)]


def leaving(plan: Mapping[str, Any], observation: Mapping[str, Any]) -> list[str]:
    """Those of them that the intent wants gone."""
    unwanted = plan.get("unwanted") or ()
    return [role for role in leftovers(plan, observation) if role in unwanted]


def leftover_notes(plan: Mapping[str, Any], observation: Mapping[str, Any]) -> list[str]:
    """A line for each that stays, and how it would go."""
    unwanted = plan.get("unwanted") or ()
    return [
        f"the {role} of an earlier run is still here ({UNITS[role]}), and the inventory asks for none on this host: it "
        f"stays as it is; to have it taken away, set firstlight_{role} to {{enabled: false}} and run site.yml"
        for role in leftovers(plan, observation)
        if role not in unwanted
    ]
