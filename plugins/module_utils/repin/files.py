# SPDX-License-Identifier: Apache-2.0
"""The configuration files of a move: record their original state, write those of the new set, and restore them."""

from __future__ import annotations

import base64
import glob
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from typing import Any

from ..durable import remove_durable, write_durable
from ..host import Host

SECRETS = "/etc/firstlight"
_GLOB = frozenset("*?[")


class FilesError(Exception):
    """Why files cannot be recorded or written, in one message."""


def is_pattern(path: str) -> bool:
    """Whether this path is a glob pattern."""
    return any(character in _GLOB for character in path)


def expand(paths: Iterable[str]) -> list[str]:
    """Return the paths, with patterns replaced by the files that currently match them."""
    found: set[str] = set()
    for path in paths:
        found.update(glob.glob(path) if is_pattern(path) else [path])
    return sorted(found)


def record(paths: Iterable[str]) -> tuple[dict[str, dict[str, Any] | None], dict[str, str]]:
    """Record content, mode and owner of each file, None for a missing one; private contents are returned separately.

    For a file that is not world-readable, the record has only the digest, and the second part its bytes in base64.
    Raises FilesError for our own secrets, which a move must not touch.
    """
    found: dict[str, dict[str, Any] | None] = {}
    private: dict[str, str] = {}
    for path in expand(paths):
        kept = _read(path)
        if kept is not None and kept.pop("private"):
            private[path] = kept.pop("base64")
        found[path] = kept
    return found, private


def _read(path: str) -> dict[str, Any] | None:
    if path == SECRETS or path.startswith(SECRETS + "/"):
        raise FilesError(
            f"{path} may hold a secret, and a journal is world-readable. Leave it out: a move does not touch it"
        )
    try:
        with open(path, "rb") as stream:
            found = os.fstat(stream.fileno())
            data = stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FilesError(f"{path} cannot be read ({error.strerror}): a move needs to know what it replaces") from error
    private = not found.st_mode & stat.S_IROTH
    kept: dict[str, Any] = {
        "mode": f"{stat.S_IMODE(found.st_mode):04o}",
        "uid": found.st_uid,
        "gid": found.st_gid,
        "private": private,
    }
    if private:
        kept["sha256"] = hashlib.sha256(data).hexdigest()
        kept["base64"] = base64.b64encode(data).decode("ascii")
        return kept
    try:
        kept["content"] = data.decode("utf-8")
    except UnicodeDecodeError:
        kept["base64"] = base64.b64encode(data).decode("ascii")
    return kept


def wanted_files(journal: Mapping[str, Any], back: bool) -> dict[str, dict[str, Any] | None]:
    """Return the files as they must be at the end of a direction; None for one that must not exist."""
    old: dict[str, dict[str, Any] | None] = dict(journal["from"]["files"])
    if back:
        # Files that the new stack added under these patterns did not exist before.
        for path in expand(path for path in journal["from"].get("patterns") or [] if is_pattern(path)):
            old.setdefault(path, None)
        return old
    new: dict[str, dict[str, Any] | None] = dict.fromkeys(journal.get("drop_files") or [])
    return {**new, **journal["to"]["files"]}


def wrong_files(host: Host, wanted: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """Return the paths of the files that differ from the wanted state."""
    return [path for path, want in sorted(wanted.items()) if not _right(host, path, want)]


def _right(host: Host, path: str, want: Mapping[str, Any] | None) -> bool:
    state = host.file_state(path)
    if want is None:
        return not state["exists"]
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError:
        return False
    if state["mode"] != _mode(want):
        return False
    return hashlib.sha256(data).hexdigest() == want["sha256"] if "sha256" in want else data == _bytes(want)


def put(host: Host, wanted: Mapping[str, Mapping[str, Any] | None], private: Mapping[str, str]) -> list[str]:
    """Bring the files into the wanted state; return the changed paths. `private` has contents not in the journal."""
    changed = wrong_files(host, wanted)
    lost = [path for path in changed if "sha256" in (wanted[path] or {}) and path not in private]
    if lost:
        raise FilesError(
            f"The former content of {', '.join(lost)} was kept beside the journal, readable only by root, "
            "and is gone. Restore the file by hand, then run again"
        )
    for path in changed:
        want = wanted[path]
        if want is not None and "sha256" in want:
            want = {**want, "base64": private[path]}
        if want is None:
            remove_durable(path)
            continue
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        write_durable(path, _bytes(want), int(_mode(want), 8))
        if want.get("uid") or want.get("gid"):
            os.chown(path, int(want.get("uid") or 0), int(want.get("gid") or 0))
    return changed


def _bytes(want: Mapping[str, Any]) -> bytes:
    if want.get("base64") is not None:
        return base64.b64decode(want["base64"])
    return str(want["content"]).encode("utf-8")


def _mode(want: Mapping[str, Any]) -> str:
    mode = want.get("mode", "0644")
    text = format(mode, "o") if isinstance(mode, int) else str(mode)
    return text.lstrip("0").rjust(4, "0")
