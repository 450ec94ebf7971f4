# SPDX-License-Identifier: Apache-2.0
"""What a teardown removes, in which order, and what it keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..compile_cache import CONTAINER_ROOT, VENV_ROOT
from ..engine_container import (
    DRAINED_PATH,
    MPI_KEY_PATH,
    RAY_GATHER_PATH,
    SERVER_ENVIRONMENT_PATH,
    SERVING_UNITS,
    SGLANG_PROGRAM_PATH,
    SUPERVISOR_TOKEN_PATHS,
    TENSORRT_SETTINGS_PATH,
    TOKEN_PATH,
    UNIT_DIRECTORY,
)
from ..text import gigabytes
from .files import CONFIG_PATH, PROGRAM_PATH, REMEMBERED_PATH, STATE_PATH

SHARE_UNIT = "firstlight-share.service"
UNITS: tuple[str, ...] = (*SERVING_UNITS, SHARE_UNIT)
"""In the order in which they are stopped: the supervisor first, as it would start the others again."""

SECRETS: tuple[str, ...] = (
    TOKEN_PATH,
    SUPERVISOR_TOKEN_PATHS,
    SERVER_ENVIRONMENT_PATH,
    MPI_KEY_PATH,
    "/etc/firstlight/ray.token",
)
"""Paths and glob patterns."""
FILES: tuple[str, ...] = (
    *(f"{UNIT_DIRECTORY}/{unit}" for unit in SERVING_UNITS),
    CONFIG_PATH,
    PROGRAM_PATH,
    RAY_GATHER_PATH,
    SGLANG_PROGRAM_PATH,
    TENSORRT_SETTINGS_PATH,
    "/etc/firstlight/balancer.conf",
    STATE_PATH,
    "/run/firstlight/supervisor-epoch.json",
    "/run/firstlight/supervisor.lock",
    REMEMBERED_PATH,
    DRAINED_PATH,
)
SCRATCH: tuple[str, ...] = (
    "/var/lib/firstlight/transfer",
    "/var/lib/firstlight/incoming",
    "/run/firstlight/share",
    "/run/firstlight/jobs",
)
"""Directories for files in transit; an interrupted run leaves files there."""
CACHES: tuple[str, ...] = (CONTAINER_ROOT, VENV_ROOT)
"""What the engines have compiled; the next start creates it again."""
IMAGE_RECORDS = "/var/lib/firstlight/images"
"""The directory with the verification record of each image, which is removed with the image."""
EMPTY_DIRECTORIES: tuple[str, ...] = (
    "/run/firstlight",
    "/usr/local/lib/firstlight",
    "/etc/firstlight",
    IMAGE_RECORDS,
    "/var/lib/firstlight/models",
    "/var/lib/firstlight",
    "/var/cache/firstlight",
)
"""Removed once they are empty; files of others keep them."""


@dataclass(frozen=True)
class Found:
    """Everything on a host that belongs to serving."""

    units: tuple[str, ...] = ()
    """Units that are installed, or run without a unit file (transient ones)."""
    containers: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    scratch: tuple[tuple[str, int], ...] = ()
    """Directories for files in transit, each with its bytes on disk."""
    caches: tuple[tuple[str, int], ...] = ()
    """Compile caches, each with its bytes on disk."""
    weights: tuple[tuple[str, int], ...] = ()
    """Directories with weights, complete or begun, each with its bytes on disk."""
    images: tuple[str, ...] = ()
    records: tuple[str, ...] = ()
    """Verification records of images."""
    nginx_masked: bool = False

    @property
    def nothing(self) -> bool:
        running = self.units or self.containers or self.secrets or self.files
        return not (running or self.scratch or self.caches or self.weights or self.images or self.records)


def wanted(found: Found, *, weights: bool, images: bool) -> Found:
    """Select what is to be removed: weights and images only if requested."""
    return Found(
        units=found.units,
        containers=found.containers,
        secrets=found.secrets,
        files=found.files,
        scratch=found.scratch,
        caches=found.caches,
        weights=found.weights if weights else (),
        images=found.images if images else (),
        records=found.records if images else (),
    )


def lines(going: Found) -> list[str]:
    """Describe what is removed, for people."""
    return [
        *(f"unit {name}: stopped and removed" for name in going.units),
        *(f"container {name}" for name in going.containers),
        *(f"secret {path}" for path in going.secrets),
        *(f"file {path}" for path in going.files),
        *(
            f"unfinished copies in {path}, {gigabytes(size)}" if size else f"directory {path}"
            for path, size in going.scratch
        ),
        *(f"compile caches in {path}, {gigabytes(size)}" for path, size in going.caches),
        *(f"weights {path}, {gigabytes(size)}" for path, size in going.weights),
        *(f"image {name}" for name in going.images),
        *(f"record {path}" for path in going.records),
    ]


def kept(found: Found, going: Found) -> list[str]:
    """Describe what of Firstlight's is kept, and how to remove it."""
    told = []
    if found.weights and not going.weights:
        size = gigabytes(sum(size for _, size in found.weights))
        told.append(f"stays: {len(found.weights)} models, {size}; -e teardown_weights=true removes them")
    if found.images and not going.images:
        told.append(f"stays: {len(found.images)} images; -e teardown_images=true removes them")
    if found.nginx_masked:
        told.append("stays: the package nginx, its own unit masked; `systemctl unmask nginx` lets you use it")
    return told


def own_images(text: str, references: Iterable[str]) -> tuple[str, ...]:
    """Parse Firstlight's images from `docker images --digests --format '{{.Repository}}\\t{{.Tag}}\\t{{.Digest}}'`.

    Those are the pinned references of a plan, listed first, and the local names of the engine and of its base.
    """
    pinned = {_bare(reference) for reference in references if "@" in reference}
    found: dict[str, None] = {}
    for line in text.splitlines():
        repository, tag, digest = _cells(line)
        if repository in ("firstlight/engine", "firstlight/base") and tag not in ("", "<none>"):
            found[f"{repository}:{tag}"] = None
        if digest.startswith("sha256:") and f"{repository}@{digest}" in pinned:
            found[f"{repository}@{digest}"] = None
    return tuple(sorted(found, key=lambda name: "@" not in name))


def _cells(line: str) -> Sequence[str]:
    cells = [cell.strip() for cell in line.split("\t")]
    return cells if len(cells) == 3 else ("", "", "")


def _bare(reference: str) -> str:
    """Normalise a reference as `docker images` lists it: no tag beside the digest, and no default registry."""
    name, _, digest = reference.partition("@")
    head, slash, last = name.rpartition("/")
    name = f"{head}{slash}{last.partition(':')[0]}"
    for implied in ("docker.io/", "library/"):
        name = name.removeprefix(implied)
    return f"{name}@{digest}"
