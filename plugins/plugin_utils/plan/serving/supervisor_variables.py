# SPDX-License-Identifier: Apache-2.0
"""The variables of role supervisor: its groups, how their servers are probed, and the limits of a start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import engine_part
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    RAY_CONTAINER,
    RAY_UNIT,
    SERVER_ENVIRONMENT_PATH,
    server_container,
    server_unit,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.balancer import REPLICA_LISTEN, replica_port
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES, endpoint
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.inference_server import (
    DEFAULTS as SERVER_DEFAULTS,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.startup import Startup

Group = dict[str, Any]

_MIB = 1 << 20
_BEYOND_JOIN = 120
"""Seconds a server gets beyond its own wait for the nodes, so that it can report which of them is missing."""

_WORKER_ATTEMPTS = 100_000
_WORKER_PAUSE = 30
"""Start attempts of a ray-serve worker, and seconds between two: it fails while its head is away, perhaps for days."""

_HEAD_OF_RAY, _WORKER_OF_RAY, _SERVER_ON_RAY = range(3)
"""Start stages: a worker joins a running cluster, and a driver a complete one."""
_RANK_OF_MPI, _HEAD_OF_MPI = range(2)
"""Start stages: the head's MPI starts the ranks in containers that already run."""


def supervisor_variables(
    resolved: ResolvedIntent,
    host: HostIntent,
    nodes: Sequence[Mapping[str, Any]],
    roles: Mapping[str, Mapping[str, Any] | None],
    limits: Startup,
) -> dict[str, Any]:
    """Return the variables of role supervisor; `nodes` has the hosts on the fabric, `roles` the other roles' variables.

    `limits` is how long a start may take.
    """
    serving, profile = resolved.serving, PROFILES[resolved.serving.profile]
    addresses = {one.name: str(node["address"]) for one, node in zip(resolved.hosts, nodes, strict=True)}
    variables: dict[str, Any] = {
        "supervisor_node": host.name,
        "supervisor_address": addresses[host.name],
        "supervisor_head_host": resolved.head.name,
        "supervisor_head_address": addresses[resolved.head.name],
        "supervisor_addresses": addresses,
        # A worker that is a group of its own gets that group below; the groups of all hosts are long.
        "supervisor_groups": [] if profile.spread and not host.is_head else supervisor_groups(resolved),
        "supervisor_image": _image(resolved, roles),
        "supervisor_weights": (roles.get("model_weights") or {}).get("model_weights_directory", ""),
        "supervisor_memory_kind": "unified" if resolved.hardware.get("unified") else "discrete",
        # Where GPUs have memory of their own, the page cache does no harm and makes the next load faster.
        "supervisor_drop_caches": bool(resolved.hardware.get("unified")),
        "supervisor_weights_bytes": limits.weights_bytes_per_host // (serving.replicas if profile.replicated else 1),
        "supervisor_compile_cache": _cache(roles),
        # The operator may have set it for the server's role alone: its supervisor must not end what the role lets load.
        "supervisor_start_timeout": limits.limit_s,
        # Replicas on other hosts load where this group's supervisor does not see it.
        "supervisor_progress_timeout": limits.limit_s if profile.spread else limits.progress_timeout_s,
    }
    share = serving.utilisation if serving.memory_share is None else serving.memory_share
    if share is not None:
        variables["supervisor_memory_share"] = share
    if serving.memory_overhead:
        variables["supervisor_memory_overhead"] = -(-serving.memory_overhead // _MIB)
    if profile.spread:
        variables |= _by_itself(host, addresses)
    if profile.on_ray or (profile.by_mpi and len(resolved.hosts) > 1):
        join = _told(resolved, "inference_server_join_timeout", SERVER_DEFAULTS["inference_server_join_timeout"])
        variables["supervisor_stage_timeout"] = (join or 0) + _BEYOND_JOIN
    return variables


def _by_itself(host: HostIntent, addresses: Mapping[str, str]) -> dict[str, Any]:
    """Return what makes each host a group of its own with ray-serve, whose supervisor decides alone.

    Replicas on the other hosts go on while one is away: it rejoins their cluster when it is back, and none of them is
    stopped for it. A worker is useless without the head's Ray, so it waits for it indefinitely.
    """
    if host.is_head:
        return {}
    return {
        "supervisor_head_host": host.name,
        "supervisor_head_address": addresses[host.name],
        "supervisor_groups": [{"name": f"worker-{host.name}", "nodes": {host.name: [_ray(_HEAD_OF_RAY)]}}],
        "supervisor_start_attempts": _WORKER_ATTEMPTS,
        "supervisor_max_backoff": _WORKER_PAUSE,
    }


def _told(resolved: ResolvedIntent, name: str, otherwise: int | None) -> int | None:
    """Return the seconds that the operator has set for the server; an invalid number is left for the role to refuse."""
    value = str(resolved.head.variables.get(name))
    return int(value) if value.isdecimal() else otherwise


def supervisor_groups(resolved: ResolvedIntent) -> list[Group]:
    """Return the groups that serve together: all hosts of a model that spans them, or each replica by itself."""
    serving, profile = resolved.serving, PROFILES[resolved.serving.profile]
    in_docker = serving.runtime == "docker"
    size = serving.tensor_parallel * serving.pipeline_parallel

    def server(stage: int = 0, replica: int | None = None) -> dict[str, Any]:
        container = server_container(replica) if in_docker else ""
        return {"unit": server_unit(replica), "stage": stage, "container": container}

    if profile.replicated:
        return [
            {
                "name": f"replica-{number}",
                "nodes": {resolved.head.name: [server(replica=number)]},
                "probe": _probe(resolved, replica=number),
                "gpus": list(range(number * size, (number + 1) * size)),
                "cache": engine_part(number),
            }
            for number in range(serving.replicas)
        ]
    nodes = {host.name: [server()] for host in resolved.hosts}
    if profile.by_mpi and len(resolved.hosts) > 1:
        nodes = {host.name: [server(_HEAD_OF_MPI if host.is_head else _RANK_OF_MPI)] for host in resolved.hosts}
    if profile.on_ray:
        workers = () if profile.spread else resolved.hosts  # the workers are groups of their own
        nodes = {host.name: [_ray(_WORKER_OF_RAY)] for host in workers}
        nodes[resolved.head.name] = [_ray(_HEAD_OF_RAY), server(_SERVER_ON_RAY)]
    # A single server takes the first GPUs; the host's other GPUs may be in use by others.
    alone = len(resolved.hosts) == 1 and size < resolved.hardware["gpus"]
    own = {"gpus": list(range(size))} if alone else {}
    return [{"name": "server", "nodes": nodes, "probe": _probe(resolved), **own}]


def _ray(stage: int) -> dict[str, Any]:
    return {"unit": RAY_UNIT, "stage": stage, "container": RAY_CONTAINER}


def _probe(resolved: ResolvedIntent, replica: int | None = None) -> dict[str, Any]:
    """Return how the server is probed on its own host; a replica directly, bypassing the balancer."""
    serving, own = resolved.serving, resolved.head.variables
    port, listen = (
        int(own.get("inference_server_port", serving.port)),
        own.get("inference_server_listen", serving.listen),
    )
    if replica is not None:
        port, listen = replica_port(port, replica), REPLICA_LISTEN
    return {
        "url": f"http://{endpoint(str(listen), port)}",
        "model": str(own.get("inference_server_served_name", serving.served_name)),
        "key_path": SERVER_ENVIRONMENT_PATH,
        "tensor_parallel": serving.tensor_parallel,
    }


def _cache(roles: Mapping[str, Mapping[str, Any] | None]) -> str:
    """Return the compile cache directory of this host's engine."""
    server, ray = roles.get("inference_server") or {}, roles.get("ray_cluster") or {}
    found = ray.get("ray_cluster_compile_cache") or server.get("inference_server_compile_cache") or {}
    return str(found.get("path") or "")


def _image(resolved: ResolvedIntent, roles: Mapping[str, Mapping[str, Any] | None]) -> str:
    """Return the image that the units of this host run; empty if they run from a virtual environment."""
    if resolved.serving.runtime != "docker":
        return ""
    server, ray = roles.get("inference_server") or {}, roles.get("ray_cluster") or {}
    return str(ray.get("ray_cluster_image") or server.get("inference_server_image") or "")
