# SPDX-License-Identifier: Apache-2.0
"""All processes of a host out of one launch description, as the roles of its plan start them one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch import ray_serve, sglang, tensorrt, vllm
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.balancer import balancer_command
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.checks import problems
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import (
    Command,
    LaunchDescription,
    LaunchHost,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.ray import RayNode, ray_command


def read_description(values: Mapping[str, Any]) -> LaunchDescription:
    """A description out of a file of launches."""
    given = {name: value for name, value in values.items() if name != "engine"}
    hosts = tuple(host if isinstance(host, LaunchHost) else LaunchHost(**host) for host in given["hosts"])
    flags = given.get("flags", ())
    return LaunchDescription(**{**given, "hosts": hosts, "flags": tuple(flags) if isinstance(flags, list) else flags})


def commands(description: LaunchDescription | Mapping[str, Any], host: str) -> list[Command]:
    """The processes of one host, in the order in which they start; ValueError with everything that is wrong."""
    launch = description if isinstance(description, LaunchDescription) else read_description(description)
    if found := problems(launch):
        raise ValueError("\n".join(problem.sentence for problem in found))
    return _RENDER[launch.profile](launch, launch.host(host))


def _ray_node(description: LaunchDescription, host: LaunchHost) -> Command:
    """The host's node of the cluster."""
    node = RayNode(
        image=str(description.image),
        address=host.address,
        head_address=description.head_host.address,
        is_head=host.name == description.head,
        interface=host.interface or "lo",
        model_directory=description.model_directory,
        port=description.ray_port,
        gpus=description.gpus_per_host,
        cpus=description.ray_cpus,
        environment=host.environment,
        object_store_bytes=description.ray_object_store_bytes,
        worker_ports=description.ray_worker_ports,
        rdma=description.rdma,
        shared_memory=description.shared_memory,
        container=description.container,
        compile_cache=description.compile_cache,
    )
    return ray_command(node)


def _ray(description: LaunchDescription, host: LaunchHost) -> list[Command]:
    """A Ray node everywhere, the server beside the head's."""
    server = [vllm.ray_server(description, host)] if host.name == description.head else []
    return [_ray_node(description, host), *server]


def _ray_serve(description: LaunchDescription, host: LaunchHost) -> list[Command]:
    """A Ray node everywhere, beside the head's the program that deploys the replicas."""
    server = [ray_serve.serve_server(description, host)] if host.name == description.head else []
    return [_ray_node(description, host), *server]


def _replicas(description: LaunchDescription, host: LaunchHost) -> list[Command]:
    """Several servers on one node, each on GPUs of its own, and the balancer that makes one address of them."""
    servers = [vllm.replica(description, host, number) for number in range(description.replicas)]
    return [*servers, balancer_command(description.listen, description.port, description.replicas)]


_RENDER: dict[str, Callable[[LaunchDescription, LaunchHost], list[Command]]] = {
    "vllm-ray": _ray,
    "vllm-multinode": vllm.multinode,
    "vllm-single": vllm.single,
    "vllm-replicas": _replicas,
    "ray-serve": _ray_serve,
    "sglang": sglang.server,
    "tensorrt-llm": tensorrt.commands,
}
