# SPDX-License-Identifier: Apache-2.0
"""The variables of role firewall: the fabric and its nodes, and the openings that other parts of the plan need."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.firewall_intent import FirewallIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent

Variables = Mapping[str, Any]

SSH_PORT = 22


def firewall_variables(
    resolved: ResolvedIntent,
    intent: FirewallIntent,
    roles: Mapping[str, Variables | None],
    ssh_port: int = SSH_PORT,
) -> dict[str, Any]:
    """Return the variables of role firewall; `roles` holds other roles' variables, `ssh_port` the port Ansible uses.

    The ports of Ray, ranks, supervisors and weights are all on the fabric, where nodes may reach every port.
    """
    ports = [rail.expected for rail in resolved.fabric.rails]
    return {
        "firewall_ssh_ports": [ssh_port],
        "firewall_ssh_from": list(intent.ssh_from),
        "firewall_fabric": {"interfaces": ports, "peers": list(resolved.fabric.addresses)} if ports else {},
        "firewall_openings": [
            *endpoint_openings(roles.get("endpoint")),
            *monitoring_openings(roles.get("monitoring")),
            *[dict(opening) for opening in intent.openings],
        ],
    }


def endpoint_openings(variables: Variables | None) -> list[dict[str, Any]]:
    """Return the opening for an endpoint that is not on loopback: for the named clients, and nobody else."""
    given = variables or {}
    if not given.get("endpoint_clients") or _is_loopback(given.get("endpoint_listen", "127.0.0.1")):
        return []
    ports = [int(given.get("endpoint_port", 443)), int(given.get("endpoint_http_port") or 0)]
    return [_opening("endpoint", [port for port in ports if port], given["endpoint_clients"])]


def monitoring_openings(variables: Variables | None) -> list[dict[str, Any]]:
    """Return the opening for the metrics page: for the monitoring hosts."""
    given = variables or {}
    if not given.get("monitoring_hosts"):
        return []
    return [_opening("monitoring", [int(given.get("monitoring_port", 9410))], given["monitoring_hosts"])]


def _opening(name: str, ports: list[int], sources: Any) -> dict[str, Any]:
    return {"name": name, "protocol": "tcp", "ports": ports, "from": [str(source) for source in sources]}


def _is_loopback(listen: Any) -> bool:
    try:
        return ipaddress.ip_address(str(listen)).is_loopback
    except ValueError:
        return False  # a name: the role that listens checks it
