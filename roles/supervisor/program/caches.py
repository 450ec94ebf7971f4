# SPDX-License-Identifier: Apache-2.0
"""The directory in which an engine keeps what it compiles: counted, and emptied. Functions that block, for threads."""

from __future__ import annotations

import os
import shutil

MOST_FILES = 50_000
"""Files that are counted: a cache with more of them is not looked through every half minute."""


def count_files(path: str, most: int = MOST_FILES) -> int:
    """How many files there are below a directory, up to `most`; none where it is not there."""
    found = 0
    for _, _, names in os.walk(path):
        found += len(names)
        if found >= most:
            return most
    return found


def empty(path: str) -> str:
    """Throw away what is in a directory, not the directory itself; why that failed, or nothing."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return (
            f"{error.filename or path} cannot be removed ({error.strerror or error}): the start goes on with what was "
            f"compiled earlier; remove {path} yourself where it fails again"
        )
    return ""
