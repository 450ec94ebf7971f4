# SPDX-License-Identifier: Apache-2.0
"""The vLLM server: on one node, as one of several replicas there, as a Ray driver, or as a rank in multi-node mode."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import (
    cache_environment,
    container_environment,
    engine_part,
    mount_options,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    RAY_CONTAINER,
    memory_of,
    server_container,
    token_environment,
)

from .balancer import REPLICA_LISTEN, replica_port
from .description import Command, LaunchDescription, LaunchHost, endpoint
from .parts import (
    device_options,
    docker_command,
    fabric_environment,
    merged_environment,
    model_mount,
    record,
    settings_arguments,
)
from .translations import version_of

_TIME_OUTS = (
    ("--distributed-timeout-seconds", (0, 18)),
    ("--cpu-distributed-timeout-seconds", (0, 22)),
)
"""How long ranks wait for each other, on GPUs and on CPUs, and since which version vLLM has the flags."""
_READY_TIME_OUT = ("VLLM_ENGINE_READY_TIMEOUT_S", (0, 18))
"""How long the server waits for its engine; the default of ten minutes is too short to load a large model."""

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def single(description: LaunchDescription, host: LaunchHost) -> list[Command]:
    """Return the server of one node, where every rank is a child process of the server."""
    return [_alone(description, host)]


def replica(description: LaunchDescription, host: LaunchHost, number: int) -> Command:
    """Return one of several replicas. Only the balancer connects to it, so it always listens on loopback."""
    first = number * description.world
    gpus = range(first, first + description.world)
    one = dataclasses.replace(description, listen=REPLICA_LISTEN, port=replica_port(description.port, number))
    # Numbered as nvidia-smi shows them, so that GPUs with a link between them are neighbours.
    own = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus)),
        **_caches(description, engine_part(number)),
    }
    return _alone(one, host, own, number)


def _alone(
    description: LaunchDescription, host: LaunchHost, own: Mapping[str, object] | None = None, number: int | None = None
) -> Command:
    words = server_arguments(description, "mp", _time_outs(description))
    env = merged_environment(base_environment(description, host), own or {}, host.environment, description.environment)
    name = "server" if number is None else f"server-{number}"
    if description.runtime == "venv":
        return _in_venv(description, words, env, name)
    options = [model_mount(description), *mount_options(description.compile_cache)]
    return docker_command(description, words, env, options=options, with_key=True, container=server_container(number))


def ray_server(description: LaunchDescription, host: LaunchHost) -> Command:
    """Return the driver. Its environment is passed on to the ranks, except for variables their Ray node has set."""
    env = merged_environment(
        base_environment(description, host),
        {"RAY_ADDRESS": endpoint(host.address, description.ray_port), **token_environment()},
        description.environment,
    )
    # A driver finds its raylet among the local processes and talks to it through the session directory.
    beside = [f"--pid=container:{RAY_CONTAINER}", f"--volumes-from={RAY_CONTAINER}"]
    words = server_arguments(description, "ray", _time_outs(description))
    return docker_command(description, words, env, options=beside, with_key=True, memory=memory_of(RAY_CONTAINER))


def multinode(description: LaunchDescription, host: LaunchHost) -> list[Command]:
    """Return one server process per node, which finds the others through the head; only the head answers clients."""
    is_head = host.name == description.head
    group = [
        f"--nnodes={len(description.hosts)}",
        f"--node-rank={host.rank}",
        f"--master-addr={description.head_host.address}",
        f"--master-port={description.master_port}",
        *_time_outs(description),
    ]
    words = server_arguments(description, "mp", group, headless=not is_head)
    env = merged_environment(
        base_environment(description, host), fabric_environment(host), host.environment, description.environment
    )
    options = [*device_options(description), model_mount(description), *mount_options(description.compile_cache)]
    return [docker_command(description, words, env, options=options, with_key=is_head)]


def server_arguments(
    description: LaunchDescription, backend: str, group: list[str], headless: bool = False
) -> list[str]:
    """Return the engine's own command."""
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


def _time_outs(description: LaunchDescription) -> list[str]:
    """Return timeouts that end the server within minutes if a rank is missing or hangs; a single rank needs none."""
    numbers, seconds = version_of(description.version), description.distributed_timeout
    if description.world == 1:
        return []
    return [f"{name}={seconds}" for name, since in _TIME_OUTS if numbers is None or numbers >= since]


def base_environment(description: LaunchDescription, host: LaunchHost) -> dict[str, object]:
    """Return the environment of every server process, whatever the profile."""
    base: dict[str, object] = {"VLLM_HOST_IP": host.address, "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    base |= _caches(description)
    name, since = _READY_TIME_OUT
    numbers = version_of(description.version)
    if description.start_timeout and (numbers is None or numbers >= since):
        base[name] = description.start_timeout
    return base


def _caches(description: LaunchDescription, own: str = "") -> dict[str, str]:
    """Return the variables of the compile cache; `own` is the part of one of several servers."""
    cache = description.compile_cache
    if description.runtime == "venv":
        return cache_environment(cache, str(cache.get("path")), own)
    return container_environment(cache, own)


def _in_venv(description: LaunchDescription, words: list[str], env: dict[str, str], name: str) -> Command:
    programs = f"{description.venv}/bin"
    # The engine compiles kernels at its start and looks for the tools of its own environment in PATH.
    own = merged_environment({"PATH": f"{programs}:{_PATH}", "VIRTUAL_ENV": description.venv}, env)
    return record(name, [f"{programs}/{words[0]}", *words[1:]], own, words, env_file=description.env_file)
