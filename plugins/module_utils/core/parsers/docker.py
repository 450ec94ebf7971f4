# SPDX-License-Identifier: Apache-2.0
"""`docker image inspect` and `docker container inspect`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .text import parse_json_list


def canonical_reference(reference: str) -> str:
    """A digest reference as Docker lists it: no tag, no implied registry or namespace."""
    name, at, digest = reference.partition("@")
    head, slash, last = name.rpartition("/")
    if at:
        last = last.partition(":")[0]
    name = f"{head}{slash}{last}"
    for implied in ("docker.io/", "index.docker.io/", "library/"):
        name = name.removeprefix(implied)
    return f"{name}{at}{digest}"


def parse_docker_images(text: str, references: Iterable[str]) -> dict[str, bool]:
    """Which references are in the local store. Raises ValueError when the text is not inspect output."""
    present: set[str] = set()
    for entry in parse_json_list(text, "docker image inspect"):
        names = [*(entry.get("RepoDigests") or []), *(entry.get("RepoTags") or []), entry.get("Id", "")]
        present.update(canonical_reference(str(name)) for name in names)
    return {reference: canonical_reference(reference) in present for reference in references}


def parse_docker_containers(text: str, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Each named container, absent ones too. Raises ValueError when the text is not inspect output."""
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
