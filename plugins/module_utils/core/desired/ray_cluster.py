# SPDX-License-Identifier: Apache-2.0
"""One node of the Ray cluster: a unit that runs Ray out of the engine's own image, bound to the fabric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.engine_container import (
    RAY_CONTAINER,
    RAY_UNIT,
    TOKEN_PATH,
    TOKEN_PATH_IN_CONTAINER,
    UNIT_DIRECTORY,
    docker_rm,
    docker_run,
    docker_stop,
    environment,
    mount,
    token_environment,
)
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


def ray_environment(settings: Mapping[str, Any]) -> dict[str, object]:
    """What every Ray worker process, and so every rank of the engine, finds in its environment."""
    interface = str(settings["ray_cluster_interface"])
    return {
        "VLLM_HOST_IP": settings["ray_cluster_node_address"],
        "NCCL_SOCKET_IFNAME": interface,
        "GLOO_SOCKET_IFNAME": interface,
        "UCX_NET_DEVICES": interface,
        "HF_HUB_OFFLINE": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        # The engine fills the memory on purpose; Ray's monitor would kill the rank for it.
        "RAY_memory_monitor_refresh_ms": "0",
        **token_environment(),
    }


def arguments(settings: Mapping[str, Any]) -> list[str]:
    """The whole command that runs a Ray node in the foreground."""
    head_address = f"{settings['ray_cluster_head_address']}:{int(settings['ray_cluster_port'])}"
    model_directory = str(settings["ray_cluster_model_directory"])
    argv = docker_run(RAY_CONTAINER, str(settings["ray_cluster_image"]))
    if settings["ray_cluster_rdma"]:
        argv.append("--device=/dev/infiniband")
    argv += [
        # The engine's container shares this volume: a driver needs its raylet's session directory, and talks to
        # the rank on its own node through sockets that it makes in /tmp.
        "--volume=/tmp",
        mount(TOKEN_PATH, TOKEN_PATH_IN_CONTAINER),
        mount(model_directory),
        *environment(ray_environment(settings), settings["ray_cluster_environment"]),
        "--entrypoint=ray",
        str(settings["ray_cluster_image"]),
        "start",
        "--block",
    ]
    if settings["ray_cluster_is_head"]:
        argv += ["--head", f"--port={int(settings['ray_cluster_port'])}", "--include-dashboard=false"]
    else:
        argv.append(f"--address={head_address}")
    first, last = worker_ports(settings["ray_cluster_worker_ports"])
    return [
        *argv,
        f"--node-ip-address={settings['ray_cluster_node_address']}",
        f"--num-cpus={int(settings['ray_cluster_cpus'])}",
        f"--num-gpus={int(settings['ray_cluster_gpus'])}",
        f"--object-store-memory={int(settings['ray_cluster_object_store_bytes'])}",
        f"--min-worker-port={first}",
        f"--max-worker-port={last}",
    ]


def worker_ports(text: object) -> tuple[int, int]:
    """The range Ray's workers listen in, from "FIRST-LAST"."""
    first, separator, last = str(text).partition("-")
    if not (separator and first.strip().isdecimal() and last.strip().isdecimal()):
        raise ValueError(f"ray_cluster_worker_ports is {text!r}, expected FIRST-LAST as 20000-24999")
    low, high = int(first), int(last)
    if not 1024 <= low < high <= 65535:
        raise ValueError(f"ray_cluster_worker_ports is {text!r}, expected 1024 <= FIRST < LAST <= 65535")
    return low, high


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
