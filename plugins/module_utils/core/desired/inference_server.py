# SPDX-License-Identifier: Apache-2.0
"""The OpenAI-compatible server on the head.

A container of the image, beside the Ray node it drives, or on a single node also a process of a virtual environment.
"""

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
    UNLESS_DRAINED,
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
from ansible_collections.firstlight.cluster.plugins.module_utils.core.systemd import command, quote, render_unit

UNIT_PATH = f"{UNIT_DIRECTORY}/{SERVER_UNIT}"
USER = "firstlight"
"""Whom a server out of a virtual environment runs as; in a container it is the image's matter."""
NVIDIA_MODPROBE = "/usr/bin/nvidia-modprobe"
# Not ProtectClock: it brings a list of allowed devices with it, on which the GPUs are not.
HARDENING = (
    "NoNewPrivileges",
    "ProtectHome",
    "PrivateTmp",
    "ProtectControlGroups",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "ProtectKernelLogs",
    "ProtectHostname",
    "RestrictSUIDSGID",
    "RestrictRealtime",
    "LockPersonality",
)
CACHE = "/var/cache/firstlight"
"""Where such a server keeps the kernels it compiles, so that the next start is faster."""

DEFAULTS: dict[str, Any] = {
    "inference_server_flags": [],
    "inference_server_listen": "127.0.0.1",
    "inference_server_port": 8000,
    "inference_server_ray": True,
    "inference_server_ray_port": 6379,
    "inference_server_pipeline_parallel": 1,
    "inference_server_environment": {},
    "inference_server_runtime": "docker",
    "inference_server_image": "",
    "inference_server_venv": "/opt/venvs/vllm",
    "inference_server_venv_lock": "",
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
    """The unit, the key's file and, where there is one, the running container."""
    settings = {**DEFAULTS, **variables}
    in_venv = _in_venv(settings)
    state: dict[str, Any] = {
        "files": {
            UNIT_PATH: root_file(venv_unit(settings) if in_venv else unit(settings)),
            SERVER_ENVIRONMENT_PATH: root_secret(),
        },
        "units": {SERVER_UNIT: {"enabled": True, "active": True}},
    }
    if not in_venv:
        state["containers"] = {
            SERVER_CONTAINER: {"image": str(settings["inference_server_image"]), "running": True},
        }
    return state


def _in_venv(settings: Mapping[str, Any]) -> bool:
    runtime = str(settings["inference_server_runtime"])
    if runtime not in ("docker", "venv"):
        raise ValueError(f"inference_server_runtime is {runtime!r}, expected docker or venv")
    if runtime == "venv" and settings["inference_server_ray"]:
        raise ValueError(
            "inference_server_runtime is venv and inference_server_ray is true: out of a virtual environment one node "
            "is served; set inference_server_ray to false, or inference_server_runtime to docker"
        )
    return runtime == "venv"


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
        runtime="venv" if _in_venv(settings) else "docker",
        image=str(settings["inference_server_image"]),
        venv=str(settings["inference_server_venv"]),
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
        UNLESS_DRAINED,
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


def _setting(text: str) -> str:
    """Quoted as for a command, but here a dollar sign is a dollar sign."""
    return quote(text).replace("$$", "$")


def venv_unit(settings: Mapping[str, Any]) -> str:
    """The unit file of a server out of a virtual environment, as a user who may read the model and use the GPUs."""
    process = launch(settings)
    own = {"HOME": CACHE, "XDG_CACHE_HOME": CACHE, **process["env"]}
    about = [
        ("Description", f"Firstlight inference server for {settings['inference_server_served_name']}"),
        ("After", "network-online.target nvidia-persistenced.service nvidia-fabricmanager.service"),
        ("Wants", "network-online.target"),
        UNLESS_DRAINED,
        ("StartLimitIntervalSec", "3600"),
        ("StartLimitBurst", "10"),
    ]
    if settings["inference_server_venv_lock"]:
        # Nothing to systemd. The link to the environment stays the same when it is switched; this does not, so that a
        # server that runs from the former environment is seen to differ.
        about.append(("X-Firstlight-Lock", str(settings["inference_server_venv_lock"])))
    service = [
        ("Type", "exec"),
        ("User", USER),
        ("Group", USER),
        ("CacheDirectory", CACHE.rpartition("/")[2]),
        ("CacheDirectoryMode", "0750"),
        ("WorkingDirectory", CACHE),
        ("UMask", "0077"),
        ("EnvironmentFile", str(process["env_file"])),
        *(("Environment", _setting(f"{name}={value}")) for name, value in sorted(own.items())),
        # CUDA has its device files made by a setuid program when it starts, which NoNewPrivileges makes powerless.
        ("ExecStartPre", command([NVIDIA_MODPROBE, "-c", "0", "-u"], prefix="-+")),
        ("ExecStart", command(process["argv"])),
        ("Restart", "always"),
        ("RestartSec", "10"),
        ("SuccessExitStatus", "137 143"),
        ("TimeoutStartSec", "300"),
        ("TimeoutStopSec", "60"),
        ("LimitMEMLOCK", "infinity"),
        ("LimitSTACK", "67108864"),
        ("LimitNOFILE", "1048576"),
        ("ReadOnlyPaths", _setting(str(settings["inference_server_model_directory"]))),
        # Devices stay visible (the GPUs), memory stays executable (compiled kernels).
        *((name, "yes") for name in HARDENING),
        ("ProtectSystem", "full"),
    ]
    return render_unit([("Unit", about), ("Service", service), ("Install", [("WantedBy", "multi-user.target")])])
