# SPDX-License-Identifier: Apache-2.0
"""Read the image of an intent, by its digest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import DIGEST_TO_SUPPLY
from ansible_collections.firstlight.cluster.plugins.module_utils.image.recipe import Recipe, recipe_reference
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.image.recipe import wants_build

ERRORS = {
    "image.unpinned": "A tag moves; only a digest guarantees that every host runs the same bytes, now and later.",
    "image.archive": "An archive is a file on the head or on the controller; no other place is searched.",
}

_DIGEST_REFERENCE = re.compile(r"[a-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}")


ARCHIVE_PLACES = ("head", "controller")


def archive_of(intent: Mapping[str, Any]) -> dict[str, str]:
    """Return where the image archive is: `path`, empty for a registry, and `on`, the head or the controller."""
    given = intent.get("firstlight_image_archive")
    if isinstance(given, Mapping):
        return {"path": str(given.get("path") or ""), "on": str(given.get("on") or ARCHIVE_PLACES[0])}
    return {"path": str(given or ""), "on": ARCHIVE_PLACES[0]}


def check_archive(intent: Mapping[str, Any], errors: PlanErrors) -> None:
    """Refuse anything but the absolute path of a file on the head or on the controller."""
    given = intent.get("firstlight_image_archive")
    if given is None:
        return
    archive = archive_of(intent)
    strange = sorted({*given} - {"path", "on"}) if isinstance(given, Mapping) else []
    if strange or not archive["path"].startswith("/") or archive["on"] not in ARCHIVE_PLACES:
        errors.add(
            "image.archive",
            f"firstlight_image_archive is {given!r}",
            "it is the absolute path of a file on the head, or a mapping of path and on, which is head or controller",
            "write firstlight_image_archive: /srv/images/engine.tar, or {path: /srv/images/engine.tar, on: controller}",
        )


def read_image(
    intent: Mapping[str, Any],
    stack: Mapping[str, Any] | None,
    recipe: Recipe | None,
    errors: PlanErrors,
    missing_inputs: PlanErrors,
) -> str:
    """Return the image reference with its digest; the recipe's, where the image is built from one.

    A reference without a digest is refused; a stack that lacks one leaves it as a missing input.
    """
    check_archive(intent, errors)
    if recipe is not None:
        return recipe_reference(recipe)
    given = intent.get("firstlight_image")
    image: Mapping[str, Any] = (stack or {}).get("image") or {}
    if given is None and (stack is None or not image or wants_build(intent)):
        return ""  # no stack, one that runs in a venv, or a build that was refused
    if given is None and stack is not None:
        repository, digest = image["repository"], image["digest"]
        reference = f"{repository}@{digest or DIGEST_TO_SUPPLY}"
        found = f"stack {stack['name']} has the image {repository} with {digest or 'no digest'}"
        if digest is None:
            errors = missing_inputs
    else:
        reference, found = str(given), f"firstlight_image is {given!r}"
    note = f". {image['note']}" if given is None and image.get("note") else ""
    built = (
        f", or set firstlight_image_build to true: the head builds one from recipe {image['build']} (docs/image.md)"
        if image.get("build")
        else ""
    )
    if not _DIGEST_REFERENCE.fullmatch(reference):
        errors.add(
            "image.unpinned",
            found,
            "the image is pinned as REPOSITORY@sha256:DIGEST with 64 hexadecimal digits, "
            "so that every host runs the same bytes",
            "set firstlight_image to the reference `docker buildx imagetools inspect` shows for your image"
            f"{built}{note}",
        )
    return reference
