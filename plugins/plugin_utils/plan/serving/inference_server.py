# SPDX-License-Identifier: Apache-2.0
"""The server of a host: a single server, one rank of it, or several replicas behind a balancer.

It runs in a container of the image, next to the Ray node it drives or by itself, or on a single node also as a process
of a virtual environment. The profile decides which (docs/launch.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import checked, prepare_commands
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    BALANCER_UNIT,
    MPI_KEY_PATH,
    OPEN_FILES,
    RAY_GATHER_PATH,
    RAY_UNIT,
    SERVER_ENVIRONMENT_PATH,
    SHARED_MEMORY,
    UNIT_DIRECTORY,
    UNLESS_DRAINED,
    checked_container,
    docker_rm,
    docker_stop,
    server_unit,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.ray.join import JOIN_SCRIPT
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import root_file, root_secret
from ansible_collections.firstlight.cluster.plugins.module_utils.systemd import DRIVER_UNITS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch import ray_serve, sglang, tensorrt, vllm
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.balancer import (
    CONFIGURATION_PATH,
    balancer_command,
    balancer_unit,
    configuration,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import (
    DISTRIBUTED_TIMEOUT,
    ENGINE_PORT,
    PROFILES,
    Command,
    LaunchDescription,
    LaunchHost,
    Profile,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.flags import flag_name
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.translations import OWN_FLAGS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.waits import (
    wait_for_nodes,
    wait_for_ranks,
    wait_for_ray,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.ray_cluster import STARTING
from ansible_collections.firstlight.cluster.plugins.plugin_utils.templates import render

DEFAULTS: dict[str, Any] = {
    "inference_server_profile": "vllm-ray",
    "inference_server_version": "",
    "inference_server_replicas": 1,
    "inference_server_nodes": [],
    "inference_server_rank": 0,
    "inference_server_interface": "",
    "inference_server_rdma": False,
    "inference_server_flags": [],
    "inference_server_settings": {},
    "inference_server_listen": "127.0.0.1",
    "inference_server_port": ENGINE_PORT,
    "inference_server_node_address": "127.0.0.1",
    "inference_server_ray_port": 6379,
    "inference_server_pipeline_parallel": 1,
    "inference_server_environment": {},
    "inference_server_runtime": "docker",
    "inference_server_image": "",
    "inference_server_venv": "/opt/venvs/vllm",
    "inference_server_venv_lock": "",
    "inference_server_shared_memory": SHARED_MEMORY,
    "inference_server_join_timeout": 180,
    "inference_server_start_timeout": 900,
    "inference_server_packages": {"nginx": None},
    "inference_server_container": {},
    "inference_server_compile_cache": {},
}
"""The role's defaults, for a plan that leaves them out."""

_CACHE = "/var/cache/firstlight"
_STOP_SECONDS = 30

_SERVERS: dict[str, Callable[[LaunchDescription, LaunchHost], list[Command]]] = {
    "vllm-ray": lambda description, host: [vllm.ray_server(description, host)],
    "vllm-multinode": vllm.multinode,
    "vllm-single": vllm.single,
    "vllm-replicas": lambda description, host: [
        vllm.replica(description, host, number) for number in range(description.replicas)
    ],
    "ray-serve": lambda description, host: [ray_serve.serve_server(description, host)],
    "sglang": sglang.server,
    "tensorrt-llm": tensorrt.commands,
}


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the units, their files, the key's file and, where there are any, the running containers."""
    settings = {**DEFAULTS, **variables}
    files = {f"{UNIT_DIRECTORY}/{name}": root_file(text) for name, text in units(settings).items()}
    state: dict[str, Any] = {
        "files": files,
        "units": {name: {"enabled": name == BALANCER_UNIT, "active": True} for name in units(settings)},
    }
    profile, processes = _profile(settings), servers(settings)
    files |= {path: root_file(text) for process in processes for path, text in process["files"].items()}
    if answers(settings):
        files[SERVER_ENVIRONMENT_PATH] = root_secret()
    if _by_mpi(settings):
        head = str(settings["inference_server_nodes"][0]["name"])
        files[MPI_KEY_PATH] = root_secret(head if int(settings["inference_server_rank"]) else None)
    if profile.on_ray:
        files[RAY_GATHER_PATH] = root_file(JOIN_SCRIPT)
    if profile.replicated:
        state["packages"] = dict(settings["inference_server_packages"])
        place = (str(settings["inference_server_listen"]), int(settings["inference_server_port"]))
        files[CONFIGURATION_PATH] = root_file(configuration(*place, int(settings["inference_server_replicas"])))
    if not _in_venv(settings):
        state["containers"] = {
            process["container"]: {"image": str(settings["inference_server_image"]), "running": True}
            for process in processes
        }
    return state


