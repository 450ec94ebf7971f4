# SPDX-License-Identifier: Apache-2.0
"""TensorRT-LLM's server: alone on one node, or started by MPI in containers that wait on the other nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .engine_container import SERVER_CONTAINER, mount
from .launch_description import Command, LaunchDescription, LaunchHost
from .launch_parts import (
    device_options,
    docker_command,
    fabric_environment,
    merged_environment,
    settings_arguments,
    settings_document,
)

SETTINGS_PATH = "/etc/firstlight/tensorrt-llm.yml"
MPI_CONTAINER = "firstlight-mpi"
MPI_DIRECTORY = "/etc/firstlight/mpi"
"""Root-only: host key, user key, authorized_keys and known_hosts of the containers' own SSH."""


def commands(description: LaunchDescription, host: LaunchHost) -> list[Command]:
    """One server on one node; on several the head's MPI starts the ranks in a container that waits on each other."""
    several = len(description.hosts) > 1
    is_head = host.name == description.head
    env = merged_environment(
        {"HF_HUB_OFFLINE": "1"},
        {**fabric_environment(host), **_mpi_environment(host)} if several else {},
        host.environment,
        description.environment,
    )
    words = server_arguments(description)
    started = words
    options = [mount(description.model_directory, model_path(description)), mount(SETTINGS_PATH)]
    if several:
        options = [*device_options(description), *options, mount(MPI_DIRECTORY)]
        started = _mpirun(description, env, words) if is_head else _sshd(description, host)
    command = docker_command(
        description,
        started,
        env,
        options=options,
        files={SETTINGS_PATH: settings_file(settings_document(description))},
        container=SERVER_CONTAINER if is_head else MPI_CONTAINER,
    )
    # What is checked against the engine's schema is the engine's own part of the command.
    return [{**command, "engine_argv": words} if is_head else command]


def model_path(description: LaunchDescription) -> str:
    """Where the containers see the weights: clients ask for a model by the last part of this path."""
    return f"/models/{description.served_name}"


def server_arguments(description: LaunchDescription) -> list[str]:
    """The engine's own command."""
    return [
        "trtllm-serve",
        model_path(description),
        f"--tp_size={description.tensor_parallel}",
        f"--pp_size={description.pipeline_parallel}",
        f"--gpus_per_node={description.gpus_per_host}",
        "--backend=pytorch",
        f"--config={SETTINGS_PATH}",
        f"--host={description.listen}",
        f"--port={description.port}",
        *settings_arguments(description),
        *description.flags,
    ]


def _mpi_environment(host: LaunchHost) -> dict[str, object]:
    if host.interface is None:
        return {}
    return {"OMPI_MCA_oob_tcp_if_include": host.interface}


def _sshd(description: LaunchDescription, host: LaunchHost) -> list[str]:
    """MPI starts ranks on other nodes over SSH: one of the container's own, on the fabric, that knows one key only."""
    options = {
        "ListenAddress": host.address,
        "AuthorizedKeysFile": f"{MPI_DIRECTORY}/authorized_keys",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return ["/usr/sbin/sshd", "-D", "-e", "-p", str(description.mpi_port), "-h", f"{MPI_DIRECTORY}/host_key", *words]


def _mpirun(description: LaunchDescription, env: Mapping[str, str], words: list[str]) -> list[str]:
    each = description.world // len(description.hosts)
    nodes = ",".join(f"{host.address}:{each}" for host in description.ordered)
    agent = (
        f"ssh -p {description.mpi_port} -i {MPI_DIRECTORY}/user_key -o BatchMode=yes "
        f"-o StrictHostKeyChecking=yes -o UserKnownHostsFile={MPI_DIRECTORY}/known_hosts"
    )
    passed = [word for name in env for word in ("-x", name)]
    return [
        "mpirun",
        "--allow-run-as-root",
        "-np",
        str(description.world),
        "--host",
        nodes,
        "--mca",
        "plm_rsh_agent",
        agent,
        *passed,
        "trtllm-llmapi-launch",
        *words,
    ]


def settings_file(document: Mapping[str, Any]) -> str:
    """The settings as YAML, in the order they were given; nested mappings of plain values only."""
    return "---\n" + ("".join(f"{line}\n" for line in _lines(document, "")) or "{}\n")


def _lines(document: Mapping[str, Any], indent: str) -> list[str]:
    lines: list[str] = []
    for name, value in document.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{name}:", *_lines(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{name}: {json.dumps(value)}")
    return lines
