# SPDX-License-Identifier: Apache-2.0
"""Progress notes from long-running tasks to the progress callback.

Tasks run in processes that Ansible forks from the one that prints. Each writes a short text for its host to a file in a
directory created by the printing process, which reads the files when it draws. Without the callback there is no such
directory, and notes are dropped.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile

VARIABLE = "FIRSTLIGHT_PROGRESS_NOTES"


def open_notes() -> str:
    """Create the directory and export its path to all processes forked from now on."""
    directory = tempfile.mkdtemp(prefix="firstlight-notes-")
    os.environ[VARIABLE] = directory
    return directory


def close_notes(directory: str) -> None:
    """Remove the directory."""
    if os.environ.get(VARIABLE) == directory:
        del os.environ[VARIABLE]
    shutil.rmtree(directory, ignore_errors=True)


def note(host: str, words: str) -> None:
    """Set the progress note of a host; an empty text removes it."""
    directory = os.environ.get(VARIABLE, "")
    if not directory:
        return
    path = os.path.join(directory, hashlib.sha256(host.encode()).hexdigest()[:32])
    # A missing note is no reason for a task to fail.
    with contextlib.suppress(OSError):
        if not words:
            os.unlink(path)
            return
        with open(f"{path}.new", "w", encoding="utf-8") as stream:
            json.dump([host, words], stream)
        os.replace(f"{path}.new", path)


def read_notes(directory: str) -> dict[str, str]:
    """Return the latest note of every host."""
    found = {}
    try:
        names = os.listdir(directory)
    except OSError:
        return {}
    for name in names:
        with contextlib.suppress(OSError, ValueError), open(os.path.join(directory, name), encoding="utf-8") as stream:
            host, words = json.load(stream)
            found[str(host)] = str(words)
    return found
