# SPDX-License-Identifier: Apache-2.0
"""Files that survive a power cut: written whole, and their names on disk before anybody relies on them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from .host import write_file


def sync_directory(path: str) -> None:
    """Put the names in a directory on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Be the only one who does this about what is in a directory; whoever comes second waits."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_durable(path: str, content: str | bytes, mode: int) -> None:
    """Put a file in place in one step; when this returns, it is there also after a power cut."""
    write_file(path, content, mode)
    sync_directory(os.path.dirname(path) or ".")


def remove_durable(path: str) -> bool:
    """Remove a file so that it stays away; whether it was there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    sync_directory(os.path.dirname(path) or ".")
    return True
