# SPDX-License-Identifier: Apache-2.0
"""The state `images`: an image is right when it is there, is the one that was checked, and is the head's.

A name in Docker's books can be given to other bytes by anybody, so that the id which the check found is compared with
the id behind the name today, and with the head's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .image import words_of

UNKNOWN = "unknown"
FIELDS = frozenset({"reference", "requires", "same_as"})
"""Without any of them the image must only be there."""


def image_differences(
    desired: Mapping[str, Any], observed: Mapping[str, Any], peers: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """One difference an image."""
    found = []
    for name, want in desired.items():
        have = observed.get(name)
        if have is None or not have.get("exists"):
            exists = UNKNOWN if have is None else False
            pair = ({"exists": True}, {"exists": exists})
        else:
            pair = _compared(name, want, have, peers)
        if pair[0]:
            found.append({"kind": "image", "key": name, "expected": pair[0], "observed": pair[1]})
    return found


def _compared(
    name: str, want: Mapping[str, Any], have: Mapping[str, Any], peers: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    expected: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    proof = have.get("proof")
    if want.get("reference"):
        requires = words_of(want.get("requires") or {})
        if proof is None or proof.get("image") != want["reference"] or proof.get("requires") != requires:
            expected["checked"] = ", ".join(f"{key} {requires[key]}" for key in sorted(requires)) or "yes"
            seen["checked"] = "no" if proof is None else "for something else"
        elif proof.get("id") != have.get("id"):
            expected["id"], seen["id"] = proof.get("id") or UNKNOWN, have.get("id")
    head = want.get("same_as")
    if head:
        there = (((peers.get(head) or {}).get("images") or {}).get(name) or {}).get("id")
        if there is None:
            expected["same"], seen["same"] = f"as on {head}", f"{head} has none to compare with"
        elif there != have.get("id"):
            expected["same"], seen["same"] = f"as on {head}", f"{have.get('id')}, there {there}"
    return expected, seen


def image_sentence(key: str, expected: Any, observed: Any) -> str:
    """A difference for an operator."""
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
    """What a check of an image expects, short enough for a record."""
    told = {"exists": True, "image": want.get("reference"), "same_as": want.get("same_as")}
    return {field: value for field, value in told.items() if value is not None}


def ideal_image(name: str, want: Mapping[str, Any], peers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What an observation has of an image that is right."""
    head = ((peers.get(str(want.get("same_as"))) or {}).get("images") or {}).get(name) or {}
    identity = head.get("id") or f"sha256:{'0' * 64}"
    proof = {
        "id": identity,
        "image": want.get("reference"),
        "name": name,
        "requires": words_of(want.get("requires") or {}),
    }
    return {"exists": True, "id": identity, "proof": proof if want.get("reference") else None}
