# SPDX-License-Identifier: Apache-2.0
"""The kind of state `snapshots`: whether a directory has the verified files of a pinned model revision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import (
    Difference,
    Peers,
    difference,
    register,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.file_selection import (
    files_lacking,
    read_selection,
)


def wanted_contents(directory: str, want: Mapping[str, Any], peers: Peers) -> str:
    """Return the required digest of a model's files: the pinned one, else that of the host to equal; empty for any.

    A run that leaves that host out does not know its digest; a later run compares it.
    """
    there = ((peers.get(str(want.get("same_as"))) or {}).get("snapshots") or {}).get(directory) or {}
    return str(want.get("contents") or there.get("contents") or "")


def _snapshots(desired: Mapping[str, Any], observed: Mapping[str, Any], peers: Peers) -> list[Difference]:
    found = []
    for directory, want in desired.items():
        have = (observed.get("snapshots") or {}).get(directory) or {"verified": False, "reason": "not looked at"}
        expected = {"repository": want.get("repository"), "revision": want.get("revision"), "verified": True}
        seen = {field: have.get(field) for field in expected}
        brought, left_out = have.get("files") or [], have.get("left_out") or []
        wanted = files_lacking(read_selection(want.get("selection")), brought, left_out)
        if wanted:
            expected["files"], seen["files"] = wanted, []
        contents = wanted_contents(directory, want, peers)
        if contents:
            expected["contents"], seen["contents"] = contents, have.get("contents") or ""
        if seen != expected:
            found.append(difference("snapshot", directory, expected, {**seen, "reason": have.get("reason") or ""}))
    return found


def _sentence_of_snapshot(key: str, expected: Any, observed: Any) -> str:
    wanted = f"expected {expected['repository']} at {expected['revision']}"
    if not observed.get("verified"):
        return f"snapshot {key} is not verified ({observed.get('reason') or 'no reason given'}), {wanted}"
    if expected.get("files"):
        more = f" and {len(expected['files']) - 1} more" if len(expected["files"]) > 1 else ""
        return f"snapshot {key} was fetched without {expected['files'][0]}{more}, which the engine is to load, {wanted}"
    if (expected["repository"], expected["revision"]) == (observed.get("repository"), observed.get("revision")):
        have, pin = observed.get("contents") or "nobody knows which", expected.get("contents")
        return f"snapshot {key} has the bytes {have}, expected {pin} as pinned, or as on the head"
    return f"snapshot {key} is {observed.get('repository')} at {observed.get('revision')}, {wanted}"


register(compared={"snapshots": _snapshots}, sentences={"snapshot": _sentence_of_snapshot})
