# SPDX-License-Identifier: Apache-2.0
"""The filters of day two: what they hand on, and what they refuse."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.merged_logs import merged_logs
from ansible_collections.firstlight.cluster.plugins.filter.serving_belongings import serving_belongings
from ansible_collections.firstlight.cluster.plugins.filter.serving_other_model import serving_other_model
from ansible_collections.firstlight.cluster.plugins.filter.serving_summary import serving_summary
from ansible_collections.firstlight.cluster.plugins.filter.switch_group import switch_group


def test_hosts_that_were_not_asked_are_in_it() -> None:
    hostvars = {"a": {"status_answer": {"unreachable": True, "msg": "ssh: no route"}}, "b": {}}
    document = serving_summary(["a", "b"], hostvars, head="a")
    assert [node["problems"] for node in document["nodes"]] == [["unreachable: no route"], ["it was not asked"]]
    assert document["lines"][0].startswith("unknown")
    assert list(merged_logs(["a"], {"a": {"logs_answer": {"entries": [], "cursor": "x"}}})["cursors"]) == ["a"]


def test_facts_of_a_switch_are_found_by_their_names() -> None:
    plan = {"cluster": {"model": "new"}, "roles": {}}
    hostvars = {"a": {"switch_wanted_plan": plan, "switch_new": {"problem": "no answer"}, "other": 1}}
    found = switch_group(["a"], hostvars, ["a"])
    assert found["failed"] == {"a": "no answer"}
    assert found["lines"] == ["firstlight_model: new"]


def test_the_other_model_of_a_head_is_named() -> None:
    seen = {"config": {"groups": {"server": {"model": "old"}}}}
    plan = {"roles": {"inference_server": {"inference_server_served_name": "new"}}}
    assert serving_other_model(seen, plan) == "old"


def test_what_they_cannot_use_is_named() -> None:
    with pytest.raises(AnsibleFilterError, match="firstlight_plan"):
        serving_belongings("x")
    with pytest.raises(AnsibleFilterError, match="takes what serving_status found"):
        serving_other_model("x", {})
    with pytest.raises(TypeError, match="hostvars"):
        serving_summary("a", {})
    with pytest.raises(TypeError, match="hostvars"):
        merged_logs(["a"], None)
    with pytest.raises(TypeError, match="hostvars"):
        switch_group(3, {}, [])
