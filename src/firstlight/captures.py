# SPDX-License-Identifier: Apache-2.0
"""Read files and directories of captured output, with the metadata from a collection's manifest."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.check import Check, make_check
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.diagnose import Capture
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import KINDS
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import COULD_NOT_CHECK

from .errors import UsageError

LARGEST = 8 << 20
"""Maximum size of a capture in bytes; a larger file is a log or an image, and is not read into memory."""
MANIFEST = "manifest.json"
NOT_CAPTURES = frozenset({".html", ".svg", ".md"})
"""Suffixes of other files found in such a directory: reports generated from the captures, and notes."""


class CaptureError(UsageError):
    """The captures cannot be used; the message is shown to the user as it is."""


@dataclass
class Found:
    """The captures, each with its host's manifest entry, and checks for those that could not be read."""

    captures: list[tuple[Capture, Mapping[str, Any]]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)


def find_captures(names: Sequence[str], kind: str | None = None) -> Found:
    """Read all named files, and every file below the named directories. Raises CaptureError for one that cannot be
    read.
    """
    found = Found()
    for name in names:
        if name == "-":
            found.captures.append((Capture("standard input", "", _decoded(sys.stdin.buffer.read(LARGEST)), kind), {}))
        elif os.path.isdir(name):
            _add_directory(found, Path(name), kind)
        else:
            _add_file(found, Path(name), "", kind, {}, required=True)
    return found


def _add_file(
    found: Found, path: Path, host: str, kind: str | None, about: Mapping[str, Any], *, required: bool = False
) -> None:
    try:
        with open(path, "rb") as stream:
            data = stream.read(LARGEST + 1)
    except OSError as error:
        why = f"{path} cannot be read ({error.strerror})"
        if required:
            raise CaptureError(f"{why}, expected a file or a directory with captures") from error
        found.checks.append(_unread(str(path), host, why))
        return
    if len(data) > LARGEST:
        found.checks.append(_unread(str(path), host, f"the file is larger than {LARGEST >> 20} MiB"))
        return
    found.captures.append((Capture(str(path), host, _decoded(data), kind), about))


def _unread(source: str, host: str, why: str) -> Check:
    return make_check(
        "capture", COULD_NOT_CHECK, "what a tool printed", why, "capture it again", source=source, host=host
    )


def _decoded(data: bytes) -> str:
    """Decode tool output in any encoding; bytes that cannot be decoded are not part of a tool's output."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    return data.decode(encoding, errors="replace")


def _add_directory(found: Found, directory: Path, kind: str | None) -> None:
    """Add a collection according to its manifest, or every file of another directory; subdirectories are host names."""
    hosts = _manifest(directory / MANIFEST)
    paths = [
        path
        for path in sorted(directory.rglob("*"))
        # Do not follow links: a directory made by somebody else could expose files of this machine.
        if path.is_file()
        and not path.is_symlink()
        and path.name != MANIFEST
        and path.suffix not in NOT_CAPTURES
        and not any(part.startswith(".") for part in path.relative_to(directory).parts)
    ]
    if not paths and not hosts:
        raise CaptureError(f"{directory} has no files in it, expected captures, such as `firstlight collect` writes")
    for path in paths:
        inside = path.relative_to(directory)
        host = inside.parts[0] if len(inside.parts) > 1 else ""
        about = hosts.get(host, {})
        listed = _mapping(_mapping(about.get("files")).get("/".join(inside.parts[1:] or inside.parts)))
        named = listed.get("kind")
        _add_file(found, path, host, kind or (named if named in KINDS else None), about)
    for host, about in hosts.items():
        if about.get("error") or not about.get("files"):
            why = str(about.get("error") or "nothing was collected from this host")
            found.checks.append(_unread(str(directory / MANIFEST), host, why))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _manifest(path: Path) -> dict[str, Mapping[str, Any]]:
    """Return the hosts of a collection by name; empty if there is no manifest."""
    if not path.is_file() or path.is_symlink():
        return {}
    try:
        with path.open("rb") as stream:
            document = json.loads(stream.read(LARGEST))
    except (OSError, RecursionError, ValueError) as error:
        raise CaptureError(
            f"{path} cannot be read ({error}), expected what `firstlight collect` wrote: collect again, or remove it"
        ) from error
    return {str(host): _mapping(about) for host, about in _mapping(_mapping(document).get("hosts")).items()}
