# SPDX-License-Identifier: Apache-2.0
"""What serves on a host: one server, one rank of it, or several replicas behind a balancer.

A container of the image, beside the Ray node it drives or by itself, or on a single node also a process of a virtual
environment. Which of them, the profile says (docs/launch.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.balancer import (
    CONFIGURATION_PATH,
    balancer_command,
    balancer_unit,
    configuration,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.engine_container import (
    BALANCER_UNIT,
    DOCKER,
    RAY_CONTAINER,
    RAY_GATHER_PATH,
    SERVER_ENVIRONMENT_PATH,
    SHARED_MEMORY,
    UNIT_DIRECTORY,
    server_unit,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.engine_flags import flag_name
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_description import (
    PROFILES,
    Command,
    LaunchDescription,
    LaunchHost,
    endpoint,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_ray_serve import (
    PROGRAM_PATH,
    SETTINGS_PATH,
    serve_server,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_vllm import (
    multinode,
    ray_server,
    replica,
    single,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_words import OWN_FLAGS
from ansible_collections.firstlight.cluster.plugins.module_utils.core.ray_join import JOIN_SCRIPT
from ansible_collections.firstlight.cluster.plugins.module_utils.core.ray_serve_app import SERVE_PROGRAM
from ansible_collections.firstlight.cluster.plugins.module_utils.core.server_units import container_unit, venv_unit
from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import root_file, root_secret

DEFAULTS: dict[str, Any] = {
    "inference_server_profile": "vllm-ray",
    "inference_server_version": "",
    "inference_server_replicas": 1,
    "inference_server_nodes": [],
    "inference_server_rank": 0,
    "inference_server_interface": "",
    "inference_server_rdma": False,
    "inference_server_flags": [],
    "inference_server_listen": "127.0.0.1",
    "inference_server_port": 8000,
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
}
"""What the role's defaults say too, for a plan that leaves them out."""

_STOP_SECONDS = 30
_ON_ALL_NODES = ("vllm-multinode", "ray-serve")
"""Profiles whose server is told of every node; with vllm-ray they are Ray's to know."""


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The units, the key's file and, where there are any, the running containers."""
    settings = {**DEFAULTS, **variables}
    files = {f"{UNIT_DIRECTORY}/{name}": root_file(text) for name, text in units(settings).items()}
    state: dict[str, Any] = {
        "files": files,
        "units": {name: {"enabled": name == BALANCER_UNIT, "active": True} for name in units(settings)},
    }
    if answers(settings):
        files[SERVER_ENVIRONMENT_PATH] = root_secret()
    if settings["inference_server_profile"] == "vllm-ray":
        files[RAY_GATHER_PATH] = root_file(JOIN_SCRIPT)
    if settings["inference_server_profile"] == "ray-serve":
        (server,) = servers(settings)
        files[PROGRAM_PATH] = root_file(SERVE_PROGRAM)
        files[SETTINGS_PATH] = root_file(server["files"][SETTINGS_PATH])
    if settings["inference_server_profile"] == "vllm-replicas":
        state["packages"] = dict(settings["inference_server_packages"])
        place = (str(settings["inference_server_listen"]), int(settings["inference_server_port"]))
        files[CONFIGURATION_PATH] = root_file(configuration(*place, int(settings["inference_server_replicas"])))
    if not _in_venv(settings):
        state["containers"] = {
            process["container"]: {"image": str(settings["inference_server_image"]), "running": True}
            for process in servers(settings)
        }
    return state


def units(settings: Mapping[str, Any]) -> dict[str, str]:
    """Every unit file of the host, by its name."""
    written = {
        server_unit(number): _unit(settings, process)
        for number, process in zip(_numbers(settings), servers(settings), strict=True)
    }
    if settings["inference_server_profile"] == "vllm-replicas":
        written[BALANCER_UNIT] = balancer_unit(str(settings["inference_server_served_name"]))
    return written


def answers(settings: Mapping[str, Any]) -> bool:
    """Whether clients are answered on this host: by every rank but the later ones of the multi-node mode."""
    return settings["inference_server_profile"] != "vllm-multinode" or int(settings["inference_server_rank"]) == 0


def launch(variables: Mapping[str, Any]) -> list[Command]:
    """The processes of the host in the foreground; the plan shows what the units run."""
    settings = {**DEFAULTS, **variables}
    if settings["inference_server_profile"] != "vllm-replicas":
        return servers(settings)
    place = (str(settings["inference_server_listen"]), int(settings["inference_server_port"]))
    return [*servers(settings), balancer_command(*place, int(settings["inference_server_replicas"]))]


def servers(settings: Mapping[str, Any]) -> list[Command]:
    """The server, this host's rank of it, or all replicas."""
    description, host = _description(settings)
    if description.profile == "vllm-ray":
        return [ray_server(description, host)]
    if description.profile == "ray-serve":
        return [serve_server(description, host, int(settings["inference_server_join_timeout"]))]
    if description.profile == "vllm-multinode":
        return multinode(description, host)
    if description.profile == "vllm-single":
        return single(description, host)
    return [replica(description, host, number) for number in range(description.replicas)]


