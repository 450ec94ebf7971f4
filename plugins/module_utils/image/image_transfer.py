# SPDX-License-Identifier: Apache-2.0
"""An image as a file for other nodes to fetch: write it with its record, check the space for it, and remove it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from typing import Any

from ..host import Host
from ..weights.snapshot import RECORD_NAME, parse_record, verify_record
from ..weights.snapshot_store import record_directory
from .image import is_local_name, needed_bytes, no_room
from .store import ImageError, data_root, identity, inspect, save

REPOSITORY = "firstlight/image"
FILE = "image.tar"
TRANSFER = "/var/lib/firstlight/transfer"


def revision_of(image_id: str) -> str:
    """Shorten the image id to the length of a revision."""
    return image_id.partition(":")[2][:40]


def is_verified(host: Host, directory: str, revision: str) -> bool:
    """Whether an earlier run wrote the archive of exactly this image, and it has not been touched since."""
    try:
        record = parse_record(host.read_text(os.path.join(directory, RECORD_NAME)) or "")
    except ValueError:
        return False
    right = (record["repository"], record["revision"], list(record["files"])) == (REPOSITORY, revision, [FILE])
    return right and verify_record(record, lambda path: host.size_and_mtime(os.path.join(directory, path)))[0]


def write(host: Host, name: str, directory: str, check_mode: bool) -> dict[str, Any]:
    """Write the archive of an image on this host."""
    entry = inspect(host, name, check_mode)
    if entry is None:
        if check_mode:
            return {"changed": True, "revision": ""}
        raise ImageError(f"image {name} is not on this host, so it cannot be passed on: obtain it here first")
    revision = revision_of(identity(entry))
    if is_verified(host, directory, revision):
        return {"changed": False, "revision": revision}
    needed = int(entry.get("Size") or 0)
    refusal = no_room(name, directory, needed_bytes(needed), host.disk_free(directory))
    if refusal:
        raise ImageError(refusal)
    if not check_mode:
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory, mode=0o700)
        save(host, name, os.path.join(directory, FILE))
        record_directory(directory, repository=REPOSITORY, revision=revision)
    return {"changed": True, "revision": revision}


def expect(host: Host, name: str, directory: str, size_bytes: int, check_mode: bool) -> dict[str, Any]:
    """Check the space for an incoming archive and its image, less what an interrupted run has already fetched."""
    there = host.disk_used(directory)
    root = data_root(host)
    needed = needed_bytes(size_bytes, archived=True) - there
    refusal = no_room(name, root, needed, host.disk_free(root)) or no_room(
        name, directory, size_bytes - there, host.disk_free(directory)
    )
    if refusal and not check_mode:
        raise ImageError(refusal)
    made = not os.path.isdir(directory)
    if made and not check_mode:
        os.makedirs(directory, mode=0o700)
    return {"changed": made, "revision": ""}


def remove_others(root: str, directory: str) -> None:
    """Remove archives of other images, left by runs that were interrupted."""
    for name in os.listdir(root) if os.path.isdir(root) else []:
        if name.startswith("sha256-") and os.path.join(root, name) != directory:
            shutil.rmtree(os.path.join(root, name), ignore_errors=True)


def keep_archive(host: Host, parameters: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the transfer directory into the requested state."""
    name, state, root = parameters["name"], parameters["state"], parameters["transfer"]
    if not is_local_name(name):
        # Its tag becomes the name of a directory, which is also removed.
        raise ImageError(
            f"name is {name!r}, expected one like firstlight/engine:sha256-<64 digits>: use the local name"
        )
    directory = os.path.join(root, name.partition(":")[2])
    before = host.names(directory)
    if not check_mode:
        remove_others(root, directory)
    if state == "unarchived":
        result = {"changed": os.path.isdir(directory), "revision": ""}
        if result["changed"] and not check_mode:
            shutil.rmtree(directory)
            with contextlib.suppress(OSError):
                os.rmdir(root)
    elif state == "receiving":
        result = expect(host, name, directory, parameters["size_bytes"], check_mode)
    else:
        result = write(host, name, directory, check_mode)
    path = os.path.join(directory, FILE)
    after = host.names(directory) if not check_mode else before if state != "unarchived" else []
    return {
        **result,
        "directory": directory,
        "path": path,
        "repository": REPOSITORY,
        "bytes": (host.size_and_mtime(path) or (0, 0))[0],
        "diff": {"before": "".join(f"{one}\n" for one in before), "after": "".join(f"{one}\n" for one in after)},
    }
