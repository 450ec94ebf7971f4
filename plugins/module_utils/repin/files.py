# SPDX-License-Identifier: Apache-2.0
"""The configuration files of a move: recorded as they were, written as the new set wants them, and put back."""

from __future__ import annotations

import base64
import glob
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
    """Whether this names files by a pattern."""
    return any(character in _GLOB for character in path)


def expand(paths: Iterable[str]) -> list[str]:
    """Paths, and the files that patterns name now."""
    found: set[str] = set()
    for path in paths:
        found.update(glob.glob(path) if is_pattern(path) else [path])
    return sorted(found)


def record(paths: Iterable[str]) -> dict[str, dict[str, Any] | None]:
    """Each file's content, mode and owner; None for one that is not there. Raises FilesError for a secret."""
    return {path: _read(path) for path in expand(paths)}


def _read(path: str) -> dict[str, Any] | None:
    if path == SECRETS or path.startswith(SECRETS + "/"):
        raise FilesError(
            f"{path} may hold a secret, and a journal is readable for everybody. Leave it out: a move does not touch it"
        )
    try:
        with open(path, "rb") as stream:
            found = os.fstat(stream.fileno())
            data = stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FilesError(f"{path} cannot be read ({error.strerror}): a move needs to know what it replaces") from error
    if not found.st_mode & stat.S_IROTH:
        raise FilesError(
            f"{path} has mode {stat.S_IMODE(found.st_mode):04o}, and what not everybody may read is not written into a "
            "journal. Make it 0644 if there is nothing secret in it, or leave it out of the move"
        )
    kept: dict[str, Any] = {
        "mode": f"{stat.S_IMODE(found.st_mode):04o}",
        "uid": found.st_uid,
        "gid": found.st_gid,
    }
    try:
        kept["content"] = data.decode("utf-8")
    except UnicodeDecodeError:
        kept["base64"] = base64.b64encode(data).decode("ascii")
    return kept


def wanted_files(journal: Mapping[str, Any], back: bool) -> dict[str, dict[str, Any] | None]:
    """The files as they have to be at the end of a way; None for one that must not be there."""
    old: dict[str, dict[str, Any] | None] = dict(journal["from"]["files"])
    if back:
        # What the new stack brought under these patterns was not there.
        for path in expand(path for path in journal["from"].get("patterns") or [] if is_pattern(path)):
            old.setdefault(path, None)
        return old
    new: dict[str, dict[str, Any] | None] = dict.fromkeys(journal.get("drop_files") or [])
    return {**new, **journal["to"]["files"]}


def wrong_files(host: Host, wanted: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """Which of these are not as wanted."""
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
    return data == _bytes(want) and state["mode"] == _mode(want)


def put(host: Host, wanted: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """Make the files as wanted; which ones had to be changed."""
    changed = wrong_files(host, wanted)
    for path in changed:
        want = wanted[path]
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
