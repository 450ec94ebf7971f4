# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.record_lines import record_lines
from ansible_collections.firstlight.cluster.plugins.filter.record_suspects import record_suspects
from ansible_collections.firstlight.cluster.plugins.filter.records import records

DESIRED = {"a": {"sysctl": {"vm.swappiness": "1"}, "holds": {"x": True}}}
SEEN = {"observation": {"sysctl": {"vm.swappiness": "60"}, "holds": {"x": True}}}


def test_a_result_becomes_records_then_questions_then_lines() -> None:
    found = records(DESIRED, "spark0", SEEN)
    assert {one["id"]: one["verdict"] for one in found} == {"sysctl.vm.swappiness": "fail", "hold.x": "pass"}
    assert record_suspects(found, SEEN, DESIRED) == {"sysctl": ["vm.swappiness"]}
    history = {"sysctl": {"vm.swappiness": {"path": "/etc/sysctl.conf", "value": "60"}}}
    assert record_lines(records(DESIRED, "spark0", SEEN, history=history)) == [
        "FAIL     sysctl.vm.swappiness: 60, expected 1",
        "         by   /etc/sysctl.conf sets it",
        "         do   run site.yml",
        "1 of 2 checks passed",
    ]
    assert record_lines(found, brief=True) == ["spark0 differs from its plan: sysctl.vm.swappiness. Run site.yml."]
    assert record_lines([found[1]], brief=True) == []


@pytest.mark.parametrize("result", [{"unreachable": True, "msg": "No route to host"}, {"failed": True}])
def test_a_host_without_an_observation_could_not_be_checked(result: dict[str, Any]) -> None:
    (found,) = records(DESIRED, "spark0", result)
    assert (found["id"], found["verdict"]) == ("host.answer", "could_not_check")
    assert record_suspects([found], result, DESIRED) == {}


@pytest.mark.parametrize(("desired", "result"), [([], {}), ({}, None), ({"a": {"x": 1}}, SEEN), ({"a": 1}, SEEN)])
def test_records_says_what_it_needs(desired: Any, result: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="records"):
        records(desired, "h", result)


@pytest.mark.parametrize("found", ["text", None, [1], [{"host": "h"}]])
def test_record_lines_says_what_it_needs(found: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="record_lines takes"):
        record_lines(found)


@pytest.mark.parametrize(("found", "result"), [(None, {}), ([], None), ([{"host": "h"}], {})])
def test_record_suspects_says_what_it_needs(found: Any, result: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="record_suspects takes"):
        record_suspects(found, result, {})


@pytest.mark.parametrize("name", ["records", "record_lines", "record_suspects"])
def test_each_filter_is_registered_and_documented(name: str) -> None:
    module = importlib.import_module(f"ansible_collections.firstlight.cluster.plugins.filter.{name}")
    assert set(module.FilterModule().filters()) == {name}
    assert yaml.safe_load(module.DOCUMENTATION)["name"] == name
    assert yaml.safe_load(module.EXAMPLES)
    assert "_value" in yaml.safe_load(module.RETURN)
