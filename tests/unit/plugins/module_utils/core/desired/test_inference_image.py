# SPDX-License-Identifier: Apache-2.0
"""The image role's desired state."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired import desired_state

REFERENCE = "registry.example/vllm@sha256:" + "0f" * 32


def test_the_image_is_there() -> None:
    assert desired_state("inference_image", {"inference_image_reference": REFERENCE}) == {"images": {REFERENCE: True}}


def test_a_tag_is_refused() -> None:
    with pytest.raises(ValueError, match="a tag can point at other bytes tomorrow"):
        desired_state("inference_image", {"inference_image_reference": "registry.example/vllm:nightly"})
