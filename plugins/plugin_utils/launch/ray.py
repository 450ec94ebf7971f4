# SPDX-License-Identifier: Apache-2.0
"""A Ray node that runs from the engine's own image, bound to the fabric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import (
    container_environment,
    mount_options,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    RAY_CONTAINER,
    SHARED_MEMORY,
    TOKEN_PATH,
    TOKEN_PATH_IN_CONTAINER,
    confinement,
    docker_run,
    environment,
    lent_memory,
    mount,
    token_environment,
)

from .description import Command, LaunchHost, endpoint
from .parts import fabric_environment, merged_environment, record

METRICS_PORT = 9420
"""The port on which every Ray node exports its metrics."""
_SHARED = "/tmp"  # noqa: S108 - inside the container, and removed with it


@dataclass(frozen=True)
class RayNode:
    """The parameters of a node of the Ray cluster."""

    image: str
    address: str
    head_address: str
    is_head: bool
    interface: str
    model_directory: str
    port: int = 6379
    gpus: int = 1
    cpus: int = 1
    environment: Mapping[str, Any] = field(default_factory=dict)
    object_store_bytes: int = 1073741824
    worker_ports: str = "20000-24999"
    rdma: bool = False
    shared_memory: str = SHARED_MEMORY
    metrics_port: int = METRICS_PORT
    container: Mapping[str, Any] = field(default_factory=dict)
    compile_cache: Mapping[str, Any] = field(default_factory=dict)


def ray_command(node: RayNode) -> Command:
    """Return the whole command that runs a Ray node in the foreground."""
    env = merged_environment(
        ray_environment(node.address, node.interface), container_environment(node.compile_cache), node.environment
    )
    engine_argv = ["ray", *_start(node)]
    argv = [
        # The server of this node joins this memory: a driver and its ranks exchange messages there.
        *docker_run(RAY_CONTAINER, node.image, confinement(node.container), lent_memory(node.shared_memory)),
        *(["--device=/dev/infiniband"] if node.rdma else []),
        # The engine's container shares this volume: a driver needs its raylet's session directory, and talks to
        # the rank on its own node through sockets that it creates in /tmp.
        *([] if _SHARED in (node.container.get("writable") or ()) else [f"--volume={_SHARED}"]),
        mount(TOKEN_PATH, TOKEN_PATH_IN_CONTAINER),
        mount(node.model_directory),
        # The server of this node gets the mount through this container.
        *mount_options(node.compile_cache),
        *environment(env),
        "--entrypoint=ray",
        node.image,
        *engine_argv[1:],
    ]
    return record("ray", argv, env, engine_argv, container=RAY_CONTAINER)


def ray_environment(address: str, interface: str) -> dict[str, object]:
    """Return the environment of every Ray worker process, and thus of every rank of the engine."""
    return {
        "VLLM_HOST_IP": address,
        **fabric_environment(LaunchHost(name=address, address=address, interface=interface)),
        "HF_HUB_OFFLINE": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        # The engine fills the memory on purpose; Ray's monitor would kill the rank for it.
        "RAY_memory_monitor_refresh_ms": "0",
        **token_environment(),
    }


def _start(node: RayNode) -> list[str]:
    first, last = worker_ports(node.worker_ports)
    part = (
        ["--head", f"--port={node.port}", "--include-dashboard=false"]
        if node.is_head
        else [f"--address={endpoint(node.head_address, node.port)}"]
    )
    return [
        "start",
        "--block",
        *part,
        f"--node-ip-address={node.address}",
        f"--num-cpus={node.cpus}",
        f"--num-gpus={node.gpus}",
        f"--object-store-memory={node.object_store_bytes}",
        f"--min-worker-port={first}",
        f"--max-worker-port={last}",
        # Ray would choose any free port, which no reader or firewall could know in advance.
        f"--metrics-export-port={node.metrics_port}",
    ]


def worker_ports(text: object) -> tuple[int, int]:
    """Parse the port range of Ray's workers from "FIRST-LAST"."""
    first, separator, last = str(text).partition("-")
    if not (separator and first.strip().isdecimal() and last.strip().isdecimal()):
        raise ValueError(f"ray_cluster_worker_ports is {text!r}, expected FIRST-LAST, such as 20000-24999")
    low, high = int(first), int(last)
    if not 1024 <= low < high <= 65535:
        raise ValueError(f"ray_cluster_worker_ports is {text!r}, expected 1024 <= FIRST < LAST <= 65535")
    return low, high
