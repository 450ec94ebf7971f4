# SPDX-License-Identifier: Apache-2.0
"""Commands by which a server's unit waits for its group before it starts, on this node and on the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    DOCKER,
    RAY_CONTAINER,
    RAY_GATHER_PATH,
)

from .description import LaunchDescription, endpoint


def ray_address(settings: Mapping[str, Any]) -> str:
    """Return the address of the Ray cluster's head, which is on this node."""
    return endpoint(str(settings["inference_server_node_address"]), int(settings["inference_server_ray_port"]))


def wait_for_ray(settings: Mapping[str, Any]) -> list[str]:
    """Return a command that waits for this node's Ray: a driver started earlier fails instead of waiting."""
    check = f"{DOCKER} exec {RAY_CONTAINER} ray health-check --address {ray_address(settings)}"
    return ["/bin/sh", "-c", f"until {check} >/dev/null 2>&1; do sleep 2; done"]


def wait_for_nodes(settings: Mapping[str, Any]) -> list[str]:
    """Return a command that waits for every planned node and its GPUs: the engine needs half an hour to miss one."""
    nodes = [str(node["address"]) for node in settings["inference_server_nodes"]]
    world = int(settings["inference_server_tensor_parallel"]) * int(settings["inference_server_pipeline_parallel"])
    words = [ray_address(settings), ",".join(nodes), len(nodes), settings["inference_server_join_timeout"]]
    asked = f"{DOCKER} exec -i {RAY_CONTAINER} python3 - {' '.join(map(str, words))} {world // len(nodes)}"
    return ["/bin/sh", "-c", f"exec {asked} <{RAY_GATHER_PATH}"]


def wait_for_ranks(settings: Mapping[str, Any]) -> list[str]:
    """Return a command that waits for the other nodes' containers: MPI tries each of them only once."""
    nodes = [str(node["address"]) for node in settings["inference_server_nodes"][1:]]
    asked = f"until : <>/dev/tcp/$node/{LaunchDescription.mpi_port}; do sleep 1; done"
    return ["/bin/bash", "-c", f"for node in {' '.join(nodes)}; do {asked}; done 2>/dev/null"]
