# SPDX-License-Identifier: Apache-2.0
"""Count and empty the directory in which an engine caches what it compiles. The functions block, so run them in
threads."""

from __future__ import annotations

import os
import shutil

MOST_FILES = 50_000
"""The most files to count: a larger cache is not walked completely every half minute."""


def count_files(path: str, most: int = MOST_FILES) -> int:
    """Count the files below a directory, up to `most`; 0 if it does not exist."""
    found = 0
    for _, _, names in os.walk(path):
        found += len(names)
        if found >= most:
            return most
    return found


def empty(path: str) -> str:
    """Delete the content of a directory, but not the directory itself; return an error message, or an empty string."""
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
            f"{error.filename or path} cannot be removed ({error.strerror or error}): the start continues with the "
            f"old compile cache; remove {path} yourself if it fails again"
        )
    return ""
