# SPDX-License-Identifier: Apache-2.0
"""A model's files as a hub that stores them with git and git LFS would list them.

The product verifies what it downloads against the hub's own listing: plain files by their git blob hash, large files by
the SHA-256 that LFS records. The lab's hub stand-in serves the listing made here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LFS_SUFFIXES = frozenset({".safetensors", ".pth", ".gguf"})
INDEX = "tree.json"


def git_blob(data: bytes) -> str:
    """Return git's name for a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def lfs_pointer(sha256: str, size: int) -> bytes:
    """Return the small file that git stores in place of a large one."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


def entry(path: str, data: bytes) -> dict[str, Any]:
    """Describe one file as the hub does."""
    if Path(path).suffix not in LFS_SUFFIXES:
        return {"type": "file", "oid": git_blob(data), "size": len(data), "path": path}
    sha256 = hashlib.sha256(data).hexdigest()
    pointer = lfs_pointer(sha256, len(data))
    return {
        "type": "file",
        "oid": git_blob(pointer),
        "size": len(data),
        "lfs": {"oid": sha256, "size": len(data), "pointerSize": len(pointer)},
        "path": path,
    }


def listing(directory: Path) -> list[dict[str, Any]]:
    """List the files of a model, wherever they are below a directory, in the hub's shape."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != INDEX)
    return [entry(path.relative_to(directory).as_posix(), path.read_bytes()) for path in paths]


def revision(entries: Iterable[dict[str, Any]]) -> str:
    """Return a revision that follows from the content alone: the hash of these files' git tree, in one directory."""
    body = b"".join(
        b"100644 " + item["path"].encode() + b"\0" + bytes.fromhex(item["oid"])
        for item in sorted(entries, key=lambda item: str(item["path"]))
    )
    return hashlib.sha1(b"tree %d\0" % len(body) + body, usedforsecurity=False).hexdigest()
