# SPDX-License-Identifier: Apache-2.0
"""Keeps what Ansible packs of a module for the hosts, with its bytecode, from run to run.

Ansible packs every module that a run uses into one archive, with all that it imports. It does so anew in every run, and
every host compiles the archive's sources anew in every task. Both cost more processor time than most modules' own work.
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

# Whose sources the fingerprint covers. What a run packs of other collections is not kept.
PACKED = ("ansible.modules.", "ansible_collections.firstlight.cluster.plugins.modules.")
# As Ansible names its files: module, compression, and the debuggers and the like that are packed with it.
WITHOUT_EXTENSIONS = "-none"
PARTS = {"zip_data", "metadata", "source_mapping"}
# Of that many versions of Ansible and this collection, those used last.
VERSIONS = 4
WRITABLE = stat.S_IWGRP | stat.S_IWOTH


def default_store() -> Path:
    """Where this account keeps what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "firstlight" / "payloads"


class Sources(NamedTuple):
    """What payloads are packed of."""

    version: str
    """Every source that could be packed, byte by byte, and who packs and compiles it."""
    state: str
    """Another one after every write, also after one that was taken back: nobody can set when a file was changed."""


def look_at(packer: str, directories: Iterable[Path]) -> Sources:
    """The sources as they are now."""
    version = hashlib.sha256(f"{packer} {sys.implementation.cache_tag} {MAGIC_NUMBER.hex()}".encode())
    state = hashlib.sha256()
    for directory in directories:
        for source in sources(directory):
            found = source.stat()  # first: what is written while it is read counts as written afterwards
            state.update(f"{found.st_ino} {found.st_ctime_ns}\n".encode())
            content = source.read_bytes()
            version.update(f"\n{source.relative_to(directory)} {len(content)}\n".encode())
            version.update(content)
    return Sources(version.hexdigest()[:32], state.hexdigest())


def sources(directory: Path) -> Iterator[Path]:
    """The Python files below a directory, always in the same order."""
    for found, below, files in os.walk(directory):
        below.sort()
        yield from (Path(found, name) for name in sorted(files) if name.endswith(".py"))


@functools.cache
def bytecode(name: str, source: bytes) -> bytes:
    """As Python keeps it, to be taken without a look at the source (PEP 552). Other versions of Python pass it over."""
    code = compile(source, name, "exec", dont_inherit=True)
    unchecked = (1).to_bytes(4, "little")
    return MAGIC_NUMBER + unchecked + source_hash(source) + dumps(code)


def with_bytecode(archive: bytes) -> bytes:
    """The same archive; each source has its bytecode beside it, where Python looks first."""
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
    """Those of one version of Ansible and of this collection. `form` is the class of what is in Ansible's files."""

    def __init__(self, store: Path, look: Callable[[], Sources], form: Any) -> None:
        self.store = store
        self.look = look
        self.sources = look()
        self.directory = store / self.sources.version
        self.form = form

    def restore(self, packed: Path) -> None:
        """Give a run what earlier ones have packed. `packed` is where Ansible looks before it packs."""
        if not self.is_understood() or not self.is_ours():
            return
        packed.mkdir(mode=0o700, parents=True, exist_ok=True)
        for payload in self.directory.iterdir():
            if payload.name.endswith(WITHOUT_EXTENSIONS) and is_own(payload, stat.S_ISREG):
                (packed / payload.name).symlink_to(payload)
        os.utime(self.directory)

    def keep(self, packed: Path) -> None:
        """Keep what a run had to pack by itself."""
        if not self.is_understood() or not packed.is_dir():
            return
        new = [payload for payload in packed.iterdir() if is_kept(payload)]
        # What was packed after a `git pull` is of other sources than those that were looked at.
        if not new or self.look() != self.sources:
            return
        # One by one: `parents` would make those above with whatever mode the umask leaves.
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
                os.fsync(written)  # or a power cut leaves an empty file under the name that every later run reads
            part.rename(self.directory / payload.name)
        self.forget_the_oldest()

    def is_understood(self) -> bool:
        """Whether this Ansible's files are what they were when this was written. They are its own affair."""
        return dataclasses.is_dataclass(self.form) and {field.name for field in dataclasses.fields(self.form)} == PARTS

    def is_ours(self) -> bool:
        """Whether nobody else could have put anything there: it is code for every host, and Ansible unpickles it.

        Whoever can write to a directory above it can put another one in its place.
        """
        try:
            self.directory = self.directory.resolve(strict=True)
        except FileNotFoundError:
            return False
        return is_own(self.directory, stat.S_ISDIR) and all(map(is_closed, self.directory.parents))

    def forget_the_oldest(self) -> None:
        """A run that still uses one of them packs its modules by itself."""
        versions = sorted(self.store.iterdir(), key=lambda directory: directory.stat().st_mtime, reverse=True)
        for directory in versions[VERSIONS:]:
            shutil.rmtree(directory, ignore_errors=True)


def is_own(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether this is of that kind, and its owner, who runs this, alone can write to it."""
    found = path.lstat()
    return kind(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & WRITABLE


def is_closed(directory: Path) -> bool:
    """Whether only root and who runs this can put something else in the place of what is in a directory."""
    found = directory.stat()
    return found.st_uid in (0, os.geteuid()) and bool(not found.st_mode & WRITABLE or found.st_mode & stat.S_ISVTX)


def is_kept(payload: Path) -> bool:
    """Whether the fingerprint says all about a file that Ansible left, and it is not kept yet."""
    name = payload.name
    return name.startswith(PACKED) and name.endswith(WITHOUT_EXTENSIONS) and not payload.is_symlink()
