# SPDX-License-Identifier: Apache-2.0
"""The image every node runs, named by its digest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The image is in the local Docker; what is behind a digest cannot change, so that is all."""
    reference = str(variables["inference_image_reference"])
    if "@sha256:" not in reference:
        raise ValueError(
            f"inference_image_reference is {reference!r}, expected REPOSITORY@sha256:DIGEST: "
            "a tag can point at other bytes tomorrow; take the digest from `docker buildx imagetools inspect`"
        )
    return {"images": {reference: True}}
