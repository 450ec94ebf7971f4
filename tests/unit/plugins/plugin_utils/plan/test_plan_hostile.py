# SPDX-License-Identifier: Apache-2.0
"""Every key of an intent with every shape of value a slip of the pen can give it: refused or taken, no traceback.

In `make test` each key has a few of the shapes, and each shape is that of a few keys.
"""

from __future__ import annotations

import copy
import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.intent import FABRIC_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import INTENT_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import plan_cluster
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import load_planner_context
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.intent import SERVING_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.serving_values import SPECULATIVE_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import load_roles

from tests.unit.examples import some

ROOT = Path(__file__).resolve().parents[5]
LOADED = load_planner_context([ROOT / "catalog"], load_roles(ROOT / "roles", ROLES))
KNOWLEDGE = replace(LOADED, schema=functools.cache(LOADED.schema))  # not read again for each of some hundred plans
RAILS = [{"port": "enp1s0f1np1", "subnet": "192.168.100.0/24"}]
SLIPS: list[Any] = [
    *(None, True, -1, 10**30, float("nan"), "", "\x00"),
    *([None], [[]], [{"port": ["x"], "subnet": {}}], {"": []}, {1: 2}),
]
PLACES = [
    *((key,) for key in INTENT_KEYS),
    *(("firstlight_serving", key) for key in SERVING_KEYS),
    *(("firstlight_serving", "speculative", key) for key in SPECULATIVE_KEYS),
    *(("firstlight_fabric", key) for key in FABRIC_KEYS),
]


@pytest.mark.slow  # a plan for every wrong value of every setting
@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_no_slip_of_the_pen_is_a_traceback(place: tuple[str, ...]) -> None:
    for slip in some(SLIPS, PLACES.index(place)):
        intent: dict[str, Any] = {
            "firstlight_hardware": "gb10",
            "firstlight_stack": "spark-vllm-0.32",
            "firstlight_model": "qwen3.5-397b-a17b-fp8",
            "firstlight_fabric": {"rails": copy.deepcopy(RAILS)},
        }
        *above, last = place
        part = intent
        for key in above:
            part = part.setdefault(key, {})
        part[last] = slip
        hosts = [HostIntent(f"node{index}", index == 0) for index in range(4)]
        assert plan_cluster(intent, hosts, KNOWLEDGE).document(), f"{'.'.join(place)}: {slip!r}"
