# SPDX-License-Identifier: Apache-2.0
"""One node of the Ray cluster: a unit that runs Ray out of the engine's own image, bound to the fabric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.engine_container import (
    RAY_CONTAINER,
    RAY_UNIT,
    TOKEN_PATH,
    UNIT_DIRECTORY,
    UNLESS_DRAINED,
    docker_rm,
    docker_stop,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_description import Command
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_ray import RayNode, ray_command
from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import root_file, root_secret
from ansible_collections.firstlight.cluster.plugins.module_utils.core.systemd import command, render_unit

UNIT_PATH = f"{UNIT_DIRECTORY}/{RAY_UNIT}"

DEFAULTS: dict[str, Any] = {
    "ray_cluster_port": 6379,
    "ray_cluster_gpus": 1,
    "ray_cluster_cpus": 1,
    "ray_cluster_environment": {},
    "ray_cluster_object_store_bytes": 1073741824,
    "ray_cluster_worker_ports": "20000-24999",
    "ray_cluster_rdma": False,
}
"""What the role's defaults say too, for a plan that leaves them out."""


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The unit, the token and the running container."""
    settings = {**DEFAULTS, **variables}
    is_head = bool(settings["ray_cluster_is_head"])
    return {
        "files": {
            UNIT_PATH: root_file(unit(settings)),
            TOKEN_PATH: root_secret(same_as=None if is_head else str(settings["ray_cluster_head_host"])),
        },
        "units": {RAY_UNIT: {"enabled": True, "active": True}},
        "containers": {RAY_CONTAINER: {"image": str(settings["ray_cluster_image"]), "running": True}},
    }


def launch(variables: Mapping[str, Any]) -> Command:
    """The process that runs a Ray node in the foreground; the plan shows what the unit runs."""
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
    )
    return ray_command(node)


def arguments(settings: Mapping[str, Any]) -> list[str]:
    """The whole command that runs a Ray node in the foreground."""
    return [*launch(settings)["argv"]]


def unit(settings: Mapping[str, Any]) -> str:
    """The unit file of this node."""
    part = "head" if settings["ray_cluster_is_head"] else "worker"
    return render_unit(
        [
            (
                "Unit",
                [
                    ("Description", f"Firstlight Ray {part} at {settings['ray_cluster_node_address']}"),
                    ("Requires", "docker.service"),
                    ("After", "docker.service network-online.target"),
                    ("Wants", "network-online.target"),
                    UNLESS_DRAINED,
                    # Never give up: after a power cut a worker may wait long for its head.
                    ("StartLimitIntervalSec", "0"),
                ],
            ),
            (
                "Service",
                [
                    ("Type", "exec"),
                    (
                        "ExecStartPre",
                        command(docker_rm(RAY_CONTAINER), prefix="-"),
                    ),
                    ("ExecStart", command(arguments(settings))),
                    ("ExecStop", command(docker_stop(RAY_CONTAINER, 20), prefix="-")),
                    ("Restart", "always"),
                    ("RestartSec", "3"),
                    # `ray start --block` answers a plain stop with 1, `docker run` with 128 + the signal.
                    ("SuccessExitStatus", "1 137 143"),
                    ("TimeoutStopSec", "40"),
                ],
            ),
            ("Install", [("WantedBy", "multi-user.target")]),
        ]
    )
