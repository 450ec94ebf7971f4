# SPDX-License-Identifier: Apache-2.0
"""A pool of packages kept on the host and shared by all sets, so that a move and its rollback need no repository.

A file gets its final name only once it is complete, verified and synced to disk. What an interrupted run left is in a
separate directory, which the next run removes.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..durable import sync_directory, write_durable
from ..host import Host
from ..parsers.apt import parse_records
from ..text import gigabytes

STORE = "/var/lib/firstlight/debs"
ARCHIVES = "/var/cache/apt/archives"
INDEX = "index.json"
_PARTIAL = ".partial-"
_FIELDS = "Package,Version,Architecture,Installed-Size"


class StoreError(Exception):
    """Why packages cannot be kept, in one message."""


@dataclass(frozen=True)
class Deb:
    """A kept package."""

    package: str
    version: str
    file: str
    sha256: str
    size: int
    installed_size: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the entry for the journal, which is keyed by file name."""
        return {"package": self.package, "version": self.version, "sha256": self.sha256, "size": self.size}


Wanted = tuple[str, str]
"""A package and its version."""


def file_start(package: str, version: str) -> str:
    """Return the start of the package's file name as apt writes it, with the epoch's colon escaped."""
    return f"{package}_{version.replace(':', '%3a')}_"


def read_index(directory: str) -> dict[str, str]:
    """Return the digests of kept files by name; empty if the index is missing or invalid."""
    try:
        with open(os.path.join(directory, INDEX), encoding="utf-8") as stream:
            document = json.load(stream)
    except (OSError, ValueError):
        return {}
    return {str(name): str(digest) for name, digest in document.items()} if isinstance(document, dict) else {}


def remember(directory: str, digests: Mapping[str, str]) -> None:
    """Add digests of kept files to the index, and drop those of files that no longer exist."""
    index = read_index(directory)
    there = set(_names(directory))
    new = {name: digest for name, digest in sorted({**index, **digests}.items()) if name in there}
    if new != index:
        write_durable(os.path.join(directory, INDEX), json.dumps(new, indent=1) + "\n", 0o644)


