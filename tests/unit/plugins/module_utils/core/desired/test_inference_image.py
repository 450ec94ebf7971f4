# SPDX-License-Identifier: Apache-2.0
"""The image role's desired state."""

from __future__ import annotations

import json

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired import desired_state

REFERENCE = "registry.example/vllm@sha256:" + "0f" * 32


def test_the_image_is_there() -> None:
    assert desired_state("inference_image", {"inference_image_reference": REFERENCE}) == {"images": {REFERENCE: True}}


def test_what_it_must_have_is_state_too() -> None:
    variables = {
        "inference_image_reference": REFERENCE,
        "inference_image_requires": {"vllm": "0.32.0", "ray": "2.60.0"},
    }
    state = desired_state("inference_image", variables)
    assert state["images"] == {REFERENCE: True}
    record = state["files"]["/var/lib/firstlight/image.proof"]
    assert (record["mode"], record["owner"], record["group"]) == ("0644", "root", "root")
    assert json.loads(record["content"]) == {"image": REFERENCE, "requires": {"ray": "2.60.0", "vllm": "0.32.0"}}
    turned = {**variables, "inference_image_requires": {"ray": "2.60.0", "vllm": "0.32.0"}}
    assert desired_state("inference_image", turned) == state
    elsewhere = desired_state("inference_image", {**variables, "inference_image_proof": "/srv/proof"})
    assert elsewhere["files"] == {"/srv/proof": record}


def test_a_tag_is_refused() -> None:
    with pytest.raises(ValueError, match="a tag can point at other bytes tomorrow"):
        desired_state("inference_image", {"inference_image_reference": "registry.example/vllm:nightly"})
