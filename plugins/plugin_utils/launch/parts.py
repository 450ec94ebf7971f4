# SPDX-License-Identifier: Apache-2.0
"""Building blocks of every engine's launch: settings, environment, and one record per process."""

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
    """Return the operator's settings as the engine's arguments, without those that belong in its settings file."""
    words: list[str] = []
    for name in SETTINGS:
        value = getattr(description, name)
        form = form_of(description.engine, name, description.version)
        if value is not None and form.arguments is not None:
            words += form.arguments(word_of(form, value))
    return [*words, *_without_media(description)]


def _without_media(description: LaunchDescription) -> list[str]:
    """Return a flag that disables fetching media: a client must not choose what the engine fetches inside the network.

    Whether a model takes images is not always known, and the flag has no effect on one that does not.
    """
    since, version = MEDIA_SINCE.get(description.engine), version_of(description.version)
    if since is None or (version is not None and version < since):
        return []
    named = any(flag_name(word) == MEDIA_FLAG for word in description.flags)
    return [] if named else [f"{MEDIA_FLAG}={NO_MEDIA}"]


def settings_document(description: LaunchDescription) -> dict[str, Any]:
    """Return the operator's settings as the content of the engine's settings file."""
    document: dict[str, Any] = {}
    for name in SETTINGS:
        value = getattr(description, name)
        form = form_of(description.engine, name, description.version)
        if value is not None and form.file is not None:
            merge_settings(document, form.file(word_of(form, value)))
    return document


def merge_settings(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Merge further keys into a settings file, recursively."""
    for name, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(name, {}), dict):
            merge_settings(into.setdefault(name, {}), value)
        else:
            into[name] = value


def fabric_environment(host: LaunchHost) -> dict[str, object]:
    """Return the environment that keeps every kind of traffic between ranks on the fabric."""
    return {} if host.interface is None else {**socket_environment(host.interface)}


def merged_environment(*layers: Mapping[str, object]) -> dict[str, str]:
    """Merge environments; later layers win. Sorted by name, so that the same settings give the same record."""
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
    """Return a process in a container of the image, with the engine's program as the entry point.

    `memory` holds the options for its shared memory; by default it has its own.
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
    """Return options for the RDMA devices: host networking alone does not make them visible to a container."""
    return ["--device=/dev/infiniband"] if description.rdma else []


def model_mount(description: LaunchDescription) -> str:
    """Mount the weights under the same path as outside."""
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
    """Return the record of one process of a host. Secrets are in `env_file` on the host, never here."""
    return {
        "name": name,
        "argv": list(argv),
        "env": dict(env),
        "engine_argv": list(engine_argv),
        "env_file": env_file,
        "files": dict(files or {}),
        "container": container,
    }
