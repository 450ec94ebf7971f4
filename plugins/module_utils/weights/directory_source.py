# SPDX-License-Identifier: Apache-2.0
"""A model's files from a directory of this node: a plain one, one that Firstlight verified, or a Hugging Face cache.

The kind of directory determines what can be verified. A Firstlight record and a Hugging Face cache contain the digest
of every file as the hub listed it. A plain directory can only be checked for its own completeness; its bytes are then
the same on every node.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import IO

from ansible_collections.firstlight.cluster.plugins.module_utils.text import is_hexadecimal
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.file_selection import (
    Selection,
    check_selection,
    select,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.hub import Digester, RemoteFile, check_path
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.model_files import (
    INDEX_ENDING,
    expected_size,
    header_length,
    is_weights,
    missing_shards,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot import RECORD_NAME, parse_record
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot_store import (
    PARTIAL,
    HubError,
    Meter,
    disk_trouble,
    make_directories,
    put_in_place,
    receive,
    remove,
    take_in,
)

METADATA = os.path.join(".cache", "huggingface", "download")
NOT_MODEL = (".cache", ".git", ".huggingface")
LEFT_OVER = (PARTIAL, ".incomplete", ".lock", ".metadata")


@dataclass(frozen=True)
class Place:
    """The directory with the files, and the Hugging Face cache if it is a snapshot of one."""

    root: str
    cache: str = ""


class DirectorySource:
    """One repository at one revision in a directory, with the interface of `HubClient`."""

    def __init__(self, source: str, repository: str, revision: str, selection: Selection | None = None) -> None:
        self.source = source
        self.repository = repository
        self.revision = revision
        self.selection = selection or Selection()
        self.meter = Meter()
        self.notes: list[str] = []
        self._root = source

    def files(self) -> list[RemoteFile]:
        """Return every file of the revision, with the digest it must have."""
        if not os.path.isdir(self.source):
            raise HubError(
                f"model_weights_source is {self.source}, which is not a directory on this node, expected one with the "
                "model's files: mount or copy it there, or omit it to fetch them from the hub"
            )
        place = find_place(self.source, self.repository, self.revision)
        self._root = place.root
        there = _paths(place.root)
        # Unselected files are not read: hashing all weights in another format would waste an hour.
        try:
            paths = check_selection(there, self.selection)
        except ValueError as error:
            raise HubError(f"{place.root}: {error}") from error
        known = self._known_digests(place, paths)
        self._check_complete(paths)
        unknown = [path for path in paths if path not in known]
        if unknown:
            self.notes.append(
                f"{place.root} does not record what the hub lists for {len(unknown)} of {len(paths)} files (such as "
                f"{unknown[0]}): they are used as found, and are verified equal on every node"
            )
            self.meter.begin("reading", sum(os.path.getsize(os.path.join(place.root, path)) for path in unknown))
        out = sorted(set(there) - set(paths))
        return [
            *(self._remote_file(path, known.get(path, "")) for path in paths),
            *(RemoteFile(path, os.path.getsize(os.path.join(place.root, path)), "") for path in out),
        ]

    def fetch(self, item: RemoteFile, directory: str) -> None:
        """Copy a file to its destination, where it appears only once its size and digest are verified."""
        target = os.path.join(directory, item.path)
        make_directories(directory, os.path.dirname(item.path))
        partial = target + PARTIAL
        found = ""
        # Twice: a partial file from an earlier run may be the beginning of another file.
        for _ in range(2):
            try:
                digester = receive(item, partial, lambda have: self._stream(item, have), self.meter)
            except OSError as error:
                raise HubError(disk_trouble(item.path, directory, error)) from error
            except ValueError as error:
                digester, found = None, str(error)
            else:
                if digester is not None and digester.matches(item):
                    put_in_place(partial, target)
                    return
                found = digester.result() if digester is not None else f"fewer than the {item.size} bytes it had"
            remove(partial)
        raise HubError(
            f"{os.path.join(self._root, item.path)} has {found}, expected {item.digest}: the file in the source is "
            "damaged; replace it there, or leave model_weights_source empty to fetch it from the hub"
        )

    def _stream(self, item: RemoteFile, have: int) -> tuple[IO[bytes], int]:
        stream = open(os.path.join(self._root, item.path), "rb")  # noqa: SIM115 - the receiver closes it
        stream.seek(have)
        return stream, have

    def _remote_file(self, path: str, digest: str) -> RemoteFile:
        place = os.path.join(self._root, path)
        if digest:
            return RemoteFile(path, os.path.getsize(place), digest)
        digester = Digester("sha256:", 0)
        return RemoteFile(path, take_in(place, digester, self.meter), digester.result())

    def _known_digests(self, place: Place, paths: list[str]) -> dict[str, str]:
        record = os.path.join(place.root, RECORD_NAME)
        if os.path.exists(record):
            return self._from_record(record, paths)
        if place.cache:
            self.notes += _broken_refs(place.cache)
            return {path: digest for path in paths if (digest := _blob_digest(os.path.join(place.root, path)))}
        found = {}
        for path in paths:
            commit, digest = _download_metadata(place.root, path)
            if commit and commit != self.revision:
                raise HubError(
                    f"{os.path.join(place.root, path)} is of commit {commit}, expected {self.revision}: use a "
                    "directory with that commit, or pin the one it has (firstlight_model_revision)"
                )
            if digest:
                found[path] = digest
        return found

    def _from_record(self, path: str, paths: list[str]) -> dict[str, str]:
        try:
            with open(path, encoding="utf-8") as stream:
                record = parse_record(stream.read())
        except (OSError, ValueError) as error:
            raise HubError(f"{path} cannot be used ({error}): remove it, or copy it again with its files") from error
        if (record["repository"], record["revision"]) != (self.repository, self.revision):
            raise HubError(
                f"{path} is of {record['repository']} at {record['revision']}, expected {self.repository} at "
                f"{self.revision}: use a directory with that revision"
            )
        named = select({*record["files"], *paths}, self.selection)
        lacking = sorted(set(record["files"]).intersection(named) - set(paths))
        if lacking:
            raise HubError(f"{os.path.dirname(path)} lacks {_some(lacking)}, which its record names: copy it again")
        return {name: str(entry["digest"]) for name, entry in record["files"].items() if entry.get("digest")}

    def _check_complete(self, paths: list[str]) -> None:
        if not any(is_weights(path) for path in paths) or "config.json" not in paths:
            raise HubError(
                f"{self._root} has {len(paths)} files but no config.json with weights beside it, expected a model: "
                "check model_weights_source"
            )
        for path in paths:
            place = os.path.join(self._root, path)
            try:
                if path.endswith(INDEX_ENDING):
                    with open(place, encoding="utf-8") as stream:
                        lacking = missing_shards(path, stream.read(), paths)
                    if lacking:
                        raise HubError(
                            f"{self._root} lacks {_some(lacking)}, which {path} names: the download is not complete"
                        )
                elif path.endswith(".safetensors"):
                    _check_safetensors(place)
            except (ValueError, UnicodeDecodeError) as error:
                raise HubError(f"{place} is damaged ({error}), expected a whole file: copy it again") from error


def find_place(source: str, repository: str, revision: str) -> Place:
    """Return the directory with the files: `source`, or the snapshot in the Hugging Face cache there.

    `source` may also be a directory that contains such a cache.
    """
    name = f"models--{repository.replace('/', '--')}"
    for cache in (source, os.path.join(source, name), os.path.join(source, "hub", name)):
        if os.path.isdir(os.path.join(cache, "snapshots")):
            break
    else:
        above = os.path.dirname(os.path.realpath(source))
        if os.path.basename(above) == "snapshots":
            if os.path.basename(os.path.realpath(source)) != revision:
                raise HubError(
                    f"{source} is the snapshot of another commit, expected {revision}: use the directory "
                    f"{os.path.dirname(above)}, where it is looked up"
                )
            return Place(source, os.path.dirname(above))
        return Place(source)
    snapshot = os.path.join(cache, "snapshots", revision)
    if not os.path.isdir(snapshot):
        there = sorted(os.listdir(os.path.join(cache, "snapshots")))
        named = [ref for ref, commit in _refs(cache).items() if commit == revision]
        why = f"refs/{named[0]} names it, so its download was not completed" if named else "no ref names it"
        raise HubError(
            f"{cache} has no snapshot of {revision} ({why}; there: {_some(there) if there else 'none'}), expected that "
            "commit: download it again, or pin one that is there (firstlight_model_revision)"
        )
    return Place(snapshot, cache)


def _refs(cache: str) -> dict[str, str]:
    """Return the refs of a cache (such as main) with their commits."""
    top = os.path.join(cache, "refs")
    found = {}
    for place, _, names in os.walk(top):
        for name in names:
            path = os.path.join(place, name)
            try:
                with open(path, encoding="utf-8") as stream:
                    found[os.path.relpath(path, top)] = stream.read().strip()
            except (OSError, UnicodeDecodeError):
                found[os.path.relpath(path, top)] = ""
    return found


def _broken_refs(cache: str) -> list[str]:
    """Report refs of a cache without a snapshot: offline, an engine given the model's name would not find its files."""
    return [
        f"{cache}/refs/{name} names {commit or 'nothing'}, which has no snapshot: not used here, but an engine "
        "that is given the model by name would not find it offline"
        for name, commit in sorted(_refs(cache).items())
        if not commit or not os.path.isdir(os.path.join(cache, "snapshots", commit))
    ]


