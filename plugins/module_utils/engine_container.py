# SPDX-License-Identifier: Apache-2.0
"""What the containers of Ray and of the engine have in common: the same image, started the same way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .image.image import is_local_name

DOCKER = "/usr/bin/docker"
RAY_CONTAINER = "firstlight-ray"
RAY_UNIT = "firstlight-ray.service"
SERVER_CONTAINER = "firstlight-server"
SERVER_UNIT = "firstlight-server.service"
BALANCER_UNIT = "firstlight-balancer.service"
SUPERVISOR_UNIT = "firstlight-supervisor.service"
UNIT_DIRECTORY = "/etc/systemd/system"

MOST_REPLICAS = 16
"""The most replicas a host can have: one per GPU of the largest machines."""


def server_container(replica: int | None = None) -> str:
    """The container name of a host's only server, or of one of its replicas."""
    return SERVER_CONTAINER if replica is None else f"{SERVER_CONTAINER}-{replica}"


def server_unit(replica: int | None = None) -> str:
    """The unit name of a host's only server, or of one of its replicas."""
    return f"{server_container(replica)}.service"


SERVER_UNITS: tuple[str, ...] = (SERVER_UNIT, *(server_unit(replica) for replica in range(MOST_REPLICAS)))
"""Every possible unit name of a server; a host's profile decides which of them it has."""

SERVING_UNITS: tuple[str, ...] = (SUPERVISOR_UNIT, BALANCER_UNIT, *SERVER_UNITS, RAY_UNIT)
"""All serving units of Firstlight, in the order in which they are stopped; units that a host does not have are
skipped."""

TOKEN_PATH = "/etc/firstlight/cluster.token"  # noqa: S105 - a path, not a password
"""The token with which Ray's nodes authenticate each other; readable by the engine's containers."""
SUPERVISOR_TOKEN_PATHS = "/etc/firstlight/supervisor-*.token"  # noqa: S105 - paths, not a password
"""The tokens with which the head's supervisor and that of one other node authenticate each other; no container can read
them."""
TOKEN_PATH_IN_CONTAINER = "/run/firstlight/cluster.token"  # noqa: S105 - a path, not a password
SERVER_ENVIRONMENT_PATH = "/etc/firstlight/server.env"
RAY_GATHER_PATH = "/usr/local/lib/firstlight/ray_gather.py"
"""Waits, inside the head's Ray, until every planned node and GPU has joined."""
SGLANG_PROGRAM_PATH = "/usr/local/lib/firstlight/sglang_server.py"
"""Starts SGLang with the API key taken from the environment instead of the command line."""
RAY_SERVE_SETTINGS_PATH = "/etc/firstlight/ray_serve.json"
"""The settings of the program that has Ray Serve start replicas; only the head of such a cluster has this file."""
TENSORRT_SETTINGS_PATH = "/etc/firstlight/tensorrt-llm.yml"
MPI_KEY_PATH = "/etc/firstlight/mpi.key"
"""The SSH key with which the hosts of a TensorRT-LLM group authenticate each other; the same on all of them."""

DRAINED_PATH = "/var/lib/firstlight/drained"
"""While this file exists, no Firstlight service serves on the host, not even after a reboot."""
UNLESS_DRAINED = ("ConditionPathExists", f"!{DRAINED_PATH}")


def supervisor_token_path(node: str) -> str:
    """The path of the token shared by a node and the head only."""
    return SUPERVISOR_TOKEN_PATHS.replace("*", node)


