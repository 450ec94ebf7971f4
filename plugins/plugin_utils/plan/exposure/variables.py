# SPDX-License-Identifier: Apache-2.0
"""The variables of the roles that face outward: endpoint, metrics page, and the firewall that opens both.

Each role is planned only where the intent mentions it.
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
    """Return the variables of these roles. `node` is the host on the fabric, `roles` the other roles' variables.

    `merged` puts a role's defaults below what is planned, and the operator's own values above it.
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
    """Return the roles that the intent disables explicitly; one that is left out is not among them."""
    parts = {"endpoint": resolved.endpoint, "monitoring": resolved.monitoring, "firewall": resolved.firewall}
    return [role for role, part in parts.items() if part is not None and not part.enabled]


def _watched(resolved: ResolvedIntent, found: Roles) -> dict[str, Any]:
    """Return the certificates and firewall tables of the two other roles that monitoring reads."""
    return {
        "monitoring_certificates": [SERVER_CERTIFICATE_PATH] if found["endpoint"] else [],
        "monitoring_firewall_tables": [TABLE] if resolved.firewall is not None and resolved.firewall.enabled else [],
    }
