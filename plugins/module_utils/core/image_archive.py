# SPDX-License-Identifier: Apache-2.0
"""Which image is in an archive that `docker save` or another tool wrote, before Docker is asked to load it.

An archive has no registry to vouch for it. What it must hold is said by the pin: the digest of a manifest in it, or
the id of the image, which is the digest of its configuration. Everything here is pure: members in, ids out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

Read = Callable[[str], "bytes | None"]
"""Gives a member of the archive by its name; None when there is none."""

_DEPTH = 4  # an index of indexes is legal; nobody nests deeper


def archive_ids(read: Read, digest: str) -> list[str]:
    """Ids under which Docker may list the pinned image once it is loaded, the likeliest first; empty when it is not in.

    Docker names an image by its configuration, with the containerd image store by its manifest or index.
    """
    plain = [f"sha256:{config}" for config in _configurations(read)]
    if digest in plain:
        return [digest]
    for chain in _chains(read, _json(read("index.json")), (), _DEPTH):
        if digest in chain:
            return list(dict.fromkeys([*reversed(chain), digest]))
    return []


def labelled_ids(read: Read, label: str, value: str) -> list[str]:
    """Ids under which Docker may list the image of an archive that carries a label; empty when none does."""
    ways: list[tuple[str, ...]] = [(f"sha256:{one}",) for one in _configurations(read)]
    blobs = {f"sha256:{hashlib.sha256(data).hexdigest()}": data for data in _configuration_files(read)}
    for chain in _chains(read, _json(read("index.json")), (), _DEPTH):
        data = read(f"blobs/{chain[-1].replace(':', '/', 1)}")
        if data is not None and f"sha256:{hashlib.sha256(data).hexdigest()}" == chain[-1]:
            ways.append(chain)
            blobs[chain[-1]] = data
    found = [way for way in ways if _labels(blobs.get(way[-1], b"")).get(label) == value]
    return list(dict.fromkeys(one for way in found for one in reversed(way)))


def _labels(config: bytes) -> dict[str, Any]:
    document = _json(config)
    settings = document.get("config") if isinstance(document, dict) else None
    labels = settings.get("Labels") if isinstance(settings, dict) else None
    return labels if isinstance(labels, dict) else {}


def archive_contents(read: Read) -> list[str]:
    """What a digest could have named in this archive, for a message."""
    chains = _chains(read, _json(read("index.json")), (), _DEPTH)
    return list(
        dict.fromkeys(
            [*(one for chain in chains for one in chain), *(f"sha256:{one}" for one in _configurations(read))]
        )
    )


def not_in_archive(reference: str, path: str, contents: list[str]) -> str:
    """The message for an archive of another image."""
    listed = ", ".join(contents[:4]) + (f" and {len(contents) - 4} more" if len(contents) > 4 else "")
    return (
        f"archive {path} holds {listed or 'no image that can be read'}, expected {reference.partition('@')[2]}: "
        "save the pinned image, or pin this one: firstlight_image is NAME@ the manifest's digest, or NAME@ the "
        "image's id, as `docker image inspect --format {{.Id}}` shows it where it was saved"
    )


def _configurations(read: Read) -> list[str]:
    """Digests of the configurations that manifest.json names, each proven by its own bytes."""
    return [hashlib.sha256(data).hexdigest() for data in _configuration_files(read)]


def _configuration_files(read: Read) -> list[bytes]:
    """The configurations that manifest.json names."""
    listed = _json(read("manifest.json"))
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    found = (read(str(entry.get("Config"))) for entry in entries)
    return [data for data in found if data is not None]


def _chains(read: Read, index: Any, above: tuple[str, ...], depth: int) -> list[tuple[str, ...]]:
    """Every way from the index down to a configuration, as digests; what does not have its digest is no part of one."""
    found: list[tuple[str, ...]] = []
    entries = index.get("manifests") if isinstance(index, dict) else None
    for entry in entries if isinstance(entries, list) and depth else []:
        digest = str(entry.get("digest")) if isinstance(entry, dict) else ""
        data = read(f"blobs/{digest.replace(':', '/', 1)}")
        if data is None or f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
            continue
        document = _json(data)
        config = document.get("config") if isinstance(document, dict) else None
        if isinstance(config, dict):
            found.append((*above, digest, str(config.get("digest"))))
        else:
            found += _chains(read, document, (*above, digest), depth - 1)
    return found


def _json(data: bytes | None) -> Any:
    try:
        return json.loads(data or b"")
    except ValueError:
        return None
