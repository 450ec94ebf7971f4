# SPDX-License-Identifier: Apache-2.0
"""The desired state of the image: present on every node under one name, checked, and identical to the head's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import local_name, words_of


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the image as desired state: in the local Docker, checked for its requirements, and the same as the head's.

    An image that was transferred and then refused is still there. As the check's record is part of the state, the role
    stays pending, and the next run refuses the image again instead of launching it.
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
