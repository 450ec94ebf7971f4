# SPDX-License-Identifier: Apache-2.0
"""What the unit of a server waits for before it starts: others of its group, on this node and on the rest."""

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
    """Where the cluster's head answers: on this node."""
    return endpoint(str(settings["inference_server_node_address"]), int(settings["inference_server_ray_port"]))


def wait_for_ray(settings: Mapping[str, Any]) -> list[str]:
    """Wait until this node's Ray answers: a driver that comes earlier fails instead of waiting."""
    check = f"{DOCKER} exec {RAY_CONTAINER} ray health-check --address {ray_address(settings)}"
    return ["/bin/sh", "-c", f"until {check} >/dev/null 2>&1; do sleep 2; done"]


def wait_for_nodes(settings: Mapping[str, Any]) -> list[str]:
    """Wait until every planned node is there with its GPUs: the engine would need half an hour to miss one."""
    nodes = [str(node["address"]) for node in settings["inference_server_nodes"]]
    world = int(settings["inference_server_tensor_parallel"]) * int(settings["inference_server_pipeline_parallel"])
    words = [ray_address(settings), ",".join(nodes), len(nodes), settings["inference_server_join_timeout"]]
    asked = f"{DOCKER} exec -i {RAY_CONTAINER} python3 - {' '.join(map(str, words))} {world // len(nodes)}"
    return ["/bin/sh", "-c", f"exec {asked} <{RAY_GATHER_PATH}"]


def wait_for_ranks(settings: Mapping[str, Any]) -> list[str]:
    """Wait until the container of every other node can be reached: MPI asks each of them once, and then gives up."""
    nodes = [str(node["address"]) for node in settings["inference_server_nodes"][1:]]
    asked = f"until : <>/dev/tcp/$node/{LaunchDescription.mpi_port}; do sleep 1; done"
    return ["/bin/bash", "-c", f"for node in {' '.join(nodes)}; do {asked}; done 2>/dev/null"]
