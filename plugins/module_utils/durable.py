# SPDX-License-Identifier: Apache-2.0
"""Files that survive a power cut: written atomically, with their directory entries synced before anybody relies on
them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from .host import write_file


def sync_directory(path: str) -> None:
    """Flush the entries of a directory to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold an exclusive lock on a directory; block until it is free."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_durable(path: str, content: str | bytes, mode: int) -> None:
    """Replace a file atomically; when this returns, the file survives a power cut."""
    write_file(path, content, mode)
    sync_directory(os.path.dirname(path) or ".")


def remove_durable(path: str) -> bool:
    """Remove a file durably; return whether it existed."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    sync_directory(os.path.dirname(path) or ".")
    return True
