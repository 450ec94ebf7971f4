# SPDX-License-Identifier: Apache-2.0
"""Write an image straight into the storage of a registry, so that nothing ever has to be pushed.

The tree is that of the reference registry's file system driver: blobs by digest, and per repository small ``link``
files that name a digest. Layers stay uncompressed: they travel between containers of one machine, where packing and
unpacking would cost more than the bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import posixpath
import shutil
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
EPOCH = 1767225600  # the start of 2026: every file of the image is of that age, so that equal input gives equal layers


@dataclass(frozen=True)
class Blob:
    """A stored blob: its digest and its size."""

    digest: str
    size: int

    def describe(self, media_type: str) -> dict[str, Any]:
        """Return the descriptor a manifest holds for this blob."""
        return {"mediaType": media_type, "digest": self.digest, "size": self.size}


class _Hashing(io.RawIOBase):
    """A sink that hashes and counts what it passes on."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self.sha256 = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._target.write(data)
        self.sha256.update(data)
        self.size += len(data)
        return len(data)


class Store:
    """The storage directory of a registry."""

    def __init__(self, root: Path) -> None:
        self._root = root / "docker" / "registry" / "v2"

    def blob_path(self, digest: str) -> Path:
        """Return where the registry looks for a blob."""
        algorithm, _, value = digest.partition(":")
        return self._root / "blobs" / algorithm / value[:2] / value / "data"

    def add_stream(self, write: Callable[[IO[bytes]], None]) -> Blob:
        """Store what ``write`` produces, without holding it in memory or writing it twice."""
        self._root.mkdir(parents=True, exist_ok=True)
        partial = self._root / f"partial-{os.getpid()}"
        try:
            with partial.open("wb", buffering=1 << 20) as file:
                sink = _Hashing(file)
                write(sink)  # type: ignore[arg-type]  # a raw sink is all that tarfile asks for
            blob = Blob(f"sha256:{sink.sha256.hexdigest()}", sink.size)
            path = self.blob_path(blob.digest)
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        return blob

    def add_bytes(self, data: bytes) -> Blob:
        """Store a small blob."""
        return self.add_stream(lambda sink: _write_all(sink, data))

    def add_json(self, value: Mapping[str, Any]) -> Blob:
        """Store a value so that the same value always has the same digest."""
        return self.add_bytes(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())

    def publish(self, repository: str, tag: str, layers: Sequence[Blob], configuration: Mapping[str, Any]) -> Blob:
        """Make an image of stored layers and name it; return its manifest.

        ``configuration`` is the image configuration without ``rootfs``, which follows from the layers: they
        are uncompressed, so a layer's digest is its diff id too.
        """
        rootfs = {"type": "layers", "diff_ids": [layer.digest for layer in layers]}
        config = self.add_json({**configuration, "rootfs": rootfs})
        manifest = self.add_json(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST_TYPE,
                "config": config.describe(CONFIG_TYPE),
                "layers": [layer.describe(LAYER_TYPE) for layer in layers],
            }
        )
        base = self._root / "repositories" / repository
        for blob in (config, *layers):
            _link(base / "_layers", blob.digest)
        _link(base / "_manifests" / "revisions", manifest.digest)
        _link(base / "_manifests" / "tags" / tag / "index", manifest.digest)
        current = base / "_manifests" / "tags" / tag / "current"
        current.mkdir(parents=True, exist_ok=True)
        (current / "link").write_text(manifest.digest, encoding="ascii")
        return manifest

    def holds(self, repository: str, digest: str) -> bool:
        """Tell whether an image is there with all its blobs at their full size."""
        value = digest.partition(":")[2]
        link = self._root / "repositories" / repository / "_manifests" / "revisions" / "sha256" / value / "link"
        try:
            link.stat()
            manifest = json.loads(self.blob_path(digest).read_bytes())
            return all(
                self.blob_path(blob["digest"]).stat().st_size == blob["size"]
                for blob in (manifest["config"], *manifest["layers"])
            )
        except (OSError, ValueError):
            return False

    def keep_only(self, repository: str, manifests: Iterable[Blob]) -> None:
        """Forget the repository's other images, so that a rebuilt image does not cost its size again.

        Blobs of other repositories in the same store are not touched.
        """
        kept = {manifest.digest for manifest in manifests}
        for digest in tuple(kept):
            manifest = json.loads(self.blob_path(digest).read_bytes())
            kept |= {blob["digest"] for blob in (manifest["config"], *manifest["layers"])}
        for link in sorted((self._root / "repositories" / repository).rglob("link")):
            digest = link.read_text(encoding="ascii")
            if digest not in kept:
                shutil.rmtree(link.parent)
                shutil.rmtree(self.blob_path(digest).parent, ignore_errors=True)

    def layers(self, digest: str) -> list[Path]:
        """Return the layer files of an image, lowest first."""
        manifest = json.loads(self.blob_path(digest).read_bytes())
        return [self.blob_path(layer["digest"]) for layer in manifest["layers"]]


def _write_all(sink: IO[bytes], data: bytes) -> None:
    sink.write(data)


def _link(directory: Path, digest: str) -> None:
    """Write the file by which the registry knows that a repository has a blob."""
    algorithm, _, value = digest.partition(":")
    path = directory / algorithm / value / "link"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(digest, encoding="ascii")


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Take away what differs between two builds of the same content."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = EPOCH
    return entry


def layer_of(root: Path, paths: Iterable[str]) -> Callable[[IO[bytes]], None]:
    """Return a writer of a layer with the given paths below ``root``, and everything below those."""
    wanted = frozenset(paths)

    def write(sink: IO[bytes]) -> None:
        with tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 20) as archive:
            for path in _with_parents(wanted):
                archive.add(root / path, arcname=path, recursive=False, filter=_plain)
                if path in wanted:
                    _add_below(archive, root, path)

    return write


def _with_parents(paths: Iterable[str]) -> list[str]:
    """Return the paths and the directories above them, each once, parents first."""
    found: set[str] = set()
    for path in paths:
        parts = path.split("/")
        found.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return sorted(found)


def _add_below(archive: tarfile.TarFile, root: Path, path: str) -> None:
    """Add what is below a directory, in a fixed order."""
    directory = root / path
    if directory.is_symlink() or not directory.is_dir():
        return
    for child in sorted(os.listdir(directory)):
        archive.add(directory / child, arcname=f"{path}/{child}", recursive=False, filter=_plain)
        _add_below(archive, root, f"{path}/{child}")


def whiteouts(paths: Iterable[str]) -> Callable[[IO[bytes]], None]:
    """Return a writer of a layer that takes paths of the layers below away."""
    removed = sorted(paths)

    def write(sink: IO[bytes]) -> None:
        with tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for path in removed:
                directory, name = posixpath.split(path)
                entry = _plain(tarfile.TarInfo(posixpath.join(directory, f".wh.{name}")))
                entry.mode = 0o644
                archive.addfile(entry)

    return write
