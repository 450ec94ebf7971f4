# SPDX-License-Identifier: Apache-2.0
"""What the container of Ray and the container of the engine have in common: one image, one way to be run."""

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
"""Replicas a host can have: one a GPU of the largest machines there are."""


def server_container(replica: int | None = None) -> str:
    """The container of the only server of a host, or of one of its replicas."""
    return SERVER_CONTAINER if replica is None else f"{SERVER_CONTAINER}-{replica}"


def server_unit(replica: int | None = None) -> str:
    """The unit of the only server of a host, or of one of its replicas."""
    return f"{server_container(replica)}.service"


SERVER_UNITS: tuple[str, ...] = (SERVER_UNIT, *(server_unit(replica) for replica in range(MOST_REPLICAS)))
"""Every name that the unit of a server can have; which of them a host has, its profile decides."""

SERVING_UNITS: tuple[str, ...] = (SUPERVISOR_UNIT, BALANCER_UNIT, *SERVER_UNITS, RAY_UNIT)
"""Everything of Firstlight's that serves, in the order in which it is stopped; who is not there is passed over."""

TOKEN_PATH = "/etc/firstlight/cluster.token"  # noqa: S105 - a path, not a password
"""With which Ray's nodes know each other; the engine's containers can read it."""
SUPERVISOR_TOKEN_PATHS = "/etc/firstlight/supervisor-*.token"  # noqa: S105 - paths, not a password
"""With which the supervisors of the head and of one other node know each other; no container can read it."""
TOKEN_PATH_IN_CONTAINER = "/run/firstlight/cluster.token"  # noqa: S105 - a path, not a password
SERVER_ENVIRONMENT_PATH = "/etc/firstlight/server.env"
RAY_GATHER_PATH = "/usr/local/lib/firstlight/ray_gather.py"
"""What waits, inside the head's Ray, until every planned node and GPU is there."""
SGLANG_PROGRAM_PATH = "/usr/local/lib/firstlight/sglang_server.py"
"""What starts SGLang with the API key, out of the environment instead of the command line."""
RAY_SERVE_SETTINGS_PATH = "/etc/firstlight/ray_serve.json"
"""What the program reads that has Ray Serve start replicas; only the head of such a cluster has it."""
TENSORRT_SETTINGS_PATH = "/etc/firstlight/tensorrt-llm.yml"
MPI_KEY_PATH = "/etc/firstlight/mpi.key"
"""The SSH key with which the hosts of a TensorRT-LLM group know each other, the same on all of them."""

DRAINED_PATH = "/var/lib/firstlight/drained"
"""While this file is there, nothing of Firstlight's serves on the host, not even after a reboot."""
UNLESS_DRAINED = ("ConditionPathExists", f"!{DRAINED_PATH}")


def supervisor_token_path(node: str) -> str:
    """The file that a node and the head have, and nobody else."""
    return SUPERVISOR_TOKEN_PATHS.replace("*", node)


def token_environment() -> dict[str, str]:
    """What makes Ray ask for the token; a token file alone does not switch it on for every command."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": TOKEN_PATH_IN_CONTAINER}


SHARED_MEMORY = "16g"
"""What a container may have in /dev/shm; a limit, not a reservation. Docker's own 64 MB stops NCCL and Ray."""


OPEN_FILES = 1_048_576
"""Files and connections a container may have open. What it inherits from Docker may be 1024: fewer than a rank has with
the files of a large checkpoint, its queue pairs and its clients."""


def own_memory(size: str = SHARED_MEMORY) -> list[str]:
    """Shared memory that ends with its container, whatever ends it (decision 0015)."""
    return ["--ipc=private", f"--shm-size={size}"]


def lent_memory(size: str = SHARED_MEMORY) -> list[str]:
    """The same, but another container may join it."""
    return ["--ipc=shareable", f"--shm-size={size}"]


def memory_of(container: str) -> list[str]:
    """The shared memory that another container lends."""
    return [f"--ipc=container:{container}"]


def is_pinned(image: str) -> bool:
    """Whether this names the same bytes on every node: by the registry's digest, or by the local name made of it."""
    return "@sha256:" in image or is_local_name(image)


CAPABILITIES = ("IPC_LOCK", "NET_BIND_SERVICE")
"""What every container has of the rights of root: RDMA locks the memory that it registers, and a port below 1024 is one
that no other user of the host can take. The same for all: a process sees into another one's, as a driver of Ray into
its node's, only with all the rights that this one has."""

_CAPABILITY = re.compile(r"(?!ALL$)[A-Z]+(?:_[A-Z]+)*")
_WRITABLE = re.compile(r"(?:/[A-Za-z0-9._-]+)+")


def confinement(container: Mapping[str, Any]) -> list[str]:
    """What a container may do: nothing that it does not need, and no program in it gains a right.

    `container` is {"capabilities": rights of root beyond CAPABILITIES, "writable": directories}; where it names
    directories, everything else in the container can only be read. What is written there is on the host's disk, because
    memory is what the GPU may share, and ends with the container.
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
    """What was expected in the place of something that does not say what a container may do; nothing where it does."""
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
    """What a role was given for its container. Raises ValueError where it is none."""
    expected = container_expected_instead(container)
    if expected:
        raise ValueError(f"{variable} is {container!r}, expected {expected}: correct it, or leave it out")
    found: Mapping[str, Any] = container
    return found


def docker_run(name: str, image: str, confined: Sequence[str], memory: Sequence[str] | None = None) -> list[str]:
    """The start of the command: what every container that touches GPUs and the fabric needs.

    `confined` is what it may do (`confinement`).
    """
    if not is_pinned(image):
        raise ValueError(
            f"image {image!r} is not pinned: expected REPOSITORY@sha256:DIGEST or the local name that is made of it, "
            "so that every node runs the same bytes"
        )
    return [
        DOCKER,
        "run",
        "--rm",
        "--pull=never",  # a start never downloads: what runs is what inference_image checked
        f"--name={name}",
        "--network=host",
        *(own_memory() if memory is None else memory),
        *confined,
        "--gpus=all",
        "--ulimit=memlock=-1",
        "--ulimit=stack=67108864",
        f"--ulimit=nofile={OPEN_FILES}:{OPEN_FILES}",
        "--log-driver=local",  # bounded on disk; the whole text goes to the journal
    ]


def docker_rm(name: str) -> list[str]:
    """Takes away what a run that was cut short left behind, its volumes too."""
    return _silent(f"{DOCKER} rm --force --volumes {name}")


def docker_stop(name: str, seconds: int) -> list[str]:
    """Ends the container, by force after so many seconds."""
    return _silent(f"{DOCKER} stop -t {seconds} {name}")


def _silent(line: str) -> list[str]:
    """Without a word: that there is no container any more is right, and must not be the last line of a log."""
    return ["/bin/sh", "-c", f"exec {line} >/dev/null 2>&1"]


def mount(path: str, target: str | None = None) -> str:
    """A read-only bind mount; unlike --volume it fails when the source is missing."""
    for text in (path, target or path):
        if "," in text or not text.startswith("/"):
            raise ValueError(f"cannot mount {text!r}: expected an absolute path without a comma")
    return f"--mount=type=bind,source={path},target={target or path},readonly"


def environment(*layers: Mapping[str, object]) -> list[str]:
    """--env arguments, later layers win, in name order so that the same settings give the same unit."""
    merged: dict[str, object] = {}
    for layer in layers:
        merged.update(layer)
    return [f"--env={name}={merged[name]}" for name in sorted(merged)]
