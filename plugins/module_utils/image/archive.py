# SPDX-License-Identifier: Apache-2.0
"""Find the images in an archive written by `docker save` or another tool, before Docker loads it.

An archive has no registry to vouch for it. The pin says what it must hold: the digest of a manifest in it, or the image
id, which is the digest of its configuration. Docker also loads whatever else is in the archive, under any name, so an
archive with more than the pinned image is refused. So is one that Docker might read differently from us. Everything
here is pure: archive members in, ids out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from ..text import is_hexadecimal

Read = Callable[[str], "bytes | None"]
"""Returns a member of the archive by name; None if it does not exist. Raises ValueError if it is not a document."""
Way = tuple[str, ...]
"""Digests on the path from an archive's index to a configuration; just the configuration if it is listed directly."""

_DEPTH = 4  # nested indexes are legal, but nobody nests deeper
_SAVED = frozenset({"Config", "RepoTags", "Layers", "Parent", "LayerSources"})
_LAYOUT = frozenset({"mediaType", "manifests", "config", "layers", "digest"})


def archive_ids(read: Read, digest: str) -> tuple[list[str], list[str]]:
    """Return the ids under which Docker may list the pinned image, most likely first, and the archive's other images.

    Docker identifies an image by its configuration; with the containerd image store, by its manifest or index. Raises
    ValueError for an archive that cannot be parsed.
    """
    return _split(_ways(read), lambda way: digest in way)


def labelled_ids(read: Read, label: str, value: str) -> tuple[list[str], list[str]]:
    """Do the same for the image whose configuration has a label."""
    configs = {_digest(data): data for data in _configuration_files(read)}

    def carries(way: Way) -> bool:
        data = configs.get(way[-1]) or read(_place(way[-1])) or b""
        return _digest(data) == way[-1] and _labels(data).get(label) == value

    ways = _ways(read)
    found = {way[0] for way in ways if carries(way)}
    return _split(ways, lambda way: way[0] in found)


def _split(ways: list[Way], chosen: Callable[[Way], bool]) -> tuple[list[str], list[str]]:
    """Return the ids of the chosen paths, and the roots of the others. `docker save` lists an image in both indexes."""
    mine = [way for way in ways if chosen(way)]
    configs = {way[-1:] for way in mine}
    others = [way[0] for way in ways if way not in mine and way not in configs]
    return list(dict.fromkeys(one for way in mine for one in reversed(way))), list(dict.fromkeys(others))


def _labels(config: bytes) -> dict[str, Any]:
    try:
        document = json.loads(config)
    except (ValueError, RecursionError):
        return {}
    settings = document.get("config") if isinstance(document, dict) else None
    labels = settings.get("Labels") if isinstance(settings, dict) else None
    return labels if isinstance(labels, dict) else {}


def archive_contents(read: Read) -> list[str]:
    """Return every digest in this archive that a pin could name, for a message."""
    return list(dict.fromkeys(one for way in _ways(read) for one in way))


def not_in_archive(reference: str, path: str, contents: list[str]) -> str:
    """Return the message for an archive of a different image."""
    return (
        f"archive {path} holds {listed(contents)}, expected "
        f"{reference.partition('@')[2]}: save the pinned image, or pin this one: firstlight_image is NAME@ the "
        "manifest's digest, or NAME@ the image's id, as `docker image inspect --format {{.Id}}` shows it where it was "
        "saved"
    )


def more_in_archive(reference: str, path: str, others: list[str]) -> str:
    """Return the message for an archive from which Docker would load more than the pinned image."""
    return (
        f"archive {path} holds {listed(others)} besides {reference.partition('@')[2]}, expected that image alone: "
        "Docker would load all of it; nothing was loaded. Save the pinned image by itself, or pin the digest of the "
        "whole index"
    )


def listed(digests: list[str]) -> str:
    """Format digests for a message."""
    more = f" and {len(digests) - 4} more" if len(digests) > 4 else ""
    return ", ".join(digests[:4]) + more or "no image that can be read"


def _ways(read: Read) -> list[Way]:
    """Return every image that Docker could load, from both indexes: which one it reads depends on release and store."""
    saved: list[Way] = [(_digest(data),) for data in _configuration_files(read)]
    index = read("index.json")
    if index is None:
        return saved
    document = _json(index, _LAYOUT)
    entries = document.get("manifests") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError("its index.json lists no manifests")
    return saved + [way for entry in entries for way in _below(read, entry, _DEPTH, must=True)]


def _configuration_files(read: Read) -> list[bytes]:
    """Read the configurations that manifest.json names."""
    data = read("manifest.json")
    if data is None:
        if read("repositories") is not None:
            raise ValueError("nothing in this kind of archive can be compared with a digest")
        return []
    listed = _json(data, _SAVED)
    entries = listed if isinstance(listed, list) else [None]
    found = [read(str(entry.get("Config"))) if isinstance(entry, dict) else None for entry in entries]
    if None in found:
        raise ValueError("its manifest.json names an image without a configuration")
    return [data for data in found if data is not None]


def _below(read: Read, entry: Any, depth: int, must: bool = False) -> list[Way]:
    """Return every path below an index entry. What the archive lacks is skipped, unless it `must` be there."""
    digest = entry.get("digest") if isinstance(entry, dict) else None
    if not depth or not isinstance(digest, str) or not is_hexadecimal(digest.removeprefix("sha256:"), 64):
        raise ValueError("its index names an image by something other than a SHA-256, or nests too deep")
    data = read(_place(digest))
    if data is None and not must:
        return []
    if data is None or _digest(data) != digest:
        raise ValueError(f"{digest}, which its index names, is missing or has different bytes")
    document = _json(data, _LAYOUT)
    config, entries = (document.get(key) if isinstance(document, dict) else None for key in ("config", "manifests"))
    if isinstance(config, dict) and entries is None:
        return [(digest, str(config.get("digest")))]
    if config is None and isinstance(entries, list):
        return [(digest, *way) for one in entries for way in _below(read, one, depth - 1)]
    raise ValueError(f"{digest}, which its index names, is neither a manifest nor an index")


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/', 1)}"


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _json(data: bytes, known: frozenset[str]) -> Any:
    """Parse JSON; refuse what Docker could read differently: it takes `CONFIG` for `Config`, and the last duplicate."""

    def checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = {key.casefold() for key in known}
        twice = len({key.casefold() for key, _ in pairs}) != len(pairs)
        if twice or any(key.casefold() in names and key not in known for key, _ in pairs):
            raise ValueError("a document in it has a field that can be read in two ways")
        return dict(pairs)

    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=checked)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError("a document in it is not JSON") from error
