# SPDX-License-Identifier: Apache-2.0
"""The OpenAI-compatible server on the head: a container of the same image, beside the Ray node it drives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.engine_container import (
    DOCKER,
    RAY_CONTAINER,
    RAY_UNIT,
    SERVER_CONTAINER,
    SERVER_ENVIRONMENT_PATH,
    SERVER_UNIT,
    UNIT_DIRECTORY,
    docker_rm,
    docker_stop,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.engine_flags import flag_name
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_description import (
    Command,
    LaunchDescription,
    LaunchHost,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_vllm import ray_server, single
from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import root_file, root_secret
from ansible_collections.firstlight.cluster.plugins.module_utils.core.systemd import command, render_unit

UNIT_PATH = f"{UNIT_DIRECTORY}/{SERVER_UNIT}"

DEFAULTS: dict[str, Any] = {
    "inference_server_flags": [],
    "inference_server_listen": "127.0.0.1",
    "inference_server_port": 8000,
    "inference_server_ray": True,
    "inference_server_ray_port": 6379,
    "inference_server_pipeline_parallel": 1,
    "inference_server_environment": {},
}
"""What the role's defaults say too, for a plan that leaves them out."""

OWN_FLAGS = frozenset(
    {
        "--api-key",
        "--distributed-executor-backend",
        "--host",
        "--model",
        "--pipeline-parallel-size",
        "--port",
        "--served-model-name",
        "--tensor-parallel-size",
        "-pp",
        "-tp",
    }
)
"""Flags the role writes itself; the key never stands in a command line at all."""


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The unit, the key's file and the running container."""
    settings = {**DEFAULTS, **variables}
    return {
        "files": {
            UNIT_PATH: root_file(unit(settings)),
            SERVER_ENVIRONMENT_PATH: root_secret(),
        },
        "units": {SERVER_UNIT: {"enabled": True, "active": True}},
        "containers": {SERVER_CONTAINER: {"image": str(settings["inference_server_image"]), "running": True}},
    }


def check_flags(flags: object) -> list[str]:
    """The operator's flags as arguments; those the role sets itself are refused."""
    if not isinstance(flags, (list, tuple)):
        raise ValueError(f"inference_server_flags is {flags!r}, expected a list of arguments")
    written = [str(flag) for flag in flags]
    taken = sorted({name for flag in written if (name := flag_name(flag)) in OWN_FLAGS})
    if taken:
        raise ValueError(
            f"inference_server_flags has {', '.join(taken)}, which the role sets from its own variables: "
            "take it out and set the variable (the API key is kept in a file)"
        )
    return written


def launch(variables: Mapping[str, Any]) -> Command:
    """The process that runs the server in the foreground; the plan shows what the unit runs."""
    settings = {**DEFAULTS, **variables}
    with_ray = bool(settings["inference_server_ray"])
    tensor_parallel = int(settings["inference_server_tensor_parallel"])
    pipeline_parallel = int(settings["inference_server_pipeline_parallel"])
    host = LaunchHost(name="head", address=str(settings["inference_server_node_address"]))
    description = LaunchDescription(
        profile="vllm-ray" if with_ray else "vllm-single",
        image=str(settings["inference_server_image"]),
        model_directory=str(settings["inference_server_model_directory"]),
        served_name=str(settings["inference_server_served_name"]),
        hosts=(host,),
        head=host.name,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        # How they are spread over hosts is Ray's to know, not the server's.
        gpus_per_host=tensor_parallel * pipeline_parallel,
        listen=str(settings["inference_server_listen"]),
        port=int(settings["inference_server_port"]),
        flags=tuple(check_flags(settings["inference_server_flags"])),
        environment=settings["inference_server_environment"],
        ray_port=int(settings["inference_server_ray_port"]),
    )
    return ray_server(description, host) if with_ray else single(description, host)[0]


def arguments(settings: Mapping[str, Any]) -> list[str]:
    """The whole command that runs the server in the foreground."""
    return [*launch(settings)["argv"]]


def ray_address(settings: Mapping[str, Any]) -> str:
    """Where the cluster's head answers: on this node."""
    return f"{settings['inference_server_node_address']}:{int(settings['inference_server_ray_port'])}"


def wait_for_ray(settings: Mapping[str, Any]) -> list[str]:
    """Wait until this node's Ray answers: a driver that comes earlier fails instead of waiting."""
    check = f"{DOCKER} exec {RAY_CONTAINER} ray health-check --address {ray_address(settings)}"
    return ["/bin/sh", "-c", f"until {check} >/dev/null 2>&1; do sleep 2; done"]


def unit(settings: Mapping[str, Any]) -> str:
    """The unit file of the server."""
    with_ray = bool(settings["inference_server_ray"])
    ray = [RAY_UNIT] if with_ray else []
    about = [
        ("Description", f"Firstlight inference server for {settings['inference_server_served_name']}"),
        ("Requires", " ".join(["docker.service", *ray])),
        ("After", " ".join(["docker.service", "network-online.target", *ray])),
        ("Wants", "network-online.target"),
    ]
    if with_ray:
        about.append(("PartOf", RAY_UNIT))
    # A model takes minutes to load: ten tries in an hour, then it stays down and says so.
    about += [("StartLimitIntervalSec", "3600"), ("StartLimitBurst", "10")]
    service = [
        ("Type", "exec"),
        ("ExecStartPre", command(docker_rm(SERVER_CONTAINER), prefix="-")),
    ]
    if with_ray:
        service.append(("ExecStartPre", command(wait_for_ray(settings))))
    service += [
        ("ExecStart", command(arguments(settings))),
        ("ExecStop", command(docker_stop(SERVER_CONTAINER, 30), prefix="-")),
        # The engine ends with status 0 after it lost a rank, so on-failure would leave it down.
        ("Restart", "always"),
        ("RestartSec", "10"),
        ("SuccessExitStatus", "137 143"),
        ("TimeoutStartSec", "300"),
        ("TimeoutStopSec", "60"),
    ]
    return render_unit([("Unit", about), ("Service", service), ("Install", [("WantedBy", "multi-user.target")])])
