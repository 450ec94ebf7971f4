# SPDX-License-Identifier: Apache-2.0
"""What a host shows to others: the address clients ask, the page of its metrics, and the firewall that opens both.

Each of them is there where the intent speaks of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.endpoint import SERVER_CERTIFICATE_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.firewall import TABLE
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.endpoint_variables import (
    endpoint_variables,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.firewall_variables import (
    SSH_PORT,
    firewall_variables,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.monitoring_variables import (
    monitoring_variables,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent

Roles = dict[str, dict[str, Any] | None]


def facing_variables(
    resolved: ResolvedIntent,
    host: HostIntent,
    node: Mapping[str, Any],
    roles: Mapping[str, Mapping[str, Any] | None],
    merged: Callable[[str, Mapping[str, Any]], dict[str, Any]],
) -> Roles:
    """The variables of these roles. `node` is the host on the fabric, `roles` what others got.

    `merged` puts a role's defaults below what is planned, and the operator's own above it.
    """
    found: Roles = {"endpoint": None, "monitoring": None, "firewall": None}
    if resolved.endpoint is not None:
        planned = endpoint_variables(host, resolved.endpoint, roles)
        found["endpoint"] = None if planned is None else merged("endpoint", planned)
    if resolved.monitoring is not None and resolved.monitoring.enabled:
        planned = monitoring_variables(resolved, host, resolved.monitoring, node, roles)
        found["monitoring"] = merged("monitoring", {**planned, **_watched(resolved, found)})
    if resolved.firewall is not None and resolved.firewall.enabled:
        port = host.port or SSH_PORT
        found["firewall"] = merged("firewall", firewall_variables(resolved, resolved.firewall, found, port))
    return found


def unwanted(resolved: ResolvedIntent) -> list[str]:
    """Roles whose part of the intent is there to say that they shall be gone; one that is left out says nothing."""
    parts = {"endpoint": resolved.endpoint, "monitoring": resolved.monitoring, "firewall": resolved.firewall}
    return [role for role, part in parts.items() if part is not None and not part.enabled]


def _watched(resolved: ResolvedIntent, found: Roles) -> dict[str, Any]:
    """What there is to read of the two others."""
    return {
        "monitoring_certificates": [SERVER_CERTIFICATE_PATH] if found["endpoint"] else [],
        "monitoring_firewall_tables": [TABLE] if resolved.firewall is not None and resolved.firewall.enabled else [],
    }