def units(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return every unit file of the host, by its name."""
    written = {
        server_unit(number): _unit(settings, process)
        for number, process in zip(_numbers(settings), servers(settings), strict=True)
    }
    if _profile(settings).replicated:
        written[BALANCER_UNIT] = balancer_unit(str(settings["inference_server_served_name"]))
    return written


def answers(settings: Mapping[str, Any]) -> bool:
    """Whether this host answers clients."""
    return _profile(settings).answers(int(settings["inference_server_rank"]))


def launch(variables: Mapping[str, Any]) -> list[Command]:
    """Return the foreground commands of the host's processes; the plan shows them as what the units run."""
    settings = {**DEFAULTS, **variables}
    if not _profile(settings).replicated:
        return servers(settings)
    place = (str(settings["inference_server_listen"]), int(settings["inference_server_port"]))
    return [*servers(settings), balancer_command(*place, int(settings["inference_server_replicas"]))]


def servers(settings: Mapping[str, Any]) -> list[Command]:
    """Return the command of the server, of this host's rank of it, or of all replicas."""
    description, host = _description(settings)
    return _SERVERS[description.profile](description, host)


def arguments(settings: Mapping[str, Any]) -> list[str]:
    """Return the whole command that runs the first server in the foreground."""
    return [*launch(settings)[0]["argv"]]


def _numbers(settings: Mapping[str, Any]) -> Sequence[int | None]:
    if _profile(settings).replicated:
        return range(int(settings["inference_server_replicas"]))
    return [None]


def _description(settings: Mapping[str, Any]) -> tuple[LaunchDescription, LaunchHost]:
    """Return the launch description, and this host in it."""
    profile, runtime = _profile(settings), "venv" if _in_venv(settings) else "docker"
    world = int(settings["inference_server_tensor_parallel"]) * int(settings["inference_server_pipeline_parallel"])
    replicas = int(settings["inference_server_replicas"])
    hosts, own = _hosts(settings)
    description = LaunchDescription(
        profile=str(settings["inference_server_profile"]),
        runtime=runtime,
        version=str(settings["inference_server_version"]) or None,
        image=str(settings["inference_server_image"]),
        venv=str(settings["inference_server_venv"]),
        model_directory=str(settings["inference_server_model_directory"]),
        served_name=str(settings["inference_server_served_name"]),
        hosts=hosts,
        head=hosts[0].name,
        tensor_parallel=int(settings["inference_server_tensor_parallel"]),
        pipeline_parallel=int(settings["inference_server_pipeline_parallel"]),
        # Ray decides how they are spread over hosts, not the server.
        gpus_per_host=replicas * world // (len(hosts) if profile.ranked or profile.spread else 1),
        replicas=replicas,
        listen=str(settings["inference_server_listen"]),
        port=int(settings["inference_server_port"]),
        flags=tuple(check_flags(settings["inference_server_flags"], profile.engine)),
        engine_settings=settings["inference_server_settings"],
        environment=settings["inference_server_environment"],
        rdma=bool(settings["inference_server_rdma"]),
        ray_port=int(settings["inference_server_ray_port"]),
        shared_memory=str(settings["inference_server_shared_memory"]),
        join_timeout=int(settings["inference_server_join_timeout"]),
        start_timeout=int(settings["inference_server_start_timeout"]),
        # A rank that compiles, while the others have everything cached, is waited for as long as a start may take:
        # missing or hanging ranks are detected elsewhere (docs/serving.md).
        distributed_timeout=max(DISTRIBUTED_TIMEOUT, int(settings["inference_server_start_timeout"])),
        container=checked_container(settings["inference_server_container"], "inference_server_container"),
        compile_cache=checked(settings["inference_server_compile_cache"], "inference_server_compile_cache"),
    )
    return description, own


def _profile(settings: Mapping[str, Any]) -> Profile:
    profile, replicas = str(settings["inference_server_profile"]), int(settings["inference_server_replicas"])
    if profile not in PROFILES:
        raise ValueError(f"inference_server_profile is {profile!r}, expected one of {', '.join(PROFILES)}")
    if replicas < 1 or (replicas > 1 and not PROFILES[profile].several_servers):
        raise ValueError(
            f"inference_server_replicas is {replicas} with profile {profile}, expected 1 or more, and more than 1 only "
            "with vllm-replicas or ray-serve"
        )
    return PROFILES[profile]


def _hosts(settings: Mapping[str, Any]) -> tuple[tuple[LaunchHost, ...], LaunchHost]:
    """Return all hosts of the launch by rank, and this one."""
    own = LaunchHost(
        name="head",
        address=str(settings["inference_server_node_address"]),
        interface=str(settings["inference_server_interface"]) or None,
    )
    profile = _profile(settings)
    nodes, rank = settings["inference_server_nodes"], int(settings["inference_server_rank"])
    if not (profile.ranked or profile.spread) or (profile.one_host and len(nodes) < 2 and not rank):
        return (own,), own
    if len(nodes) < 2 or not 0 <= rank < len(nodes):
        raise ValueError(
            f"inference_server_nodes has {len(nodes)} nodes and inference_server_rank is {rank}, expected at least two "
            "nodes by rank, and this node's place among them"
        )
    hosts = tuple(
        LaunchHost(str(node["name"]), number, str(node["address"]), own.interface) for number, node in enumerate(nodes)
    )
    return hosts, hosts[rank]


def _in_venv(settings: Mapping[str, Any]) -> bool:
    runtime, profile = str(settings["inference_server_runtime"]), str(settings["inference_server_profile"])
    if runtime not in ("docker", "venv"):
        raise ValueError(f"inference_server_runtime is {runtime!r}, expected docker or venv")
    if runtime not in _profile(settings).runtimes:
        raise ValueError(
            f"inference_server_runtime is {runtime} with profile {profile}: a virtual environment serves on one "
            "node only; set inference_server_profile to vllm-single, or inference_server_runtime to docker"
        )
    return runtime == "venv"


def _by_mpi(settings: Mapping[str, Any]) -> bool:
    return _profile(settings).by_mpi and len(settings["inference_server_nodes"]) > 1


def check_flags(flags: object, engine: str = "vllm") -> list[str]:
    """Return the operator's flags as arguments; those the role sets itself are refused."""
    if not isinstance(flags, (list, tuple)):
        raise ValueError(f"inference_server_flags is {flags!r}, expected a list of arguments")
    written = [str(flag) for flag in flags]
    taken = sorted({name for flag in written if (name := flag_name(flag)) in OWN_FLAGS[engine]})
    if taken:
        raise ValueError(
            f"inference_server_flags has {', '.join(taken)}, which the role sets from its own variables: "
            "remove it and set the variable (the API key is kept in a file)"
        )
    return written


def _unit(settings: Mapping[str, Any], process: Command) -> str:
    words = f"Firstlight inference server for {settings['inference_server_served_name']}"
    if process["name"] != "server":
        words += f", replica {process['name'].rpartition('-')[2]}"
    profile, waits = _profile(settings), int(settings["inference_server_join_timeout"])
    if profile.ranked and len(settings["inference_server_nodes"]) > 1:
        words += f", rank {int(settings['inference_server_rank'])}"
    if _in_venv(settings):
        return _venv_unit(words, settings, process)
    first = prepare_commands(settings["inference_server_compile_cache"])
    if _by_mpi(settings) and answers(settings):
        return _container_unit(words, process, first=[*first, wait_for_ranks(settings)], waits=waits)
    if not profile.on_ray:
        return _container_unit(words, process, first=first)
    # Without a list, it is unknown whom to wait for. Ray Serve waits by itself, and goes on without a missing node.
    waits_for_nodes = settings["inference_server_nodes"] and not profile.spread
    first = [wait_for_ray(settings), *([wait_for_nodes(settings)] if waits_for_nodes else [])]
    return _container_unit(words, process, first=first, waits=waits, beside_ray=True)


def _container_unit(
    description: str, process: Command, *, first: Sequence[Sequence[str]], waits: int = 0, beside_ray: bool = False
) -> str:
    """Render the unit; `first` are commands that must succeed before the start, within `waits` seconds."""
    container = str(process["container"])
    ray = [RAY_UNIT] if beside_ray else []
    return render(
        "inference_server",
        "container.service",
        description=description,
        binds_to=" ".join(ray),
        after=["docker.service", "network-online.target", *DRIVER_UNITS, *ray],
        condition=UNLESS_DRAINED[1],
        argv=process["argv"],
        first=first,
        remove=docker_rm(container),
        stop=docker_stop(container, _STOP_SECONDS),
        start_seconds=STARTING + waits,
        stop_seconds=2 * _STOP_SECONDS,
    )


def _venv_unit(description: str, settings: Mapping[str, Any], process: Command) -> str:
    own = {"HOME": _CACHE, "XDG_CACHE_HOME": _CACHE, **process["env"]}
    return render(
        "inference_server",
        "venv.service",
        description=description,
        after=["network-online.target", *DRIVER_UNITS],
        condition=UNLESS_DRAINED[1],
        lock=str(settings["inference_server_venv_lock"]),
        cache=_CACHE,
        environment_file=str(process["env_file"]),
        environment=[f"{name}={value}" for name, value in sorted(own.items())],
        argv=process["argv"],
        start_seconds=STARTING,
        shared_memory=str(settings["inference_server_shared_memory"]),
        open_files=OPEN_FILES,
        model_directory=str(settings["inference_server_model_directory"]),
    )