def arguments(settings: Mapping[str, Any]) -> list[str]:
    """The whole command that runs the first server in the foreground."""
    return [*launch(settings)[0]["argv"]]


def _numbers(settings: Mapping[str, Any]) -> Sequence[int | None]:
    if settings["inference_server_profile"] == "vllm-replicas":
        return range(int(settings["inference_server_replicas"]))
    return [None]


def _description(settings: Mapping[str, Any]) -> tuple[LaunchDescription, LaunchHost]:
    """What is launched, and this host in it."""
    profile, runtime = _profile(settings), "venv" if _in_venv(settings) else "docker"
    world = int(settings["inference_server_tensor_parallel"]) * int(settings["inference_server_pipeline_parallel"])
    replicas = int(settings["inference_server_replicas"])
    hosts, own = _hosts(settings)
    description = LaunchDescription(
        profile=profile,
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
        # How they are spread over hosts is Ray's to know, not the server's.
        gpus_per_host=replicas * world // (len(hosts) if profile in _ON_ALL_NODES else 1),
        replicas=replicas,
        listen=str(settings["inference_server_listen"]),
        port=int(settings["inference_server_port"]),
        flags=tuple(check_flags(settings["inference_server_flags"])),
        environment=settings["inference_server_environment"],
        rdma=bool(settings["inference_server_rdma"]),
        ray_port=int(settings["inference_server_ray_port"]),
        shared_memory=str(settings["inference_server_shared_memory"]),
        start_timeout=int(settings["inference_server_start_timeout"]),
    )
    return description, own


def _profile(settings: Mapping[str, Any]) -> str:
    profile, replicas = str(settings["inference_server_profile"]), int(settings["inference_server_replicas"])
    known = [name for name, one in PROFILES.items() if one.launched]
    if profile not in known:
        raise ValueError(f"inference_server_profile is {profile!r}, expected one of {', '.join(known)}")
    if replicas < 1 or (replicas > 1 and profile not in ("vllm-replicas", "ray-serve")):
        raise ValueError(
            f"inference_server_replicas is {replicas} with profile {profile}, expected 1 or more, and more than 1 only "
            "with vllm-replicas or ray-serve"
        )
    return profile


def _hosts(settings: Mapping[str, Any]) -> tuple[tuple[LaunchHost, ...], LaunchHost]:
    """All hosts of the launch by rank, and this one."""
    own = LaunchHost(
        name="head",
        address=str(settings["inference_server_node_address"]),
        interface=str(settings["inference_server_interface"]) or None,
    )
    if settings["inference_server_profile"] not in _ON_ALL_NODES:
        return (own,), own
    nodes, rank = settings["inference_server_nodes"], int(settings["inference_server_rank"])
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
    runtime, profile = str(settings["inference_server_runtime"]), _profile(settings)
    if runtime not in ("docker", "venv"):
        raise ValueError(f"inference_server_runtime is {runtime!r}, expected docker or venv")
    if runtime not in PROFILES[profile].runtimes:
        raise ValueError(
            f"inference_server_runtime is {runtime} with profile {profile}: out of a virtual environment one node "
            "is served; set inference_server_profile to vllm-single, or inference_server_runtime to docker"
        )
    return runtime == "venv"


def check_flags(flags: object) -> list[str]:
    """The operator's flags as arguments; those the role sets itself are refused."""
    if not isinstance(flags, (list, tuple)):
        raise ValueError(f"inference_server_flags is {flags!r}, expected a list of arguments")
    written = [str(flag) for flag in flags]
    taken = sorted({name for flag in written if (name := flag_name(flag)) in OWN_FLAGS["vllm"]})
    if taken:
        raise ValueError(
            f"inference_server_flags has {', '.join(taken)}, which the role sets from its own variables: "
            "take it out and set the variable (the API key is kept in a file)"
        )
    return written


def _unit(settings: Mapping[str, Any], process: Command) -> str:
    words = f"Firstlight inference server for {settings['inference_server_served_name']}"
    if process["name"] != "server":
        words += f", replica {process['name'].rpartition('-')[2]}"
    if settings["inference_server_profile"] == "vllm-multinode":
        words += f", rank {int(settings['inference_server_rank'])}"
    if _in_venv(settings):
        return venv_unit(
            words,
            process,
            model_directory=str(settings["inference_server_model_directory"]),
            lock=str(settings["inference_server_venv_lock"]),
            shared_memory=str(settings["inference_server_shared_memory"]),
        )
    if not PROFILES[settings["inference_server_profile"]].on_ray:
        return container_unit(words, process, stop_seconds=_STOP_SECONDS)
    # Without a list of them, nobody knows whom to wait for. What
    # deploys replicas waits itself, and goes on without one.
    waits = settings["inference_server_nodes"] and settings["inference_server_profile"] == "vllm-ray"
    return container_unit(
        words,
        process,
        stop_seconds=_STOP_SECONDS,
        beside_ray=True,
        first=[wait_for_ray(settings), *([wait_for_nodes(settings)] if waits else [])],
        waits=int(settings["inference_server_join_timeout"]),
    )


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
