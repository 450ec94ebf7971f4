# SPDX-License-Identifier: Apache-2.0
"""The weights role's desired state."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences, explain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state

from tests.unit.ideal import ideal


def test_the_snapshot_is_verified() -> None:
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


@pytest.mark.hostile
def test_a_node_with_other_bytes_than_the_head_or_the_pin_is_not_right() -> None:
    """Whoever slipped something in once has also left a record that verifies it."""
    variables = {
        "model_weights_directory": "/m",
        "model_weights_repository": "a/b",
        "model_weights_revision": "0" * 40,
        "model_weights_same_as": "spark0",
    }
    verified = {"verified": True, "repository": "a/b", "revision": "0" * 40, "reason": ""}
    mine, heads = ({"snapshots": {"/m": {**verified, "contents": f"sha256:{one}"}}} for one in ("mine", "heads"))
    want = desired_state("model_weights", variables)
    assert explain(differences(want, mine, {"spark0": heads})) == [
        "snapshot /m has the bytes sha256:mine, expected sha256:heads as pinned, or as on the head"
    ]
    assert not differences(want, heads, {"spark0": heads})
    assert not differences(want, mine, {"spark0": {}}), "a run without the head knows nothing to compare with"
    pinned = desired_state("model_weights", {**variables, "model_weights_contents": "sha256:pin"})
    assert differences(pinned, heads, {"spark0": heads})
    assert not differences(pinned, ideal(pinned), {"spark0": heads})
