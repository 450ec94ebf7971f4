# SPDX-License-Identifier: Apache-2.0
"""Cache the payloads that Ansible builds from modules, with bytecode, across runs.

Ansible packs every module that a run uses into an archive with everything it imports. It repeats this in every run, and
every host compiles the archive's sources again in every task. Both cost more CPU time than most modules' own work.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import io
import os
import shutil
import stat
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from importlib.util import MAGIC_NUMBER, source_hash
from marshal import dumps
from pathlib import Path
from typing import Any, NamedTuple

# Modules whose sources the fingerprint covers. Payloads of other collections are not cached.
PACKED = ("ansible.modules.", "ansible_collections.firstlight.cluster.plugins.modules.")
# Ansible names its files by module, compression and extensions packed with it, such as debuggers.
WITHOUT_EXTENSIONS = "-none"
PARTS = {"zip_data", "metadata", "source_mapping"}
# Keep the payloads of this many most recently used versions of Ansible and this collection.
VERSIONS = 4
WRITABLE = stat.S_IWGRP | stat.S_IWOTH


def default_store() -> Path:
    """Return the store in the account's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "firstlight" / "payloads"


class Sources(NamedTuple):
    """A fingerprint of the sources that payloads are built from."""

    version: str
    """Digest of the content of every source that could be packed, and of the Ansible and Python that pack it."""
    state: str
    """Digest that changes with every write, even a reverted one: a file's ctime cannot be set."""


def look_at(packer: str, directories: Iterable[Path]) -> Sources:
    """Fingerprint the sources as they are now."""
    version = hashlib.sha256(f"{packer} {sys.implementation.cache_tag} {MAGIC_NUMBER.hex()}".encode())
    state = hashlib.sha256()
    for directory in directories:
        for source in sources(directory):
            found = source.stat()  # before reading, so that a concurrent write shows as a later change
            state.update(f"{found.st_ino} {found.st_ctime_ns}\n".encode())
            content = source.read_bytes()
            version.update(f"\n{source.relative_to(directory)} {len(content)}\n".encode())
            version.update(content)
    return Sources(version.hexdigest()[:32], state.hexdigest())


def sources(directory: Path) -> Iterator[Path]:
    """Yield the Python files below a directory in a stable order."""
    for found, below, files in os.walk(directory):
        below.sort()
        yield from (Path(found, name) for name in sorted(files) if name.endswith(".py"))


@functools.cache
def bytecode(name: str, source: bytes) -> bytes:
    """Compile to an unchecked hash-based .pyc (PEP 552), which other versions of Python ignore."""
    code = compile(source, name, "exec", dont_inherit=True)
    unchecked = (1).to_bytes(4, "little")
    return MAGIC_NUMBER + unchecked + source_hash(source) + dumps(code)


def with_bytecode(archive: bytes) -> bytes:
    """Return the archive with bytecode beside each source, where Python looks first."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as packed, zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as repacked:
        for entry in packed.infolist():
            content = packed.read(entry)
            repacked.writestr(entry, content)
            if entry.filename.endswith(".py"):
                compiled = zipfile.ZipInfo(f"{entry.filename}c", entry.date_time)
                compiled.compress_type = zipfile.ZIP_DEFLATED
                repacked.writestr(compiled, bytecode(entry.filename, content))
    return result.getvalue()


class Payloads:
    """Cached payloads of one version of Ansible and this collection. `form` is Ansible's class for a cached module."""

    def __init__(self, store: Path, look: Callable[[], Sources], form: Any) -> None:
        self.store = store
        self.look = look
        self.sources = look()
        self.directory = store / self.sources.version
        self.form = form

    def restore(self, packed: Path) -> None:
        """Link the payloads of earlier runs into `packed`, where Ansible looks before it builds one."""
        if not self.is_understood() or not self.is_ours():
            return
        packed.mkdir(mode=0o700, parents=True, exist_ok=True)
        for payload in self.directory.iterdir():
            if payload.name.endswith(WITHOUT_EXTENSIONS) and is_own(payload, stat.S_ISREG):
                (packed / payload.name).symlink_to(payload)
        os.utime(self.directory)

    def keep(self, packed: Path) -> None:
        """Store the payloads that this run had to build."""
        if not self.is_understood() or not packed.is_dir():
            return
        new = [payload for payload in packed.iterdir() if is_kept(payload)]
        # After a `git pull` during the run, payloads may come from other sources than were fingerprinted.
        if not new or self.look() != self.sources:
            return
        # One by one: `parents=True` would create the parents with the umask's mode.
        for place in (self.store.parent, self.store, self.directory):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.is_ours():
            return
        for payload in new:
            module = self.form.load(str(payload))
            archive = with_bytecode(base64.b64decode(module.zip_data))
            part = self.directory / f"{payload.name}.{os.getpid()}"
            dataclasses.replace(module, zip_data=base64.b64encode(archive)).dump(str(part))
            with part.open("rb") as written:
                os.fchmod(written.fileno(), 0o600)
                os.fsync(written)  # a power cut could otherwise leave an empty file that every later run reads
            part.rename(self.directory / payload.name)
        self.forget_the_oldest()

    def is_understood(self) -> bool:
        """Return whether Ansible's cached-module class has the expected fields; it is private and may change."""
        return dataclasses.is_dataclass(self.form) and {field.name for field in dataclasses.fields(self.form)} == PARTS

    def is_ours(self) -> bool:
        """Return whether nobody else could have written to the store: Ansible unpickles it, and every host runs it.

        Anyone who can write to a parent directory could replace it.
        """
        try:
            self.directory = self.directory.resolve(strict=True)
        except FileNotFoundError:
            return False
        return is_own(self.directory, stat.S_ISDIR) and all(map(is_closed, self.directory.parents))

    def forget_the_oldest(self) -> None:
        """Delete the least recently used versions; a run that still uses one builds its payloads itself."""
        versions = sorted(self.store.iterdir(), key=lambda directory: directory.stat().st_mtime, reverse=True)
        for directory in versions[VERSIONS:]:
            shutil.rmtree(directory, ignore_errors=True)


def is_own(path: Path, kind: Callable[[int], bool]) -> bool:
    """Return whether a path has this file type, belongs to the effective user, and only its owner can write to it."""
    found = path.lstat()
    return kind(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & WRITABLE


def is_closed(directory: Path) -> bool:
    """Return whether only root and the effective user can replace entries of a directory."""
    found = directory.stat()
    return found.st_uid in (0, os.geteuid()) and bool(not found.st_mode & WRITABLE or found.st_mode & stat.S_ISVTX)


def is_kept(payload: Path) -> bool:
    """Return whether a payload left by Ansible is covered by the fingerprint and not cached yet."""
    name = payload.name
    return name.startswith(PACKED) and name.endswith(WITHOUT_EXTENSIONS) and not payload.is_symlink()