def _paths(root: str) -> list[str]:
    """Return every file below `root`, also behind links; raises HubError for dangling links."""
    found, dangling = [], []
    for place, below, names in os.walk(root):
        below[:] = sorted(name for name in below if name not in NOT_MODEL)
        # A link to a directory is listed among the directories, but not followed.
        linked = [name for name in below if os.path.islink(os.path.join(place, name))]
        for name in [*names, *linked]:
            path = os.path.join(place, name)
            if name.startswith(".firstlight-") or name.endswith(LEFT_OVER):
                continue
            if not os.path.isfile(path):
                dangling.append(
                    f"{os.path.relpath(path, root)} -> {os.readlink(path) if os.path.islink(path) else '?'}"
                )
            else:
                found.append(check_path(os.path.relpath(path, root)))
    if dangling:
        raise HubError(
            f"{root} has dangling links: {_some(sorted(dangling))}; expected every file of the model: the "
            "download was not completed or only the links were copied; download it again, or copy it with its blobs"
        )
    return sorted(found)


def _blob_digest(path: str) -> str:
    """Return the digest in a file's blob name in a Hugging Face cache; empty if it is not a link into one."""
    if not os.path.islink(path):
        return ""
    return _digest_of(os.path.basename(os.path.realpath(path)))


def _download_metadata(root: str, path: str) -> tuple[str, str]:
    """Return commit and digest recorded by a download into a plain directory; empty if it recorded none."""
    try:
        with open(os.path.join(root, METADATA, f"{path}.metadata"), encoding="utf-8") as stream:
            lines = [line.strip() for line in stream.read().splitlines()]
    except (OSError, UnicodeDecodeError):
        return "", ""
    if len(lines) < 2 or not is_hexadecimal(lines[0], 40):
        return "", ""
    return lines[0], _digest_of(lines[1].strip('"'))


def _digest_of(name: str) -> str:
    if is_hexadecimal(name, 64):
        return f"sha256:{name}"
    return f"git:{name}" if is_hexadecimal(name, 40) else ""


def _check_safetensors(path: str) -> None:
    """Raises ValueError if a shard is truncated."""
    with open(path, "rb") as stream:
        length = header_length(stream.read(8))
        wanted = expected_size(length, stream.read(length))
    size = os.path.getsize(path)
    if size != wanted:
        raise ValueError(f"it has {size} bytes, its header asks for {wanted}")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
