# SPDX-License-Identifier: Apache-2.0
"""Parses `docker image inspect` and `docker container inspect`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .text import parse_json_list


def canonical_reference(reference: str) -> str:
    """Normalise a reference to Docker's listed form: no implied registry or namespace, no tag beside a digest."""
    name, at, digest = reference.partition("@")
    head, slash, last = name.rpartition("/")
    if at:
        last = last.partition(":")[0]
    name = f"{head}{slash}{last}"
    for implied in ("docker.io/", "index.docker.io/", "library/"):
        name = name.removeprefix(implied)
    return f"{name}{at}{digest}"


def parse_docker_images(text: str, references: Iterable[str]) -> dict[str, str | None]:
    """Return the id of each reference in the local store, None if it is absent.

    Raises ValueError when the text is not inspect output.
    """
    present: dict[str, str] = {}
    for entry in parse_json_list(text, "docker image inspect"):
        identity = str(entry.get("Id", ""))
        names = [*(entry.get("RepoDigests") or []), *(entry.get("RepoTags") or []), identity]
        present |= {canonical_reference(str(name)): identity for name in names}
    return {reference: present.get(canonical_reference(reference)) for reference in references}


def parse_docker_containers(text: str, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Parse each named container, including absent ones. Raises ValueError when the text is not inspect output."""
    containers: dict[str, dict[str, Any]] = {name: {"exists": False, "running": False, "image": None} for name in names}
    for entry in parse_json_list(text, "docker container inspect"):
        name = str(entry.get("Name", "")).removeprefix("/")
        if name in containers:
            containers[name] = {
                "exists": True,
                "running": bool((entry.get("State") or {}).get("Running")),
                "image": (entry.get("Config") or {}).get("Image") or entry.get("Image"),
            }
    return containers
