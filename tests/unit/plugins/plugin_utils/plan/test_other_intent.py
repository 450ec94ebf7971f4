# SPDX-License-Identifier: Apache-2.0
"""What an inventory says of one model does not hold for another."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.other_intent import with_model, with_serving

HOST = HostIntent(
    "spark0",
    is_head=True,
    intent={
        "firstlight_model": "old",
        "firstlight_model_revision": "a" * 40,
        "firstlight_model_config": "config.json",
        "firstlight_model_files": {"include": ["*.pth"]},
        "firstlight_serving": {"served_name": "mine", "port": 8000},
        "firstlight_stack": "lab",
    },
    variables={"model_weights_directory": "/data/old", "model_weights_files": {}, "model_weights_workers": 4},
)


def test_another_model_takes_nothing_of_the_former() -> None:
    (found,) = with_model([HOST], "new", None, {"max_model_len": 4096})
    assert dict(found.intent) == {
        "firstlight_model": "new",
        "firstlight_serving": {"port": 8000, "max_model_len": 4096},
        "firstlight_stack": "lab",
    }
    assert dict(found.variables) == {"model_weights_workers": 4}


def test_the_same_model_keeps_everything() -> None:
    assert with_model([HOST], "old") == [HOST]


def test_a_revision_that_is_named_counts() -> None:
    (found,) = with_model([HOST], "new", "b" * 40)
    assert found.intent["firstlight_model_revision"] == "b" * 40


def test_other_settings_of_serving_leave_the_rest() -> None:
    (found,) = with_serving([HOST], {"pipeline_parallel": 3})
    own = HOST.intent["firstlight_serving"]
    assert found.intent == {**HOST.intent, "firstlight_serving": {**own, "pipeline_parallel": 3}}
    assert found.variables == HOST.variables