class Store:
    """The pool of one host."""

    def __init__(self, host: Host, directory: str = STORE, archives: str = ARCHIVES) -> None:
        self.host = host
        self.directory = directory
        self.archives = archives

    def path(self, name: str) -> str:
        """Return the path of a file of the pool."""
        return os.path.join(self.directory, name)

    # -- reading --------------------------------------------------------------------------------------------------

    def require_own(self) -> None:
        """Raise StoreError if anyone but root could put a package here, because its packages are installed as root."""
        trusted = (0, os.geteuid())
        for path in (os.path.dirname(self.directory), self.directory):
            try:
                found = os.stat(path)
            except FileNotFoundError:
                continue
            if found.st_uid not in trusted or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise StoreError(
                    f"{path} belongs to user {found.st_uid} and has mode {stat.S_IMODE(found.st_mode):04o}, expected "
                    f"it owned by root and writable by root alone: what {self.directory} keeps is installed as root. "
                    f"Check what is in it, run `chown root:root {path}` and `chmod 0755 {path}`, and run again"
                )

    def find(self, wanted: Iterable[Wanted]) -> dict[Wanted, Deb]:
        """Return those packages that are kept with the digest in the index. A file that has changed since is removed.

        A file without a digest was put here by hand, or by a run that was interrupted just then; see `adopt`.
        """
        self.require_own()
        known = self._index()
        names = [name for name in _names(self.directory) if name in known]
        found: dict[Wanted, Deb] = {}
        for package, version in wanted:
            for name in _matching(names, package, version):
                deb = self._read(self.path(name), package, version)
                if deb is None or known[name] != deb.sha256:
                    with contextlib.suppress(OSError):
                        os.unlink(self.path(name))
                    continue
                found[package, version] = deb
                break
        return found

    def adopt(self, wanted: Iterable[Wanted], digests: Mapping[Wanted, str]) -> dict[Wanted, Deb]:
        """Return files that are not in the index but match the digests from a repository's signed lists."""
        self.require_own()
        known = self._index()
        names = [name for name in _names(self.directory) if name not in known]
        found: dict[Wanted, Deb] = {}
        for pair in wanted:
            for name in _matching(names, *pair) if pair in digests else []:
                deb = self._read(self.path(name), *pair)
                if deb is not None and deb.sha256 == digests[pair]:
                    found[pair] = deb
                    break
        return found

    def broken(self, debs: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Report which of these kept files are missing or have changed, one sentence each."""
        wrong = []
        if debs:
            self.require_own()
        for name, want in sorted(debs.items()):
            try:
                digest = self.host.sha256(self.path(name))
            except OSError as error:
                wrong.append(f"{name} cannot be read ({error.strerror})")
                continue
            if digest != want["sha256"]:
                wrong.append(f"{name} has SHA-256 {digest[:12]}, expected {want['sha256'][:12]}")
        return wrong

    def controls(self, names: Iterable[str]) -> list[str]:
        """Return the control files of these kept packages."""
        found = []
        for name in names:
            result = self.host.run(["dpkg-deb", "--field", self.path(name)], 60)
            if not result.ok:
                raise StoreError(
                    f"{self.path(name)} cannot be read as a package: {result.summary}. Remove it and fetch"
                )
            found.append(result.stdout)
        return found

    # -- storing --------------------------------------------------------------------------------------------------

    def require_room(self, needed: int, words: str) -> int:
        """Return the free bytes at the pool; raises StoreError if they are fewer than needed."""
        free = self.host.disk_free(self.directory)
        if free < needed:
            raise StoreError(
                f"{words} needs {needed} bytes ({gigabytes(needed)}) at {self.directory}, where {free} bytes "
                f"({gigabytes(free)}) are free. Nothing was changed. Make room there and run again"
            )
        return free

    def cached(self, wanted: Sequence[Wanted], digests: Mapping[Wanted, str]) -> dict[Wanted, tuple[str, int]]:
        """Return path and size of the packages in apt's own cache, checked against the repository's digest if known."""
        found = {}
        names = _names(self.archives)
        for pair in wanted:
            for name in _matching(names, *pair):
                there = os.path.join(self.archives, name)
                deb = self._read(there, *pair)
                if deb is None or digests.get(pair, deb.sha256) != deb.sha256:
                    continue
                if pair in digests or self.host.run(["dpkg-deb", "--contents", there], 300).ok:
                    found[pair] = (there, deb.size)
                    break
        return found

    def collect(self, cached: Mapping[Wanted, tuple[str, int]], digests: Mapping[Wanted, str]) -> list[Deb]:
        """Copy the packages that `cached` found into the pool."""
        kept: list[Deb] = []
        for pair, (there, _) in cached.items():
            with self.incoming() as scratch:
                shutil.copyfile(there, os.path.join(scratch, os.path.basename(there)))
                kept += self.keep(scratch, [pair], digests)
        return kept

    @contextlib.contextmanager
    def incoming(self) -> Iterator[str]:
        """Create a temporary download directory on the pool's file system; it is always removed afterwards."""
        self._make()
        self.require_own()
        directory = tempfile.mkdtemp(prefix=_PARTIAL, dir=self.directory)
        try:
            os.chmod(directory, 0o755)  # noqa: S103 - apt fetches as its own user
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def keep(self, directory: str, wanted: Sequence[Wanted], digests: Mapping[Wanted, str]) -> list[Deb]:
        """Move verified files from a directory of `incoming` into the pool; others are left there to be removed."""
        kept = []
        names = _names(directory)
        for package, version in wanted:
            for name in _matching(names, package, version):
                there = os.path.join(directory, name)
                deb = self._read(there, package, version)
                if deb is None or digests.get((package, version), deb.sha256) != deb.sha256:
                    continue
                os.chmod(there, 0o644)
                os.chown(there, os.geteuid(), os.getegid())
                _sync_file(there)
                os.replace(there, self.path(name))
                kept.append(deb)
                break
        if kept:
            sync_directory(self.directory)
            self.note(kept)
        return kept

    def note(self, debs: Iterable[Deb]) -> None:
        """Add the digests of files that are already kept to the index."""
        remember(self.directory, {deb.file: deb.sha256 for deb in debs})

    def sweep(self) -> None:
        """Remove what interrupted runs left behind."""
        for name in _names(self.directory):
            if name.startswith((_PARTIAL, ".firstlight-")):
                path = self.path(name)
                shutil.rmtree(path, ignore_errors=True)
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def _make(self) -> None:
        os.makedirs(self.directory, mode=0o755, exist_ok=True)

    def _read(self, path: str, package: str, version: str) -> Deb | None:
        """Read a package file; None unless the name and version inside it are these."""
        result = self.host.run(["dpkg-deb", "--field", path, *_FIELDS.split(",")], 60)
        records = parse_records(result.stdout) if result.ok else []
        if not records or (records[0]["Package"], records[0].get("Version")) != (package, version):
            return None
        try:
            digest, size = self.host.sha256(path), os.stat(path).st_size
        except OSError:
            return None
        kibibytes = records[0].get("Installed-Size", "0")
        inside = int(kibibytes) * 1024 if kibibytes.isdecimal() else 0
        return Deb(package, version, os.path.basename(path), digest, size, inside)

    def _index(self) -> dict[str, str]:
        return read_index(self.directory)


def _disk_words(error: OSError, directory: str) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{directory} is full. The unfinished file was removed. Make room and run again"
    return f"Packages cannot be kept in {directory}: {error.strerror}. Make it writable for root and run again"


def disk_error(error: OSError, directory: str) -> StoreError:
    """Convert an error of the file system to a StoreError."""
    return StoreError(_disk_words(error, directory))


def _matching(names: Iterable[str], package: str, version: str) -> list[str]:
    start = file_start(package, version)
    return [name for name in names if name.startswith(start) and name.endswith(".deb")]


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _sync_file(path: str) -> None:
    with open(path, "rb") as stream:
        os.fsync(stream.fileno())
