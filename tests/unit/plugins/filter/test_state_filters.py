# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.differences import differences
from ansible_collections.firstlight.cluster.plugins.filter.explain import explain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state

ROOT = Path(__file__).parents[4]
TUNING = yaml.safe_load((ROOT / "roles/host_tuning/defaults/main.yml").read_text(encoding="utf-8"))


def test_variables_become_a_state_then_differences_then_sentences() -> None:
    state = desired_state("host_tuning", TUNING)
    seen = {**state["sysctl"], "vm.swappiness": "60"}
    found = differences({"host_tuning": {"sysctl": state["sysctl"]}}, {"sysctl": seen})
    assert explain(found["host_tuning"]) == ["sysctl vm.swappiness is 60, expected 1"]


@pytest.mark.parametrize(
    ("states", "observation"), [([], {}), ({}, None), ({"a": {"sysctls": {}}}, {}), ({"a": 1}, {})]
)
def test_differences_says_what_it_needs(states: Any, observation: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="differences"):
        differences(states, observation)


@pytest.mark.parametrize("found", ["text", {"a": 1}, [{"kind": "sysctl"}], [1], None])
def test_explain_says_what_it_needs(found: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="explain takes"):
        explain(found)


@pytest.mark.parametrize("name", ["differences", "explain"])
def test_each_filter_is_registered_and_documented(name: str) -> None:
    module = importlib.import_module(f"ansible_collections.firstlight.cluster.plugins.filter.{name}")
    assert set(module.FilterModule().filters()) == {name}
    assert yaml.safe_load(module.DOCUMENTATION)["name"] == name
    assert yaml.safe_load(module.EXAMPLES)
    assert "_value" in yaml.safe_load(module.RETURN)
