# SPDX-License-Identifier: Apache-2.0
"""The record beside a verified copy of model weights, and the cheap proof that the copy is still that one.

Hashing hundreds of gigabytes on every run would take minutes, so whoever proved the bytes writes down each
file's digest with the size and modification time it had; a file with both unchanged is the file that was
proven.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Callable, Mapping
from typing import Any

RECORD_NAME = ".firstlight-snapshot.json"
LOCK_NAME = ".firstlight-lock"
LEFT_OUT = "left out"
"""The type of a file in a node's listing that the revision has and the node does not."""


def parse_record(text: str) -> dict[str, Any]:
    """The record in `text`. Raises ValueError when it is not one."""
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"the snapshot record is not JSON ({error.msg})") from error
    if not isinstance(record, dict) or not isinstance(record.get("files"), dict):
        raise ValueError("the snapshot record lacks its list of files")
    for field in ("repository", "revision"):
        if not isinstance(record.get(field), str):
            raise ValueError(f"the snapshot record lacks {field}")
    for path, entry in record["files"].items():
        if not isinstance(entry, dict):
            raise ValueError(f"the snapshot record has {str(entry)[:40]!r} for {path}, expected size and digest")
    out = record.get("left_out", {})
    if not isinstance(out, dict) or not all(isinstance(size, int) for size in out.values()):
        raise ValueError("the snapshot record has files it left out without their sizes")
    return record


def verify_record(record: Mapping[str, Any], stat_of: Callable[[str], tuple[int, int] | None]) -> tuple[bool, str]:
    """Whether every recorded file is still as it was proven, and if not, why.

    `stat_of` gives (size, mtime_ns) of a path relative to the snapshot, None when it is not there.
    """
    files = record.get("files")
    if not isinstance(files, Mapping) or not files:
        return False, "the snapshot record lists no files"
    for path, entry in sorted(files.items()):
        if posixpath.isabs(path) or ".." in path.split("/"):
            return False, f"the snapshot record lists {path}, which is outside the snapshot"
        if not isinstance(entry, Mapping) or not entry.get("digest"):
            return False, f"the snapshot record has no digest for {path}"
        found = stat_of(path)
        if found is None:
            return False, f"{path} is missing"
        size, mtime_ns = found
        if size != entry.get("size"):
            return False, f"{path} has {size} bytes, expected {entry.get('size')}"
        if mtime_ns != entry.get("mtime_ns"):
            return False, f"{path} was modified after it was verified"
    return True, ""


def listing(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The record's files as a hub lists them, so that one node can take them from another as from a hub."""
    entries = []
    for path, entry in sorted(record["files"].items()):
        kind, _, oid = str(entry["digest"]).partition(":")
        listed: dict[str, Any] = {"type": "file", "path": path, "size": entry["size"], "oid": oid}
        if kind == "sha256":
            listed["lfs"] = {"oid": oid, "size": entry["size"]}
        elif entry.get("sha256"):
            listed["sha256"] = entry["sha256"]
        entries.append(listed)
    # Who takes them must know that there is more in the repository than is shared.
    entries += [{"type": LEFT_OUT, "path": path, "size": size} for path, size in sorted(left_out(record).items())]
    return entries


def left_out(record: Mapping[str, Any]) -> dict[str, int]:
    """Files of the revision that were not brought, with their sizes: the engine does not load them."""
    return dict(record.get("left_out") or {})


def contents_digest(files: Mapping[str, str]) -> str:
    """One digest for a set of files, given the SHA-256 of each by its path; empty where one of them is not known.

    It is that of what C(sha256sum) prints for them in the order of their paths, so that anybody can compute it.
    """
    if not files or not all(files.values()):
        return ""
    text = "".join(f"{digest}  {path}\n" for path, digest in sorted(files.items()))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def record_contents(record: Mapping[str, Any]) -> str:
    """The digest of all that a record says was proven."""
    return contents_digest({path: str(entry.get("sha256") or "") for path, entry in record["files"].items()})
