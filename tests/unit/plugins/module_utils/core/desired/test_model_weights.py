# SPDX-License-Identifier: Apache-2.0
"""The weights role's desired state."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired import desired_state


def test_the_snapshot_is_proven() -> None:
    variables = {
        "model_weights_directory": "/srv/models/tiny",
        "model_weights_repository": "example/tiny",
        "model_weights_revision": "0" * 40,
        "model_weights_endpoint": "https://hub.example",
    }
    assert desired_state("model_weights", variables) == {
        "snapshots": {"/srv/models/tiny": {"repository": "example/tiny", "revision": "0" * 40}}
    }


def test_the_files_that_are_brought_are_part_of_it() -> None:
    variables = {
        "model_weights_directory": "/srv/models/tiny",
        "model_weights_repository": "example/tiny",
        "model_weights_revision": "0" * 40,
        "model_weights_files": {"exclude": ["original/*"]},
    }
    (want,) = desired_state("model_weights", variables)["snapshots"].values()
    assert want["selection"] == {"exclude": ["original/*"]}
    with pytest.raises(ValueError, match="expected a list of patterns"):
        desired_state("model_weights", {**variables, "model_weights_files": {"exclude": "original/*"}})
