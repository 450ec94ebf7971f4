# SPDX-License-Identifier: Apache-2.0
"""The image role's desired state."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state

REFERENCE = "registry.example/vllm@sha256:" + "0f" * 32
NAME = "firstlight/engine:sha256-" + "0f" * 32


def test_the_image_is_there() -> None:
    assert desired_state("inference_image", {"inference_image_reference": REFERENCE}) == {
        "images": {NAME: {"reference": REFERENCE, "requires": {}, "same_as": None}}
    }


def test_a_worker_has_the_heads() -> None:
    variables = {
        "inference_image_reference": REFERENCE,
        "inference_image_ray": "2.60.0",
        "inference_image_requires": {"vllm": "0.32.0", "python": 3.12},
        "inference_image_is_head": False,
        "inference_image_head_host": "spark0",
    }
    assert desired_state("inference_image", variables) == {
        "images": {
            f"{NAME}-ray-2.60.0": {
                "reference": REFERENCE,
                "requires": {"vllm": "0.32.0", "python": "3.12"},
                "same_as": "spark0",
            }
        }
    }


def test_a_tag_is_refused() -> None:
    with pytest.raises(ValueError, match="a tag can point at other bytes tomorrow"):
        desired_state("inference_image", {"inference_image_reference": "registry.example/vllm:nightly"})
