# SPDX-License-Identifier: Apache-2.0
"""The SGLang server: the same program on every node, each with its rank."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import (
    container_environment,
    mount_options,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import SGLANG_PROGRAM_PATH, mount

from .description import Command, LaunchDescription, LaunchHost, endpoint
from .parts import (
    device_options,
    docker_command,
    fabric_environment,
    merged_environment,
    model_mount,
    settings_arguments,
)
from .sglang_program import PROGRAM


def server(description: LaunchDescription, host: LaunchHost) -> list[Command]:
    """Return one process per node; those other than the head only answer health checks, so they get no key."""
    several, is_head = len(description.hosts) > 1, host.name == description.head
    words = ["python3", "-m", "sglang.launch_server", *server_arguments(description, host)]
    env = merged_environment(
        # Without its own address a rank may offer the management network's, and the others wait forever.
        {"SGLANG_HOST_IP": host.address, "HF_HUB_OFFLINE": "1", **_warm_up(description)},
        container_environment(description.compile_cache),
        fabric_environment(host) if several else {},
        host.environment,
        description.environment,
    )
    options = [
        *(device_options(description) if several else []),
        model_mount(description),
        *mount_options(description.compile_cache),
    ]
    if not is_head:
        return [docker_command(description, words, env, options=options)]
    command = docker_command(
        description,
        ["python3", SGLANG_PROGRAM_PATH, *words[3:]],
        env,
        options=[*options, mount(SGLANG_PROGRAM_PATH)],
        files={SGLANG_PROGRAM_PATH: PROGRAM},
        with_key=True,
    )
    # The command that is checked against the engine's schema is the engine's own, not the wrapper's.
    return [{**command, "engine_argv": words}]


def _warm_up(description: LaunchDescription) -> dict[str, object]:
    """Return the time limit of SGLang's own first request: its default of ten minutes may end it while it compiles."""
    return {"SGLANG_WARMUP_TIMEOUT": description.start_timeout} if description.start_timeout else {}


def server_arguments(description: LaunchDescription, host: LaunchHost) -> list[str]:
    """Return the engine's own arguments. Its radix cache is on unless it is switched off."""
    stages = description.pipeline_parallel
    group = [
        f"--nnodes={len(description.hosts)}",
        f"--node-rank={host.rank}",
        f"--dist-init-addr={endpoint(description.head_host.address, description.master_port)}",
        f"--dist-timeout={description.distributed_timeout}",
    ]
    return [
        f"--model-path={description.model_directory}",
        f"--served-model-name={description.served_name}",
        f"--tp-size={description.tensor_parallel}",
        *([f"--pp-size={stages}"] if stages > 1 else []),
        *(group if len(description.hosts) > 1 else []),
        f"--host={description.listen}",
        f"--port={description.port}",
        # Off by default, and without metrics a busy engine cannot be distinguished from one that hangs.
        "--enable-metrics",
        *settings_arguments(description),
        *description.flags,
    ]
