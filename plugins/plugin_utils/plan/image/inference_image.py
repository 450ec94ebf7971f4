# SPDX-License-Identifier: Apache-2.0
"""The image every node runs, by the one name it has everywhere, checked, and the same as the head's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import local_name, words_of


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The image is in the local Docker, was found to have `inference_image_requires`, and is the head's.

    An image that was brought and then refused is still there: with the record of the check as state the role stays
    pending, and the next run refuses it again instead of launching it.
    """
    reference, ray = str(variables["inference_image_reference"]), str(variables.get("inference_image_ray") or "")
    head = variables.get("inference_image_head_host") or None
    return {
        "images": {
            local_name(reference, ray): {
                "reference": reference,
                "requires": words_of(variables.get("inference_image_requires") or {}),
                "same_as": None if variables.get("inference_image_is_head", True) else head,
            }
        }
    }
