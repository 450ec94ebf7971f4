# SPDX-License-Identifier: Apache-2.0
"""Which image an intent names, by digest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusals

REFUSALS = {
    "image.unpinned": "A tag moves; only a digest says that every host runs the same bytes, now and later.",
}

_DIGEST_REFERENCE = re.compile(r"[a-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}")

DIGEST_TO_SUPPLY = "sha256:DIGEST-TO-SUPPLY"
"""Stands in a plan for the digest that only the operator knows; nothing is run with it."""


def read_image(intent: Mapping[str, Any], stack: Mapping[str, Any] | None, refusals: Refusals, gaps: Refusals) -> str:
    """The reference with its digest: refused when it has none, to be supplied when nobody gave one."""
    given = intent.get("firstlight_image")
    image: Mapping[str, Any] = (stack or {}).get("image") or {}
    if given is None and (stack is None or not image):
        return ""  # no stack, or one that runs in a venv
    if given is None and stack is not None:
        repository, digest = image["repository"], image["digest"]
        reference = f"{repository}@{digest or DIGEST_TO_SUPPLY}"
        found = f"stack {stack['name']} has the image {repository} with {digest or 'no digest'}"
        if digest is None:
            refusals = gaps
    else:
        reference, found = str(given), f"firstlight_image is {given!r}"
    note = f". {image['note']}" if given is None and image.get("note") else ""
    if not _DIGEST_REFERENCE.fullmatch(reference):
        refusals.add(
            "image.unpinned",
            found,
            "the image is pinned as REPOSITORY@sha256:DIGEST with 64 hexadecimal digits, "
            "so that every host runs the same bytes",
            f"set firstlight_image to the reference `docker buildx imagetools inspect` shows for your image{note}",
        )
    return reference
