# SPDX-License-Identifier: Apache-2.0
"""The variables of role monitoring: what runs on a host, which versions are pinned, and who may read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import endpoint
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.ray import METRICS_PORT
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.monitoring_intent import (
    Monitoring,
    listen_address,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.supervisor_variables import (
    supervisor_groups,
)

_PINNED = ("nvidia_driver_packages", "cuda_toolkit_packages", "container_runtime_packages")


def monitoring_variables(
    resolved: ResolvedIntent,
    host: HostIntent,
    monitoring: Monitoring,
    node: Mapping[str, Any],
    roles: Mapping[str, Mapping[str, Any] | None],
) -> dict[str, Any]:
    """Return the variables of role monitoring; `node` is the host on the fabric, `roles` the other roles' variables."""
    listen = listen_address(host)
    return {
        "monitoring_node": host.name,
        "monitoring_hosts": list(monitoring.hosts),
        **({"monitoring_listen": listen} if listen else {}),
        "monitoring_port": monitoring.port,
        "monitoring_engine_urls": _engines(resolved, host),
        "monitoring_ray_url": _ray(node) if roles.get("ray_cluster") else "",
        "monitoring_pins": _pins(roles),
        "monitoring_gpus": int(resolved.hardware["gpus"]),
        "monitoring_dcgm_image": monitoring.dcgm_image,
        "monitoring_targets": dict(resolved.targets),
    }


def _engines(resolved: ResolvedIntent, host: HostIntent) -> list[str]:
    """Return the metrics URLs of the servers on this host, at the addresses its supervisor probes."""
    if host.name != resolved.head.name:
        return []
    return [f"{group['probe']['url']}/metrics" for group in supervisor_groups(resolved)]


def _ray(node: Mapping[str, Any]) -> str:
    return f"http://{endpoint(str(node['address']), METRICS_PORT)}/metrics"


def _pins(roles: Mapping[str, Mapping[str, Any] | None]) -> dict[str, str]:
    """Return every package of the stack with its pinned version; packages without a pin are left out."""
    found: dict[str, str] = {}
    for role in roles.values():
        for name in _PINNED:
            packages = (role or {}).get(name)
            if isinstance(packages, Mapping):
                found |= {str(package): version for package, version in packages.items() if isinstance(version, str)}
    return {package: version for package, version in sorted(found.items()) if version}
