# SPDX-License-Identifier: Apache-2.0
"""The TensorRT-LLM server: alone on one node, or started by MPI in containers that wait on the other nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import (
    container_environment,
    mount_options,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    MPI_KEY_PATH,
    TENSORRT_SETTINGS_PATH,
    mount,
)

from .description import Command, LaunchDescription, LaunchHost
from .parts import (
    device_options,
    docker_command,
    fabric_environment,
    merge_settings,
    merged_environment,
    settings_arguments,
    settings_document,
)

# Below a directory that only root can write to; sshd does not trust them otherwise.
_AUTHORIZED = "/root/.ssh/firstlight-authorized"
_KNOWN = "/root/.ssh/firstlight-known"
# A single key is host key and user key of all nodes: whoever has it belongs to the group, and nobody else gets in.
_NO_SSHD = "this image has no sshd, which MPI needs on several nodes: see docs/launch.md"
_SSHD = (
    f"command -v sshd >/dev/null || {{ echo '{_NO_SSHD}'; exit 1; }}; "
    "umask 077; mkdir -p /run/sshd /root/.ssh; env >/root/.ssh/environment; "
    f'ssh-keygen -y -f {MPI_KEY_PATH} >{_AUTHORIZED}; exec $(command -v sshd) "$@"'
)
_OF_SSHD = ("AUDIT_WRITE", "SETGID", "SETUID", "SYS_CHROOT")
"""Capabilities without which sshd lets nobody in: it changes its user before it handles an unauthenticated client, and
where the kernel keeps an audit log it records every login. Without one of the last three no login succeeded (tried)."""
_MPIRUN = f'umask 077; mkdir -p /root/.ssh; echo "* $(ssh-keygen -y -f {MPI_KEY_PATH})" >{_KNOWN}; exec mpirun "$@"'


def commands(description: LaunchDescription, host: LaunchHost) -> list[Command]:
    """Return one server on one node; on several, the head's MPI starts the ranks in a waiting container on each."""
    several, is_head = len(description.hosts) > 1, host.name == description.head
    env = merged_environment(
        {"HF_HUB_OFFLINE": "1", **container_environment(description.compile_cache)},
        {**fabric_environment(host), **_mpi_environment(host)} if several else {},
        host.environment,
        description.environment,
    )
    words = server_arguments(description)
    started = words
    options = [mount(description.model_directory, model_path(description)), mount(TENSORRT_SETTINGS_PATH)]
    options += mount_options(description.compile_cache)
    if several:
        options = [*device_options(description), *options, mount(MPI_KEY_PATH)]
        options += [] if is_head else [f"--cap-add={name}" for name in _OF_SSHD]
        started = _mpirun(description, env, words) if is_head else _sshd(description, host)
    document = settings_document(description)
    merge_settings(document, description.engine_settings)
    command = docker_command(
        description, started, env, options=options, files={TENSORRT_SETTINGS_PATH: settings_file(document)}
    )
    # Only the engine's own part of the command is checked against its schema; a node that waits has none.
    return [{**command, "engine_argv": words if is_head else []}]


def model_path(description: LaunchDescription) -> str:
    """Return the path of the weights in containers: clients name a model by the last part of this path."""
    return f"/models/{description.served_name}"


def server_arguments(description: LaunchDescription) -> list[str]:
    """Return the engine's own command."""
    return [
        "trtllm-serve",
        model_path(description),
        f"--tp_size={description.tensor_parallel}",
        f"--pp_size={description.pipeline_parallel}",
        f"--gpus_per_node={description.gpus_per_host}",
        "--backend=pytorch",
        f"--config={TENSORRT_SETTINGS_PATH}",
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
    """Return the container's own sshd, by which MPI starts ranks: on the fabric, and accepting a single key."""
    options = {
        "ListenAddress": host.address,
        "AuthorizedKeysFile": _AUTHORIZED,
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
        # The paths of the image's programs and libraries: a session would start without them.
        "PermitUserEnvironment": "yes",
        "UsePAM": "no",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return _script(_SSHD, ["-D", "-e", "-f", "/dev/null", "-p", str(description.mpi_port), "-h", MPI_KEY_PATH, *words])


def _mpirun(description: LaunchDescription, env: Mapping[str, str], words: Sequence[str]) -> list[str]:
    each = description.world // len(description.hosts)
    nodes = ",".join(f"{host.address}:{each}" for host in description.ordered)
    agent = (
        f"ssh -p {description.mpi_port} -i {MPI_KEY_PATH} -o BatchMode=yes -o IdentitiesOnly=yes "
        f"-o StrictHostKeyChecking=yes -o UserKnownHostsFile={_KNOWN}"
    )
    passed = [word for name in env for word in ("-x", name)]
    options = ["--allow-run-as-root", "-np", str(description.world), "--host", nodes, "--mca", "plm_rsh_agent", agent]
    return _script(_MPIRUN, [*options, *passed, "trtllm-llmapi-launch", *words])


def _script(text: str, words: Sequence[str]) -> list[str]:
    return ["/bin/sh", "-ec", text, "sh", *words]


def settings_file(document: Mapping[str, Any]) -> str:
    """Render the settings as YAML, in the order they were given; only nested mappings of plain values."""
    return "---\n" + ("".join(f"{line}\n" for line in _lines(document, "")) or "{}\n")


def _lines(document: Mapping[str, Any], indent: str) -> list[str]:
    lines: list[str] = []
    for name, value in document.items():
        if isinstance(value, Mapping) and value:
            lines += [f"{indent}{name}:", *_lines(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{name}: {json.dumps(value)}")
    return lines
