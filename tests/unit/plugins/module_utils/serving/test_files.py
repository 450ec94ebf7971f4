# SPDX-License-Identifier: Apache-2.0
"""The supervisor's files, whole, broken and of another hand."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import (
    asked_ports,
    groups_of,
    memory_wants,
    own_units,
    read_document,
    told,
)

CONFIG: dict[str, Any] = {
    "version": 1,
    "node": "spark0",
    "head": {"name": "spark0", "address": "192.168.100.10", "port": 29600},
    "groups": [
        {
            "name": "server",
            "head": "spark0",
            "nodes": {
                "spark0": [
                    {"unit": "firstlight-ray.service", "stage": 0, "container": "firstlight-ray"},
                    {"unit": "firstlight-server.service", "stage": 2, "container": "firstlight-server"},
                ],
                "spark1": [{"unit": "firstlight-ray.service", "stage": 1, "container": "firstlight-ray"}],
            },
            "probe": {"url": "http://127.0.0.1:8000", "model": "tiny", "tensor_parallel": 2},
            "needs": {"memory": {"kind": "unified", "share": 0.85, "gpus": [0]}},
        }
    ],
}


def test_a_file_that_is_not_there_is_no_problem() -> None:
    assert read_document(None, "/x") == (None, "")


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", "null"])
def test_a_file_that_is_no_object_is_named(text: str) -> None:
    document, problem = read_document(text, "/run/x.json")
    assert document is None
    assert "/run/x.json" in problem


def test_units_and_ports_are_those_of_the_node() -> None:
    assert own_units(CONFIG, "spark0") == {
        "firstlight-ray.service": "firstlight-ray",
        "firstlight-server.service": "firstlight-server",
    }
    assert list(own_units(CONFIG, "spark1")) == ["firstlight-ray.service"]
    assert own_units(CONFIG, "other") == {}
    assert asked_ports(CONFIG, "spark0") == [8000]
    assert asked_ports(CONFIG, "spark1") == []


def test_of_several_groups_the_largest_share_and_all_gpus_count() -> None:
    groups = [
        {"needs": {"memory": {"kind": "discrete", "share": 0.5, "gpus": [0, 1]}}},
        {"needs": {"memory": {"kind": "discrete", "share": 0.9, "gpus": [2]}}},
    ]
    assert memory_wants({"groups": groups}) == {"kind": "discrete", "share": 0.9, "gpus": [0, 1, 2]}


@pytest.mark.parametrize("config", [None, {}, {"groups": {}}, {"groups": ["x"]}, {"groups": [{"probe": {}}]}])
def test_what_is_no_configuration_has_nothing(config: dict[str, Any] | None) -> None:
    assert own_units(config, "spark0") == {}
    assert asked_ports(config, "spark0") == []
    assert memory_wants(config) == {}


def test_an_operator_is_shown_who_serves_what_where() -> None:
    assert told(CONFIG) == {
        "node": "spark0",
        "head": "spark0",
        "groups": {
            "server": {
                "head": "spark0",
                "nodes": ["spark0", "spark1"],
                "url": "http://127.0.0.1:8000",
                "model": "tiny",
                "tensor_parallel": 2,
            }
        },
    }
    assert told(None) == {}


def test_what_is_no_group_is_left_out() -> None:
    assert groups_of({"groups": {"server": {"phase": "serving"}, "x": 3}}) == {"server": {"phase": "serving"}}
    assert groups_of({"groups": [1]}) == {}
    assert groups_of(None) == {}
