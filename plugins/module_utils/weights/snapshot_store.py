# SPDX-License-Identifier: Apache-2.0
"""A directory of verified files: its lock, its record, its current content, and how a file gets into it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from ansible_collections.firstlight.cluster.plugins.module_utils.durable import write_durable
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.text import gigabytes
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.hub import (
    Digester,
    RemoteFile,
    check_path,
    total,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot import (
    LOCK_NAME,
    RECORD_NAME,
    parse_record,
)

PIECE = 1 << 20
PARTIAL = ".partial"


class HubError(Exception):
    """An error of the source or the disk, for the operator."""


class Meter:
    """Counts transferred bytes, from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.doing = ""
        self.total = 0
        self.done = 0

    def begin(self, doing: str, total_bytes: int) -> None:
        """Start another part of the work."""
        with self._lock:
            self.doing, self.total, self.done = doing, total_bytes, 0

    def add(self, count: int) -> None:
        """Add transferred bytes; negative if they were discarded."""
        with self._lock:
            self.done += count


def read_record(host: Host, directory: str) -> dict[str, Any]:
    """Return the record of an earlier run, or an empty one if there is no valid record."""
    text = host.read_text(os.path.join(directory, RECORD_NAME))
    with contextlib.suppress(ValueError):
        return parse_record(text or "")
    return {"repository": "", "revision": "", "files": {}}


def write_record(directory: str, record: Mapping[str, Any]) -> None:
    """Write the record atomically and durably."""
    text = json.dumps(record, indent=1, sort_keys=True) + "\n"
    write_durable(os.path.join(directory, RECORD_NAME), text, 0o644)


def make_record(
    host: Host,
    directory: str,
    repository: str,
    revision: str,
    files: Iterable[RemoteFile],
    known: Mapping[str, Any],
    left_out: Iterable[RemoteFile] = (),
) -> dict[str, Any]:
    """Build the record of the verified files.

    `known` are the entries of the last record, `left_out` files that the engine does not load.
    """
    entries = {}
    for item in sorted(files, key=lambda one: one.path):
        found = host.size_and_mtime(os.path.join(directory, item.path))
        if found is None:
            raise HubError(f"{item.path} disappeared from {directory}: keep others out of it")
        if found[0] != item.size:
            raise HubError(
                f"{item.path} has {found[0]} bytes in {directory}, expected {item.size} as the hub "
                "lists it: keep others out of it and run again"
            )
        entry = {"size": found[0], "mtime_ns": found[1], "digest": item.digest}
        entries[item.path] = {**entry, "sha256": _sha256(directory, item, entry, known.get(item.path) or {})}
    out = {item.path: item.size for item in left_out}
    return {"repository": repository, "revision": revision, "files": entries, **({"left_out": out} if out else {})}


