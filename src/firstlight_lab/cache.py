# SPDX-License-Identifier: Apache-2.0
"""Paths of the lab's files. Nothing the lab writes outlives `down` except below this directory."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .shell import LabError


def default_root() -> Path:
    """Return FIRSTLIGHT_CACHE, or a directory in the user's cache directory."""
    explicit = os.environ.get("FIRSTLIGHT_CACHE")
    if explicit:
        return Path(explicit).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).expanduser().resolve() / "firstlight"


@dataclass(frozen=True)
class Cache:
    """Paths below the cache root."""

    root: Path

    @property
    def labs(self) -> Path:
        return self.root / "labs"

    def lab(self, name: str) -> Path:
        return self.labs / name

    @property
    def node(self) -> Path:
        return self.root / "node"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def apt(self) -> Path:
        """The apt repository of NVIDIA's own systems."""
        return self.root / "apt"

    @property
    def cuda(self) -> Path:
        """The apt repository that stands in for NVIDIA's CUDA repository."""
        return self.root / "apt-cuda"

    @property
    def rented(self) -> Path:
        """The apt repository that stands in for that of a cloud provider."""
        return self.root / "apt-lambda"

    def archive(self, system: str) -> Path:
        """The apt repository of an operating system's own packages."""
        return self.root / f"apt-archive-{system}"

    @property
    def registry(self) -> Path:
        return self.root / "registry"

    @property
    def hub(self) -> Path:
        return self.root / "hub"

    @property
    def wheels(self) -> Path:
        """Wheels that are fetched and not made here."""
        return self.root / "wheels"

    @property
    def engine_data(self) -> Path:
        return self.root / "docker"

    @property
    def runtime(self) -> Path:
        """Sockets and pid files of the private engine: a short path, as that of a socket must stay below 108 bytes."""
        tag = hashlib.sha256(str(self.root).encode()).hexdigest()[:8]
        return Path("/run") / f"firstlight-{tag}"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Allow one builder at a time: labs that start concurrently share the images that the first one builds."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            handle = (self.root / "lock").open("w")
        except PermissionError:
            raise LabError(
                f"The lab's cache {self.root} cannot be written to by this user: another user, perhaps root, created "
                "it. Run the command as that user, or set a cache of your own: FIRSTLIGHT_CACHE=/path/to/directory"
            ) from None
        with handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def fingerprint(*parts: str | bytes | Path) -> str:
    """Return a short hash of texts and files, to detect outdated cache entries."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:16]
