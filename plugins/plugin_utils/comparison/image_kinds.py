# SPDX-License-Identifier: Apache-2.0
"""The state `images`: an image must be present, be the one that was checked, and equal the head's.

Anyone can retag an image name in Docker, so the id recorded by the check is compared with the id behind the name now,
and with the head's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import words_of
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import (
    UNKNOWN,
    Difference,
    Peers,
    difference,
    register,
)


def _differences(desired: Mapping[str, Any], observed: Mapping[str, Any], peers: Peers) -> list[Difference]:
    """Return at most one difference per image."""
    found = []
    for name, want in desired.items():
        have = (observed.get("images") or {}).get(name)
        if have is None or not have.get("exists"):
            exists = UNKNOWN if have is None else False
            pair = ({"exists": True}, {"exists": exists})
        else:
            pair = _compared(name, want, have, peers)
        if pair[0]:
            found.append(difference("image", name, pair[0], pair[1]))
    return found


def _compared(
    name: str, want: Mapping[str, Any], have: Mapping[str, Any], peers: Peers
) -> tuple[dict[str, Any], dict[str, Any]]:
    expected: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    record = have.get("record")
    if want.get("reference"):
        requires = words_of(want.get("requires") or {})
        if record is None or record.get("image") != want["reference"] or record.get("requires") != requires:
            expected["checked"] = ", ".join(f"{key} {requires[key]}" for key in sorted(requires)) or "yes"
            seen["checked"] = "no" if record is None else "for something else"
        elif record.get("id") != have.get("id"):
            expected["id"], seen["id"] = record.get("id") or UNKNOWN, have.get("id")
    head = want.get("same_as")
    if head:
        there = (((peers.get(head) or {}).get("images") or {}).get(name) or {}).get("id")
        if there is None:
            expected["same"], seen["same"] = f"as on {head}", f"{head} has none to compare with"
        elif there != have.get("id"):
            expected["same"], seen["same"] = f"as on {head}", f"{have.get('id')}, there {there}"
    return expected, seen


def _sentence(key: str, expected: Any, observed: Any) -> str:
    if "exists" in expected:
        return f"image {key} is {UNKNOWN if observed['exists'] == UNKNOWN else 'not present'}, expected present"
    told = []
    if "checked" in expected:
        told.append(f"was not checked ({observed['checked']}), expected a check for {expected['checked']}")
    if "id" in expected:
        told.append(f"has the id {observed['id']}, expected {expected['id']} as it was when it was checked")
    if "same" in expected:
        told.append(f"is not the same {expected['same']} ({observed['same']})")
    return f"image {key} {' and '.join(told)}"


def image_words(want: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a check of an image expects, short enough for a record."""
    told = {"exists": True, "image": want.get("reference"), "same_as": want.get("same_as")}
    return {field: value for field, value in told.items() if value is not None}


register(compared={"images": _differences}, sentences={"image": _sentence})