def _sha256(directory: str, item: RemoteFile, entry: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a verified file. Only small files have to be read for it, and only once."""
    kind, _, digits = item.digest.partition(":")
    if kind == "sha256":
        return digits
    if known.get("sha256") and all(known.get(name) == value for name, value in entry.items()):
        return str(known["sha256"])
    digester = digest_file(os.path.join(directory, item.path), item)
    if digester is None or not digester.matches(item):
        raise HubError(f"{item.path} changed in {directory} just now: keep others out of it and run again")
    return digester.sha256()


def record_directory(directory: str, repository: str, revision: str, meter: Meter | None = None) -> dict[str, Any]:
    """Hash every file of a directory that was created on this node; write and return its record."""
    paths = sorted(
        os.path.relpath(os.path.join(place, name), directory)
        for place, _, names in os.walk(directory)
        for name in names
        if not name.startswith(".firstlight-") and not name.endswith(PARTIAL)
    )
    if not paths:
        raise HubError(f"{directory} has no files, expected the files to share: put them there first")
    host, files = Host(), []
    for path in paths:
        place = os.path.join(directory, check_path(path))
        digester = Digester("sha256:", 0)
        size = take_in(place, digester, meter)
        files.append(RemoteFile(path, size, digester.result()))
    record = make_record(host, directory, repository, revision, files, {})
    write_record(directory, record)
    return record


def stats(host: Host, directory: str, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return size and modification time of those files that exist.

    Files behind links do not count: an engine sees only this directory, where such a link is dangling.
    """
    root = os.path.realpath(directory)
    found = {
        path: host.size_and_mtime(os.path.join(root, path))
        for path in paths
        if os.path.realpath(os.path.join(root, path)) == os.path.join(root, path)
    }
    return {path: state for path, state in found.items() if state is not None}


def wrong_files(
    directory: str, files: list[RemoteFile], workers: int, meter: Meter | None = None
) -> list[tuple[RemoteFile, str]]:
    """Return the files whose content differs, each with the digest found, or empty if it is missing."""

    def look(item: RemoteFile) -> tuple[RemoteFile, str] | None:
        digester = digest_file(os.path.join(directory, item.path), item, meter)
        if digester is None:
            return item, ""
        return None if digester.matches(item) else (item, digester.result())

    if meter is not None:
        meter.begin("reading", total(files))
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return [found for found in pool.map(look, files) if found is not None]


def check_room(host: Host, directory: str, fetch: list[RemoteFile]) -> None:
    """Raise HubError before the download if the disk is too small for all of it."""
    partial = stats(host, directory, [item.path + PARTIAL for item in fetch])
    needed = total(fetch) - sum(size for size, _ in partial.values())
    free = host.disk_free(directory)
    if needed > free:
        raise HubError(
            f"the model needs {gigabytes(needed)} more below {directory}, {gigabytes(free)} are free: "
            "free space there or choose another model_weights_directory"
        )


def receive(
    item: RemoteFile, partial: str, open_at: Callable[[int], tuple[IO[bytes], int]], meter: Meter | None = None
) -> Digester | None:
    """Append what is missing to the partial file; return its digest once complete, None if the stream broke off.

    `open_at` returns a stream of the file's content and its actual offset, as some servers do not support ranges.
    Raises ValueError if there is more data than the file should have.
    """
    digester = Digester(item.digest, item.size)
    have = _resume(partial, digester, item.size, meter)
    if have == item.size:
        if have == 0:
            with open(partial, "wb"):
                pass
        return digester
    source, offset = open_at(have)
    with contextlib.closing(source):
        if offset != have:
            digester = Digester(item.digest, item.size)
            _count(meter, -have)
            have = 0
        with open(partial, "ab" if have else "wb") as stream:
            while piece := source.read(PIECE):
                have += len(piece)
                if have > item.size:
                    raise ValueError(f"more than the {item.size} bytes it should have")
                stream.write(piece)
                digester.update(piece)
                _count(meter, len(piece))
            stream.flush()
            os.fsync(stream.fileno())
    return digester if have == item.size else None


def put_in_place(partial: str, target: str) -> None:
    """Move a verified file to its final name."""
    os.chmod(partial, 0o644)
    os.replace(partial, target)


def _resume(partial: str, digester: Digester, size: int, meter: Meter | None) -> int:
    """Digest what an earlier run fetched; a partial file that is too large is deleted."""
    try:
        if os.path.getsize(partial) > size:
            remove(partial)
            return 0
        return take_in(partial, digester, meter)
    except FileNotFoundError:
        return 0


def take_in(path: str, digester: Digester, meter: Meter | None = None) -> int:
    """Digest a whole file; return its size."""
    have = 0
    with open(path, "rb") as stream:
        while piece := stream.read(PIECE):
            digester.update(piece)
            have += len(piece)
            _count(meter, len(piece))
    return have


def _count(meter: Meter | None, count: int) -> None:
    if meter is not None:
        meter.add(count)


def remove(path: str) -> None:
    """Remove a file, which may not exist."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def disk_trouble(path: str, directory: str, error: OSError) -> str:
    """Explain that a file cannot be written."""
    return (
        f"{path} cannot be written below {directory} ({error.strerror or error}): check free space and "
        "permissions there; what was fetched is kept and resumed"
    )


def make_directories(directory: str, below: str) -> None:
    """Create a file's directory, world-readable; raises HubError if a link leads outside."""
    place = directory
    for part in ["", *[name for name in below.split("/") if name]]:
        place = os.path.join(place, part) if part else place
        if not os.path.isdir(place):
            os.makedirs(place)
            os.chmod(place, 0o755)  # noqa: S103 - weights are not secret, any user may serve them
    inside = os.path.realpath(directory)
    if os.path.commonpath([inside, os.path.realpath(place)]) != inside:
        raise HubError(f"{place} leads outside {directory} through a link: remove the link")


@contextlib.contextmanager
def only_run(directory: str) -> Iterator[None]:
    """Keep all other runs out of the directory: one whose operator has left may still fetch into it.

    The lock is released with the process that holds it; its file stays, as removing it would let two runs in.
    """
    path = os.path.join(directory, LOCK_NAME)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        # A read-only file system needs no lock, and a complete snapshot on it is as good as any.
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HubError(
                f"another run is still fetching into {directory}, expected only this one: wait for it to end, "
                f"or end it (`fuser {path}` names it), and run again"
            ) from error
        yield
    finally:
        os.close(descriptor)


def digest_file(path: str, item: RemoteFile, meter: Meter | None = None) -> Digester | None:
    """Return the digest of a file on disk in the hub's kind; None if it does not exist."""
    digester = Digester(item.digest, item.size)
    try:
        take_in(path, digester, meter)
    except FileNotFoundError:
        return None
    return digester