def token_environment() -> dict[str, str]:
    """Return the variables that make Ray require the token; a token file alone does not do so for all commands."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": TOKEN_PATH_IN_CONTAINER}


SHARED_MEMORY = "16g"
"""The size limit of a container's /dev/shm; nothing is reserved. Docker's default of 64 MB is too small for NCCL and
Ray."""


OPEN_FILES = 1_048_576
"""The limit on open files and connections of a container. The limit inherited from Docker may be 1024, less than a rank
needs for the files of a large checkpoint, its queue pairs and its clients."""


def own_memory(size: str = SHARED_MEMORY) -> list[str]:
    """Options for shared memory that is released with its container, however that ends (decision 0015)."""
    return ["--ipc=private", f"--shm-size={size}"]


def lent_memory(size: str = SHARED_MEMORY) -> list[str]:
    """The same, but another container may join it."""
    return ["--ipc=shareable", f"--shm-size={size}"]


def memory_of(container: str) -> list[str]:
    """Options for using the shared memory of another container."""
    return [f"--ipc=container:{container}"]


def is_pinned(image: str) -> bool:
    """Whether this names the same bytes on every node: by registry digest, or by the local name derived from it."""
    return "@sha256:" in image or is_local_name(image)


CAPABILITIES = ("IPC_LOCK", "NET_BIND_SERVICE")
"""Root's capabilities that every container keeps: RDMA locks the memory that it registers, and a port below 1024 is one
that no unprivileged user of the host can take. All containers have the same set, because a process can look into
another one (as a Ray driver into its node's) only if it has all of the other's capabilities."""

_CAPABILITY = re.compile(r"(?!ALL$)[A-Z]+(?:_[A-Z]+)*")
_WRITABLE = re.compile(r"(?:/[A-Za-z0-9._-]+)+")


def confinement(container: Mapping[str, Any]) -> list[str]:
    """Return the Docker options that confine a container: minimal capabilities, and no program in it can gain more.

    `container` is {"capabilities": capabilities beyond CAPABILITIES, "writable": directories}. If it names directories,
    the rest of the container's file system is read-only. What is written there goes to the host's disk, because memory
    may be shared with the GPU, and is deleted with the container.
    """
    added = sorted({*CAPABILITIES, *(container.get("capabilities") or ())})
    writable = container.get("writable") or ()
    return [
        "--cap-drop=ALL",
        *(f"--cap-add={name}" for name in added),
        "--security-opt=no-new-privileges",
        *(["--read-only", *(f"--volume={path}" for path in writable)] if writable else []),
    ]


def container_expected_instead(container: Any) -> str | None:
    """Describe what was expected instead of an invalid container description; None if it is valid."""
    if not isinstance(container, Mapping) or not set(container) <= {"capabilities", "writable"}:
        return "a mapping with capabilities and writable"
    for name, pattern, words in (
        ("capabilities", _CAPABILITY, "names such as SYS_NICE"),
        ("writable", _WRITABLE, "absolute paths such as /root"),
    ):
        listed = container.get(name) or []
        if not isinstance(listed, (list, tuple)) or not all(
            isinstance(one, str) and pattern.fullmatch(one) and ".." not in one.split("/") for one in listed
        ):
            return f"as its {name} a list of {words}"
    return None


def checked_container(container: Any, variable: str) -> Mapping[str, Any]:
    """Return the container description that a role was given. Raises ValueError if it is invalid."""
    expected = container_expected_instead(container)
    if expected:
        raise ValueError(f"{variable} is {container!r}, expected {expected}: correct it, or leave it out")
    found: Mapping[str, Any] = container
    return found


def docker_run(name: str, image: str, confined: Sequence[str], memory: Sequence[str] | None = None) -> list[str]:
    """Return the start of the `docker run` command that every container using GPUs and the fabric shares.

    `confined` are the options from `confinement`.
    """
    if not is_pinned(image):
        raise ValueError(
            f"image {image!r} is not pinned: expected REPOSITORY@sha256:DIGEST or the local name that is derived "
            "from it, so that every node runs the same bytes"
        )
    return [
        DOCKER,
        "run",
        "--rm",
        "--pull=never",  # a start never downloads: it runs what inference_image has checked
        f"--name={name}",
        "--network=host",
        *(own_memory() if memory is None else memory),
        *confined,
        "--gpus=all",
        "--ulimit=memlock=-1",
        "--ulimit=stack=67108864",
        f"--ulimit=nofile={OPEN_FILES}:{OPEN_FILES}",
        "--log-driver=local",  # bounded on disk; the complete log goes to the journal
    ]


def docker_rm(name: str) -> list[str]:
    """Return the command that removes what an interrupted run left behind, including its volumes."""
    return _silent(f"{DOCKER} rm --force --volumes {name}")


def docker_stop(name: str, seconds: int) -> list[str]:
    """Return the command that stops the container, by force after `seconds`."""
    return _silent(f"{DOCKER} stop -t {seconds} {name}")


def _silent(line: str) -> list[str]:
    """Wrap a command to discard its output: a missing container is fine, and must not be the last line of a log."""
    return ["/bin/sh", "-c", f"exec {line} >/dev/null 2>&1"]


def mount(path: str, target: str | None = None) -> str:
    """A read-only bind mount; unlike --volume, it fails if the source does not exist."""
    for text in (path, target or path):
        if "," in text or not text.startswith("/"):
            raise ValueError(f"cannot mount {text!r}: expected an absolute path without a comma")
    return f"--mount=type=bind,source={path},target={target or path},readonly"


def environment(*layers: Mapping[str, object]) -> list[str]:
    """Return --env arguments; later layers win, sorted by name so that the same settings give the same unit."""
    merged: dict[str, object] = {}
    for layer in layers:
        merged.update(layer)
    return [f"--env={name}={merged[name]}" for name in sorted(merged)]
