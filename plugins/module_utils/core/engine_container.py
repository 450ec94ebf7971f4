# SPDX-License-Identifier: Apache-2.0
"""What the container of Ray and the container of the engine have in common: one image, one way to be run."""

from __future__ import annotations

from collections.abc import Mapping

DOCKER = "/usr/bin/docker"
RAY_CONTAINER = "firstlight-ray"
RAY_UNIT = "firstlight-ray.service"
SERVER_CONTAINER = "firstlight-server"
SERVER_UNIT = "firstlight-server.service"
UNIT_DIRECTORY = "/etc/systemd/system"

TOKEN_PATH = "/etc/firstlight/ray.token"  # noqa: S105 - a path, not a password
TOKEN_PATH_IN_CONTAINER = "/run/firstlight/ray.token"  # noqa: S105 - a path, not a password
SERVER_ENVIRONMENT_PATH = "/etc/firstlight/server.env"

DRAINED_PATH = "/var/lib/firstlight/drained"
"""While this file is there, nothing of Firstlight's serves on the host, not even after a reboot."""
UNLESS_DRAINED = ("ConditionPathExists", f"!{DRAINED_PATH}")


def token_environment() -> dict[str, str]:
    """What makes Ray ask for the token; a token file alone does not switch it on for every command."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": TOKEN_PATH_IN_CONTAINER}


def docker_run(name: str, image: str) -> list[str]:
    """The start of the command: what every container that touches GPUs and the fabric needs."""
    if "@sha256:" not in image:
        raise ValueError(
            f"image {image!r} is not pinned: expected REPOSITORY@sha256:DIGEST, so that every node runs the same bytes"
        )
    return [
        DOCKER,
        "run",
        "--rm",
        "--pull=never",  # a start never downloads: what runs is what inference_image checked
        f"--name={name}",
        "--network=host",
        "--ipc=host",
        "--gpus=all",
        "--ulimit=memlock=-1",
        "--ulimit=stack=67108864",
        "--log-driver=local",  # bounded on disk; the whole text goes to the journal
    ]


def docker_rm(name: str) -> list[str]:
    """Takes away what a run that was cut short left behind, its volumes too."""
    return [DOCKER, "rm", "--force", "--volumes", name]


def docker_stop(name: str, seconds: int) -> list[str]:
    """Ends the container, by force after so many seconds."""
    return [DOCKER, "stop", "-t", str(seconds), name]


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
