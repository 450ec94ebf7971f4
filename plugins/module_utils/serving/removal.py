# SPDX-License-Identifier: Apache-2.0
"""What a teardown takes away, in the order in which it does, and what it leaves."""

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
"""In the order in which they are stopped: the supervisor first, which would start the others again."""

SECRETS: tuple[str, ...] = (
    TOKEN_PATH,
    SUPERVISOR_TOKEN_PATHS,
    SERVER_ENVIRONMENT_PATH,
    MPI_KEY_PATH,
    "/etc/firstlight/ray.token",
)
"""Files and patterns of files."""
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
"""Directories in which files lie while they are on their way; a run that was cut off leaves them."""
CACHES: tuple[str, ...] = (CONTAINER_ROOT, VENV_ROOT)
"""What the engines have compiled: made again by the next start."""
IMAGE_RECORDS = "/var/lib/firstlight/images"
"""Where the proof of each image is kept, which goes with it."""
EMPTY_DIRECTORIES: tuple[str, ...] = (
    "/run/firstlight",
    "/usr/local/lib/firstlight",
    "/etc/firstlight",
    IMAGE_RECORDS,
    "/var/lib/firstlight/models",
    "/var/lib/firstlight",
    "/var/cache/firstlight",
)
"""Gone with their last file; what somebody else put there keeps them."""


@dataclass(frozen=True)
class Found:
    """What of serving is on a host."""

    units: tuple[str, ...] = ()
    """Units that are there, or run without a file (transient ones)."""
    containers: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    scratch: tuple[tuple[str, int], ...] = ()
    """Directories of what was on its way, each with its bytes on disk."""
    caches: tuple[tuple[str, int], ...] = ()
    """Directories of what was compiled, each with its bytes on disk."""
    weights: tuple[tuple[str, int], ...] = ()
    """Directories with weights, proven or begun, each with its bytes on disk."""
    images: tuple[str, ...] = ()
    records: tuple[str, ...] = ()
    """Files with the proofs of images."""
    nginx_masked: bool = False

    @property
    def nothing(self) -> bool:
        running = self.units or self.containers or self.secrets or self.files
        return not (running or self.scratch or self.caches or self.weights or self.images or self.records)


def wanted(found: Found, *, weights: bool, images: bool) -> Found:
    """What goes of what there is: weights and images only where that was asked for."""
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
    """What goes, for people."""
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
    """What stays although it is Firstlight's, and how it would go."""
    told = []
    if found.weights and not going.weights:
        size = gigabytes(sum(size for _, size in found.weights))
        told.append(f"stays: {len(found.weights)} models, {size}; -e teardown_weights=true removes them")
    if found.images and not going.images:
        told.append(f"stays: {len(found.images)} images; -e teardown_images=true removes them")
    if found.nginx_masked:
        told.append("stays: the package nginx, its own unit masked; `systemctl unmask nginx` gives it back to you")
    return told


def own_images(text: str, references: Iterable[str]) -> tuple[str, ...]:
    """`docker images --digests --format '{{.Repository}}\\t{{.Tag}}\\t{{.Digest}}'`: names that are Firstlight's.

    Those are the pinned references that a plan has, first, and the local names of the engine and of its base.
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
    """A reference as `docker images` lists it: without a tag beside the digest, and without Docker's own registry."""
    name, _, digest = reference.partition("@")
    head, slash, last = name.rpartition("/")
    name = f"{head}{slash}{last.partition(':')[0]}"
    for implied in ("docker.io/", "library/"):
        name = name.removeprefix(implied)
    return f"{name}@{digest}"
