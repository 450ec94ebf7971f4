# SPDX-License-Identifier: Apache-2.0
"""What the launch of every engine is put together from: settings, environment, one record a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    SERVER_CONTAINER,
    confinement,
    docker_run,
    environment,
    mount,
    own_memory,
)

from .description import SETTINGS, Command, LaunchDescription, LaunchHost
from .fabric_environment import socket_environment
from .flags import flag_name
from .translations import MEDIA_FLAG, MEDIA_SINCE, NO_MEDIA, form_of, version_of, word_of


def settings_arguments(description: LaunchDescription) -> list[str]:
    """The operator's settings as the engine's arguments; those that belong in its settings file are left out."""
    words: list[str] = []
    for name in SETTINGS:
        value = getattr(description, name)
        form = form_of(description.engine, name, description.version)
        if value is not None and form.arguments is not None:
            words += form.arguments(word_of(form, value))
    return [*words, *_without_media(description)]


def _without_media(description: LaunchDescription) -> list[str]:
    """Who sends a request must not choose what the engine fetches from inside the host's network.

    Whether a model takes images is not always known, and the flag means nothing to one that does not.
    """
    since, version = MEDIA_SINCE.get(description.engine), version_of(description.version)
    if since is None or (version is not None and version < since):
        return []
    named = any(flag_name(word) == MEDIA_FLAG for word in description.flags)
    return [] if named else [f"{MEDIA_FLAG}={NO_MEDIA}"]


def settings_document(description: LaunchDescription) -> dict[str, Any]:
    """The operator's settings as the content of the engine's settings file."""
    document: dict[str, Any] = {}
    for name in SETTINGS:
        value = getattr(description, name)
        form = form_of(description.engine, name, description.version)
        if value is not None and form.file is not None:
            merge_settings(document, form.file(word_of(form, value)))
    return document


def merge_settings(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Put further keys into a settings file; inside of those that both have, too."""
    for name, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(name, {}), dict):
            merge_settings(into.setdefault(name, {}), value)
        else:
            into[name] = value


def fabric_environment(host: LaunchHost) -> dict[str, object]:
    """What keeps every kind of traffic between ranks on the fabric."""
    return {} if host.interface is None else {**socket_environment(host.interface)}


def merged_environment(*layers: Mapping[str, object]) -> dict[str, str]:
    """Later layers win; in name order, so that the same settings give the same record."""
    merged: dict[str, object] = {}
    for layer in layers:
        merged.update(layer)
    return {name: str(merged[name]) for name in sorted(merged)}


def docker_command(
    description: LaunchDescription,
    engine_argv: Sequence[str],
    env: Mapping[str, str],
    *,
    options: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
    with_key: bool = False,
    container: str = SERVER_CONTAINER,
    memory: Sequence[str] | None = None,
) -> Command:
    """A process in a container of the image; the engine's program is the entry point.

    `memory` is where its shared memory is; without it, it has its own.
    """
    program, *arguments = engine_argv
    image = str(description.image)
    argv = [
        *docker_run(
            container,
            image,
            confinement(description.container),
            own_memory(description.shared_memory) if memory is None else memory,
        ),
        *options,
        *([f"--env-file={description.env_file}"] if with_key else []),
        *environment(env),
        f"--entrypoint={program}",
        image,
        *arguments,
    ]
    return record(
        container.removeprefix("firstlight-"),
        argv,
        env,
        engine_argv,
        env_file=description.env_file if with_key else None,
        files=files,
        container=container,
    )


def device_options(description: LaunchDescription) -> list[str]:
    """The RDMA devices: host networking alone does not show them to a container."""
    return ["--device=/dev/infiniband"] if description.rdma else []


def model_mount(description: LaunchDescription) -> str:
    """The weights, under the same path as outside."""
    return mount(description.model_directory)


def record(
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    engine_argv: Sequence[str],
    *,
    env_file: str | None = None,
    files: Mapping[str, str] | None = None,
    container: str | None = None,
) -> Command:
    """One process of a host. Secrets are in `env_file` on the host, never here."""
    return {
        "name": name,
        "argv": list(argv),
        "env": dict(env),
        "engine_argv": list(engine_argv),
        "env_file": env_file,
        "files": dict(files or {}),
        "container": container,
    }
