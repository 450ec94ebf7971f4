# SPDX-License-Identifier: Apache-2.0
"""SGLang's server: the same program on every node, each with its rank."""

from __future__ import annotations

from .launch_description import Command, LaunchDescription, LaunchHost, endpoint
from .launch_parts import (
    device_options,
    docker_command,
    fabric_environment,
    merged_environment,
    model_mount,
    settings_arguments,
)


def server(description: LaunchDescription, host: LaunchHost) -> list[Command]:
    """One process a node; those behind the head only answer health checks."""
    several = len(description.hosts) > 1
    stages = description.pipeline_parallel
    group = [
        f"--nnodes={len(description.hosts)}",
        f"--node-rank={host.rank}",
        f"--dist-init-addr={endpoint(description.head_host.address, description.master_port)}",
        f"--dist-timeout={description.distributed_timeout}",
    ]
    words = [
        "python3",
        "-m",
        "sglang.launch_server",
        f"--model-path={description.model_directory}",
        f"--served-model-name={description.served_name}",
        f"--tp-size={description.tensor_parallel}",
        *([f"--pp-size={stages}"] if stages > 1 else []),
        *(group if several else []),
        f"--host={description.listen}",
        f"--port={description.port}",
        *settings_arguments(description),
        *description.flags,
    ]
    env = merged_environment(
        # Without its own address a rank may offer the management network's, and the others wait for ever.
        {"SGLANG_HOST_IP": host.address, "HF_HUB_OFFLINE": "1"},
        fabric_environment(host) if several else {},
        host.environment,
        description.environment,
    )
    options = [*(device_options(description) if several else []), model_mount(description)]
    return [docker_command(description, words, env, options=options)]
