# SPDX-License-Identifier: Apache-2.0
"""How a task that runs for long tells the progress callback how far it is.

Tasks run in processes that Ansible forks from the one that prints. Each writes a few words for its host into a file of
a directory that the printing process made; that one reads them when it draws. Without the callback there is no such
directory, and the words go nowhere.
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
    """Make the directory and name it to all processes that are forked from now on."""
    directory = tempfile.mkdtemp(prefix="firstlight-notes-")
    os.environ[VARIABLE] = directory
    return directory


def close_notes(directory: str) -> None:
    """Remove the directory."""
    if os.environ.get(VARIABLE) == directory:
        del os.environ[VARIABLE]
    shutil.rmtree(directory, ignore_errors=True)


def note(host: str, words: str) -> None:
    """Say how far a host is; no words take back what was said."""
    directory = os.environ.get(VARIABLE, "")
    if not directory:
        return
    path = os.path.join(directory, hashlib.sha256(host.encode()).hexdigest()[:32])
    # A word less on the screen is no reason for a task to fail.
    with contextlib.suppress(OSError):
        if not words:
            os.unlink(path)
            return
        with open(f"{path}.new", "w", encoding="utf-8") as stream:
            json.dump([host, words], stream)
        os.replace(f"{path}.new", path)


def read_notes(directory: str) -> dict[str, str]:
    """What every host last said."""
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
