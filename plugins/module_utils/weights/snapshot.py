# SPDX-License-Identifier: Apache-2.0
"""The record beside a verified copy of model weights, and the cheap check that the copy has not changed since.

Hashing hundreds of gigabytes on every run would take minutes. Therefore the verification records each file's digest
along with its size and modification time; a file with both unchanged is taken to be the verified one.
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
"""The type, in a node's listing, of a file that the revision has and the node does not."""


def parse_record(text: str) -> dict[str, Any]:
    """Parse a record. Raises ValueError if it is invalid."""
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
        raise ValueError("the snapshot record lists left-out files without their sizes")
    return record


def verify_record(record: Mapping[str, Any], stat_of: Callable[[str], tuple[int, int] | None]) -> tuple[bool, str]:
    """Return whether all recorded files are unchanged since their verification, and if not, why.

    `stat_of` returns (size, mtime_ns) of a path relative to the snapshot, or None if it does not exist.
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
    """Return the record's files in the format of a hub, so that other nodes can fetch them as from a hub."""
    entries = []
    for path, entry in sorted(record["files"].items()):
        kind, _, oid = str(entry["digest"]).partition(":")
        listed: dict[str, Any] = {"type": "file", "path": path, "size": entry["size"], "oid": oid}
        if kind == "sha256":
            listed["lfs"] = {"oid": oid, "size": entry["size"]}
        elif entry.get("sha256"):
            listed["sha256"] = entry["sha256"]
        entries.append(listed)
    # Clients must know that the repository has more files than are shared.
    entries += [{"type": LEFT_OUT, "path": path, "size": size} for path, size in sorted(left_out(record).items())]
    return entries


def left_out(record: Mapping[str, Any]) -> dict[str, int]:
    """Return files of the revision that were not fetched, with their sizes: the engine does not load them."""
    return dict(record.get("left_out") or {})


def contents_digest(files: Mapping[str, str]) -> str:
    """Return one digest for a set of files, given the SHA-256 of each by its path; empty if one of them is unknown.

    It is the digest of what sha256sum prints for them, sorted by path, so that anybody can compute it.
    """
    if not files or not all(files.values()):
        return ""
    text = "".join(f"{digest}  {path}\n" for path, digest in sorted(files.items()))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def record_contents(record: Mapping[str, Any]) -> str:
    """Return the digest of all files that a record lists as verified."""
    return contents_digest({path: str(entry.get("sha256") or "") for path, entry in record["files"].items()})
