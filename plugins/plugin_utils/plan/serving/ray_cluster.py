# SPDX-License-Identifier: Apache-2.0
"""The desired state of a Ray node: a unit that runs Ray from the engine's own image, bound to the fabric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import checked, prepare_commands
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    RAY_CONTAINER,
    RAY_UNIT,
    SHARED_MEMORY,
    TOKEN_PATH,
    UNIT_DIRECTORY,
    UNLESS_DRAINED,
    checked_container,
    docker_rm,
    docker_stop,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import root_file, root_secret
from ansible_collections.firstlight.cluster.plugins.module_utils.systemd import DRIVER_UNITS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import Command, endpoint
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.ray import RayNode, ray_command
from ansible_collections.firstlight.cluster.plugins.plugin_utils.templates import render

HEAD_SECONDS = 180
"""How long a worker waits for its head to accept connections."""
STARTING = 120
"""Seconds a unit may take to start, on top of its own waits."""
_STOP_SECONDS = 20
UNIT_PATH = f"{UNIT_DIRECTORY}/{RAY_UNIT}"

DEFAULTS: dict[str, Any] = {
    "ray_cluster_port": 6379,
    "ray_cluster_gpus": 1,
    "ray_cluster_cpus": 1,
    "ray_cluster_environment": {},
    "ray_cluster_object_store_bytes": 1073741824,
    "ray_cluster_worker_ports": "20000-24999",
    "ray_cluster_rdma": False,
    "ray_cluster_shared_memory": SHARED_MEMORY,
    "ray_cluster_container": {},
    "ray_cluster_compile_cache": {},
}
"""The role's defaults, for a plan that leaves them out."""


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the unit, the token and the running container."""
    settings = {**DEFAULTS, **variables}
    is_head = bool(settings["ray_cluster_is_head"])
    return {
        "files": {
            UNIT_PATH: root_file(unit(settings)),
            TOKEN_PATH: root_secret(same_as=None if is_head else str(settings["ray_cluster_head_host"])),
        },
        "units": {RAY_UNIT: {"enabled": False, "active": True}},
        "containers": {RAY_CONTAINER: {"image": str(settings["ray_cluster_image"]), "running": True}},
    }


def launch(variables: Mapping[str, Any]) -> Command:
    """Return the command that runs a Ray node in the foreground; the plan shows it as what the unit runs."""
    settings = {**DEFAULTS, **variables}
    node = RayNode(
        image=str(settings["ray_cluster_image"]),
        address=str(settings["ray_cluster_node_address"]),
        head_address=str(settings["ray_cluster_head_address"]),
        is_head=bool(settings["ray_cluster_is_head"]),
        interface=str(settings["ray_cluster_interface"]),
        model_directory=str(settings["ray_cluster_model_directory"]),
        port=int(settings["ray_cluster_port"]),
        gpus=int(settings["ray_cluster_gpus"]),
        cpus=int(settings["ray_cluster_cpus"]),
        environment=settings["ray_cluster_environment"],
        object_store_bytes=int(settings["ray_cluster_object_store_bytes"]),
        worker_ports=str(settings["ray_cluster_worker_ports"]),
        rdma=bool(settings["ray_cluster_rdma"]),
        shared_memory=str(settings["ray_cluster_shared_memory"]),
        container=checked_container(settings["ray_cluster_container"], "ray_cluster_container"),
        compile_cache=checked(settings["ray_cluster_compile_cache"], "ray_cluster_compile_cache"),
    )
    return ray_command(node)


def arguments(settings: Mapping[str, Any]) -> list[str]:
    """Return the whole command that runs a Ray node in the foreground."""
    return [*launch(settings)["argv"]]


def unit(settings: Mapping[str, Any]) -> str:
    """Render the unit file of this node."""
    is_head, process = bool(settings["ray_cluster_is_head"]), launch(settings)
    container = str(process["container"])
    return render(
        "ray_cluster",
        "ray.service",
        description=f"Firstlight Ray {'head' if is_head else 'worker'} at {settings['ray_cluster_node_address']}",
        after=["docker.service", "network-online.target", *DRIVER_UNITS],
        condition=UNLESS_DRAINED[1],
        argv=process["argv"],
        first=[
            *prepare_commands(settings["ray_cluster_compile_cache"]),
            *([] if is_head else [wait_for_head(settings)]),
        ],
        remove=docker_rm(container),
        stop=docker_stop(container, _STOP_SECONDS),
        start_seconds=STARTING + (0 if is_head else HEAD_SECONDS),
        stop_seconds=2 * _STOP_SECONDS,
    )


def wait_for_head(settings: Mapping[str, Any]) -> list[str]:
    """Return a command that waits for the head's port: a worker started earlier gives up with a vaguer error."""
    address, port = str(settings["ray_cluster_head_address"]), int(settings["ray_cluster_port"])
    place = endpoint(address, port)
    # This needs nothing but a shell on the host.
    asked = f"until true 2>/dev/null >/dev/tcp/{address}/{port}; do sleep 1; done"
    # Not 1: systemd treats that as a clean stop here, even in a command before the main one, and would go on.
    told = f"echo 'the head at {place} takes no connection after {HEAD_SECONDS} s' >&2; exit 69"
    return ["/bin/sh", "-c", f"timeout {HEAD_SECONDS} bash -c '{asked}' 2>/dev/null || {{ {told}; }}"]
