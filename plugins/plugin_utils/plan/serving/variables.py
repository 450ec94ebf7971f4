# SPDX-License-Identifier: Apache-2.0
"""The variables of the roles that serve on a host: its Ray node and its server, rank or replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES, ranked_hosts
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.launch import (
    engine_flags,
    engine_settings,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of

Node = Mapping[str, Any]


def ranks(resolved: ResolvedIntent, nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """Return every host by rank, with its address on the fabric; `nodes` are in the inventory's order."""
    hosts = [{"name": host.name, "address": node["address"]} for host, node in zip(resolved.hosts, nodes, strict=True)]
    ordered = sorted(ranked_hosts(hosts, resolved.head.name), key=lambda host: host.rank)
    return [{"name": host.name, "address": host.address} for host in ordered]


def ray_variables(
    resolved: ResolvedIntent,
    host: HostIntent,
    nodes: Sequence[Node],
    image: str,
    directory: str,
    more: Mapping[str, Any],
) -> dict[str, Any] | None:
    """Return the variables of role ray_cluster; None for a profile without Ray. `more` holds those of its container."""
    if not PROFILES[resolved.serving.profile].on_ray:
        return None
    node, head = nodes[resolved.number_of(host)], nodes[resolved.number_of(resolved.head)]
    return {
        "ray_cluster_image": image,
        "ray_cluster_node_address": node["address"],
        "ray_cluster_head_address": head["address"],
        "ray_cluster_is_head": host.is_head,
        "ray_cluster_head_host": resolved.head.name,
        "ray_cluster_size": len(resolved.hosts),
        "ray_cluster_port": 6379,
        "ray_cluster_gpus": resolved.hardware["gpus"],
        "ray_cluster_interface": node["interface"] or "lo",
        "ray_cluster_environment": with_own(host, "ray_cluster_environment", node["environment"]),
        "ray_cluster_model_directory": directory,
        "ray_cluster_rdma": resolved.fabric.rdma,
        **more,
    }


def server_variables(
    resolved: ResolvedIntent,
    host: HostIntent,
    nodes: Sequence[Node],
    image: str,
    directory: str,
    more: Mapping[str, Any],
) -> dict[str, Any] | None:
    """Return the variables of role inference_server; None on a host that runs no server.

    `more` holds those of its runtime, its limit and its container.
    """
    serving, node = resolved.serving, nodes[resolved.number_of(host)]
    each = PROFILES[serving.profile].ranked
    if not (each or host.is_head):
        return None
    ordered = ranks(resolved, nodes)
    # With Ray the nodes get the device variables, and the ranks inherit them; the server passes on its own environment.
    environment = {**serving.environment, **(node["environment"] if each else {})}
    return {
        "inference_server_profile": serving.profile,
        "inference_server_version": str(engine_of(resolved.stack)[1] or ""),
        "inference_server_replicas": serving.replicas,
        "inference_server_nodes": ordered,
        "inference_server_rank": [one["name"] for one in ordered].index(host.name),
        "inference_server_interface": (node["interface"] or "") if each else "",
        "inference_server_rdma": resolved.fabric.rdma if each else False,
        "inference_server_image": image,
        "inference_server_model_directory": directory,
        "inference_server_served_name": serving.served_name,
        "inference_server_tensor_parallel": serving.tensor_parallel,
        "inference_server_pipeline_parallel": serving.pipeline_parallel,
        "inference_server_flags": engine_flags(resolved),
        "inference_server_settings": engine_settings(resolved),
        "inference_server_listen": serving.listen,
        "inference_server_port": serving.port,
        "inference_server_node_address": node["address"],
        "inference_server_environment": with_own(host, "inference_server_environment", environment),
        **more,
    }


def with_own(host: HostIntent, name: str, planned: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the operator's own variables over those of the plan."""
    own = host.variables.get(name)
    return {**planned, **own} if isinstance(own, Mapping) else dict(planned)
