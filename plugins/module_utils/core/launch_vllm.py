# SPDX-License-Identifier: Apache-2.0
"""vLLM's server: on one node, as the driver of a Ray cluster, or as one rank of its own multi-node mode."""

from __future__ import annotations

from .engine_container import RAY_CONTAINER, token_environment
from .launch_description import Command, LaunchDescription, LaunchHost, endpoint
from .launch_parts import (
    device_options,
    docker_command,
    fabric_environment,
    merged_environment,
    model_mount,
    record,
    settings_arguments,
)
from .launch_ray import RayNode, ray_command

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def single(description: LaunchDescription, host: LaunchHost) -> list[Command]:
    """One node, every rank a process of the server's own."""
    words = server_arguments(description, "mp", [])
    env = merged_environment(_base(host), host.environment, description.environment)
    if description.runtime == "venv":
        return [_in_venv(description, words, env)]
    return [docker_command(description, words, env, options=[model_mount(description)], with_key=True)]


def ray(description: LaunchDescription, host: LaunchHost) -> list[Command]:
    """A Ray node everywhere, the server beside the head's."""
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
    )
    return [ray_command(node), *([ray_server(description, host)] if node.is_head else [])]


def ray_server(description: LaunchDescription, host: LaunchHost) -> Command:
    """The driver. Its environment goes to the ranks with it, where their Ray node has not set a variable itself."""
    env = merged_environment(
        _base(host),
        {"RAY_ADDRESS": endpoint(host.address, description.ray_port), **token_environment()},
        description.environment,
    )
    # A driver finds its raylet among the local processes and talks to it through the session directory.
    beside = [f"--pid=container:{RAY_CONTAINER}", f"--volumes-from={RAY_CONTAINER}"]
    return docker_command(description, server_arguments(description, "ray", []), env, options=beside, with_key=True)


def multinode(description: LaunchDescription, host: LaunchHost) -> list[Command]:
    """One server process a node that finds the others through the head; only the head answers clients."""
    is_head = host.name == description.head
    group = [
        f"--nnodes={len(description.hosts)}",
        f"--node-rank={host.rank}",
        f"--master-addr={description.head_host.address}",
        f"--master-port={description.master_port}",
        f"--distributed-timeout-seconds={description.distributed_timeout}",
    ]
    words = server_arguments(description, "mp", group, headless=not is_head)
    env = merged_environment(_base(host), fabric_environment(host), host.environment, description.environment)
    options = [*device_options(description), model_mount(description)]
    return [docker_command(description, words, env, options=options, with_key=is_head)]


def server_arguments(
    description: LaunchDescription, backend: str, group: list[str], headless: bool = False
) -> list[str]:
    """The engine's own command."""
    stages = description.pipeline_parallel
    return [
        "vllm",
        "serve",
        description.model_directory,
        f"--served-model-name={description.served_name}",
        f"--tensor-parallel-size={description.tensor_parallel}",
        *([f"--pipeline-parallel-size={stages}"] if stages > 1 else []),
        f"--distributed-executor-backend={backend}",
        *group,
        *(["--headless"] if headless else [f"--host={description.listen}", f"--port={description.port}"]),
        *settings_arguments(description),
        *description.flags,
    ]


def _base(host: LaunchHost) -> dict[str, object]:
    return {"VLLM_HOST_IP": host.address, "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}


def _in_venv(description: LaunchDescription, words: list[str], env: dict[str, str]) -> Command:
    programs = f"{description.venv}/bin"
    # The engine compiles kernels at its start and looks for the tools of its own environment in PATH.
    own = merged_environment({"PATH": f"{programs}:{_PATH}", "VIRTUAL_ENV": description.venv}, env)
    return record("server", [f"{programs}/{words[0]}", *words[1:]], own, words, env_file=description.env_file)
