# SPDX-License-Identifier: Apache-2.0
"""How an image is named and recorded on every node, and how much space it needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..text import gigabytes, is_hexadecimal, said_lines

DIGEST_TO_SUPPLY = "sha256:DIGEST-TO-SUPPLY"
"""Placeholder in a plan for a digest that only the operator knows; nothing is run with it."""

LOCAL_REPOSITORY = "firstlight/engine"
RAY_MARK = "-ray-"

RECORDS = "/var/lib/firstlight/images"
"""One record per verified image, so that the next one can be prepared while another serves."""

CONTAINERD_STORE = "io.containerd.snapshotter"
CONTAINERD_ROOT = "/var/lib/containerd"
ROOM = 1.1
"""Layers are unpacked while others are still being pulled, so slightly more than the image size is needed."""

ROOM_OF_ARCHIVE = 3.1
"""The archive itself takes space, Docker unpacks it next to its images, and only then creates layers from it."""


def split_reference(reference: str) -> tuple[str, str]:
    """Split a pinned reference into repository and digest. Raises ValueError."""
    repository, separator, digest = reference.partition("@")
    if not (repository and separator and _is_digest(digest)):
        raise ValueError(
            f"image reference is {reference!r}, expected REPOSITORY@sha256:<64 hexadecimal digits>: "
            "a tag can point at other bytes tomorrow"
        )
    return repository, digest


def local_name(reference: str, ray: str = "") -> str:
    """Return the image's name on every node: a local tag of the pinned digest and of the Ray added to it.

    An image from a neighbour or an archive has no registry digest in Docker, and a derived one never had one. Units and
    roles need a name that is the same however the image was obtained.
    """
    _, digest = split_reference(reference)
    if not _is_version(ray):
        raise ValueError(f"the version of Ray is {ray!r}, expected one like 2.60.0: correct the stack")
    return f"{LOCAL_REPOSITORY}:{digest.replace(':', '-')}{RAY_MARK + ray if ray else ''}"


def is_local_name(name: str) -> bool:
    """Whether this is a name made by `local_name`: it identifies pinned bytes although it names no registry."""
    repository, _, tag = name.partition(":")
    digest, mark, ray = tag.partition(RAY_MARK)
    whole = repository == LOCAL_REPOSITORY and _is_digest(digest.replace("-", ":", 1))
    return whole and bool(mark) == bool(ray) and _is_version(ray)


def _is_version(text: str) -> bool:
    """Whether the text is valid in a tag."""
    return all(character.isascii() and (character.isalnum() or character in "._") for character in text)


def _is_digest(text: str) -> bool:
    kind, _, hexadecimal = text.partition(":")
    return text == DIGEST_TO_SUPPLY or (kind == "sha256" and is_hexadecimal(hexadecimal, 64))


def record_path(name: str, directory: str = RECORDS) -> str:
    """Return the path of a node's record of the image with this local name."""
    return f"{directory}/{name.partition(':')[2]}.json"


def record_text(name: str, reference: str, identity: str, requires: Mapping[str, str]) -> str:
    """Render the record of an image that contains all of these; other contents or requirements change the text."""
    verified = {"id": identity, "image": reference, "name": name, "requires": words_of(requires)}
    return json.dumps(verified, indent=2, sort_keys=True) + "\n"


def read_record(text: str | None) -> dict[str, Any] | None:
    """Parse a record; None if there is none or it is truncated."""
    try:
        record = json.loads(text or "")
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def words_of(requires: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions as text, whatever type YAML gave them."""
    return {str(name): str(version) for name, version in requires.items()}


def has_digest(repo_digests: Sequence[str], digest: str) -> bool:
    """Whether Docker knows the image under this digest; Docker shortens repository names, but never a digest."""
    return any(entry.partition("@")[2] == digest for entry in repo_digests)


def image_directory(told: str) -> str:
    """Return where images are stored, from `docker info`: its root and, after a tab, its storage driver's status.

    A fresh Docker 29 uses containerd's image store, which is not below Docker's own root.
    """
    root, _, status = told.strip().partition("\t")
    if CONTAINERD_STORE in status:
        return CONTAINERD_ROOT
    return root or "/var/lib/docker"


def needed_bytes(size_bytes: int, archived: bool = False) -> int:
    """Return the free space needed for an image of this size; 0 if the size is unknown."""
    return int(size_bytes * (ROOM_OF_ARCHIVE if archived else ROOM))


def no_room(reference: str, place: str, needed: int, free_bytes: int) -> str | None:
    """Return why the image does not fit; None if it does."""
    if free_bytes >= needed:
        return None
    return (
        f"image {reference} needs {gigabytes(needed)} on {place}, {gigabytes(free_bytes)} are free: "
        "free space there (docker image prune --all removes images no container uses) or move Docker's "
        "data-root"
    )


def full_disk(reference: str, place: str, output: str, free_bytes: int) -> str | None:
    """Return the message for a disk that filled up during the load; None if that is not the cause."""
    if "no space left on device" not in output.lower():
        return None
    return (
        f"the disk became full while loading image {reference}: {gigabytes(free_bytes)} are free on {place} "
        "now; nothing half-loaded is used. Free space there (docker image prune --all removes images no "
        "container uses) and run again"
    )


def last_line(output: str) -> str:
    """Return Docker's last line, short enough for a message."""
    lines = said_lines(output)
    return lines[-1][:400] if lines else "docker printed nothing"


def pull_failure(reference: str, place: str, output: str, free_bytes: int) -> str:
    """Return the message for a failed pull."""
    return full_disk(reference, place, output, free_bytes) or (
        f"image {reference} cannot be pulled: {last_line(output)}; check the reference and that this host "
        "reaches the registry, or provide the image as an archive (firstlight_image_archive)"
    )


def another_image(name: str, found: str, expected: str, head: str) -> str:
    """Return the message for a node whose loaded image differs from the head's."""
    return (
        f"image {name} has the id {found}, expected {expected} as on {head}: both must run the same Docker "
        "release and image store (see `docker info`); make them equal and run again"
    )
