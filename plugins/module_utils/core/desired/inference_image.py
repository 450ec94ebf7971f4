# SPDX-License-Identifier: Apache-2.0
"""The image every node runs, named by its digest, and the record that its contents were found right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.image import proof_text
from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import root_file

PROOF_FILE = "/var/lib/firstlight/image.proof"


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The image is in the local Docker, and with `inference_image_requires` it was found to have them.

    What is behind a digest cannot change, but an image that was pulled and then refused is still there: with
    the record as state the role stays pending, and the next run refuses it again instead of launching it.
    """
    reference = str(variables["inference_image_reference"])
    if "@sha256:" not in reference:
        raise ValueError(
            f"inference_image_reference is {reference!r}, expected REPOSITORY@sha256:DIGEST: "
            "a tag can point at other bytes tomorrow; take the digest from `docker buildx imagetools inspect`"
        )
    state: dict[str, Any] = {"images": {reference: True}}
    requires = variables.get("inference_image_requires") or {}
    if requires:
        path = str(variables.get("inference_image_proof") or PROOF_FILE)
        state["files"] = {path: root_file(proof_text(reference, requires))}
    return state
