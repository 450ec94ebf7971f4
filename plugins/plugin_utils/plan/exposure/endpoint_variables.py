# SPDX-License-Identifier: Apache-2.0
"""The variables of role endpoint: listen address, names, clients, and the engine behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.text import is_address
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import endpoint
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.endpoint_intent import Endpoint
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent

_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - used where the inventory has only a name for the head
_WILDCARDS = (_EVERY_ADDRESS, "::")


def endpoint_variables(
    host: HostIntent, wanted: Endpoint, roles: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Any] | None:
    """Return the variables of role endpoint; None on a host without one. `roles` holds the other roles' variables."""
    server = roles.get("inference_server")
    if not (wanted.enabled and host.is_head and server):
        return None
    planned: dict[str, Any] = {
        "endpoint_listen": listen_of(wanted, host),
        "endpoint_port": wanted.port,
        "endpoint_http_port": wanted.http_port,
        "endpoint_names": _names(wanted, host),
        "endpoint_clients": list(wanted.clients),
        "endpoint_keys": [dict(key) for key in wanted.keys],
        "endpoint_upstream": _engine(server),
        "endpoint_extra_paths": list(wanted.extra_paths),
        "endpoint_certificate": wanted.certificate,
        "endpoint_certificate_key": wanted.certificate_key,
        "endpoint_cluster": wanted.cluster,
    }
    for name in ("rate", "key_connections", "body_limit", "spool_limit"):
        if getattr(wanted, name) is not None:
            planned[f"endpoint_{name}"] = getattr(wanted, name)
    return planned


def _engine(server: Mapping[str, Any]) -> str:
    """Return the URL at which the head reaches the engine: nobody can connect to a wildcard address."""
    listen = str(server["inference_server_listen"])
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)  # noqa: S104 - recognised, not bound
    return f"http://{endpoint(address, int(server['inference_server_port']))}"


def listen_of(wanted: Endpoint, head: HostIntent) -> str:
    """Return the listen address: the one at which Ansible reaches the head, where that is an IP address."""
    if wanted.listen:
        return wanted.listen
    return head.address if head.address and is_address(head.address) else _EVERY_ADDRESS


def _names(wanted: Endpoint, head: HostIntent) -> list[str]:
    """Return the names clients use: the operator's first, then those the inventory has for the head."""
    inventory = [name for name in (head.address, head.name) if name and "_" not in name and " " not in name]
    return list(dict.fromkeys([*wanted.names, *inventory]))


def check_endpoint(resolved: ResolvedIntent, wanted: Endpoint, errors: PlanErrors) -> None:
    """Refuse an endpoint that listens on the engine's own address and port."""
    serving, listen = resolved.serving, listen_of(wanted, resolved.head)
    shared = serving.listen == listen or serving.listen in _WILDCARDS or listen in _WILDCARDS
    taken = range(serving.port, serving.port + 1 + (serving.replicas if serving.replicas > 1 else 0))
    for name, port in (("port", wanted.port), ("http_port", wanted.http_port)):
        if wanted.enabled and shared and port in taken:
            errors.add(
                "endpoint.port",
                f"firstlight_endpoint.{name} is {port}, and the engine listens on {serving.listen} port {serving.port}",
                "the endpoint and the engine are two servers on the head",
                f"set firstlight_endpoint.{name} to another port, or leave firstlight_serving.listen out",
            )
