# SPDX-License-Identifier: Apache-2.0
"""A configuration is right as a whole or refused in one sentence."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import (
    ConfigError,
    Memory,
    parse_config,
    read_config,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import Timing, UnitPlan

RIGHT: dict[str, Any] = {
    "version": 1,
    "node": "spark1",
    "address": "192.168.100.11",
    "head": {"name": "spark0", "address": "192.168.100.10", "port": 29600},
    "tokens": {"spark1": "/etc/firstlight/supervisor-spark1.token"},
    "plan": "0" * 64,
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
            "timing": {"start_timeout": 1800, "failure_threshold": 3},
            "probe": {"url": "http://127.0.0.1:8000", "model": "tiny", "tensor_parallel": 2},
            "needs": {
                "image": "firstlight/engine:sha256-0",
                "weights": "/models/tiny",
                "memory": {"kind": "unified", "share": 0.85, "gpus": [0]},
                "drop_caches": True,
                "weights_bytes": 99_864_231_936,
                "compile_cache": "/var/lib/firstlight/compile-cache/tiny",
                "token": "/etc/firstlight/cluster.token",
            },
        }
    ],
}


def test_everything_is_read() -> None:
    config = parse_config(RIGHT)
    (group,) = config.groups
    assert (config.node, config.head, config.port, config.shared) == ("spark1", "spark0", 29600, True)
    assert (config.headed, config.followed) == ((), (group,))
    assert (config.tokens["spark1"], group.needs.token) == (
        "/etc/firstlight/supervisor-spark1.token",
        "/etc/firstlight/cluster.token",
    )
    assert group.plan.nodes["spark1"] == (UnitPlan("firstlight-ray.service", 1, "firstlight-ray"),)
    assert group.plan.timing == Timing(start_timeout=1800.0, failure_threshold=3)
    assert group.needs.memory == Memory("unified", 0.85, (0,))
    assert group.needs.drop_caches
    assert group.needs.compile_cache == "/var/lib/firstlight/compile-cache/tiny"
    assert (group.plan.weights_bytes, group.plan.has_cache) == (99_864_231_936, True)


def test_one_host_needs_neither_port_nor_token() -> None:
    units = {"h100": [{"unit": "firstlight-server.service"}]}
    document = {
        "version": 1,
        "node": "h100",
        "head": {"name": "h100"},
        "groups": [{"name": "server", "head": "h100", "nodes": units}],
    }
    config = parse_config(document)
    assert (config.shared, config.port, config.groups[0].question.url) == (False, 0, "")


def group(document: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = document["groups"][0]
    return first


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(version=2), "version is 2, expected 1"),
        (lambda d: d.update(groups=[]), "groups is empty"),
        (lambda d: d.update(groups="server"), "groups are str, expected a list"),
        (lambda d: d.update(node="spark9"), "has no node spark9"),
        (lambda d: d["head"].update(port=0), "head.port is 0"),
        (lambda d: d["head"].update(port="29600"), "port is '29600', expected a number"),
        (lambda d: d["head"].update(address=""), "head.address is empty"),
        (lambda d: d.update(tokens={"spark0": "/x"}), "tokens has none for spark1, expected one"),
        (lambda d: d.update(node="spark0", tokens={}), "tokens has none for spark1, expected one"),
        (lambda d: d["head"].update(name="spark1"), "headed by spark0, expected spark1"),
        (lambda d: d["groups"].append(d["groups"][0]), "group server is named twice"),
        (lambda d: group(d).update(head="spark7"), "has no node spark7, expected its head"),
        (lambda d: group(d)["timing"].update(failure_threshold=1.5), "failure_threshold is 1.5, expected a number"),
        (lambda d: group(d)["timing"].update(start_timeout=0), "timing.start_timeout is 0.0, expected more than 0"),
        (lambda d: group(d)["timing"].update(begin=1), "timing has begin, expected only start_timeout"),
        (lambda d: group(d)["probe"].update(url="ftp://x"), "probe.url is 'ftp://x'"),
        (lambda d: group(d)["needs"]["memory"].update(kind="hbm"), "needs.memory.kind is 'hbm'"),
        (lambda d: group(d)["needs"]["memory"].update(share=85), "needs.memory.share is 85"),
        (lambda d: group(d)["needs"].update(compile_cache="/models"), "needs.compile_cache is '/models'"),
        (lambda d: group(d)["needs"].update(weights_bytes=-1), "needs.weights_bytes is -1, expected 0 or more"),
        (lambda d: group(d)["timing"].update(progress_timeout=0), "timing.progress_timeout is 0.0, expected more"),
        (lambda d: group(d)["nodes"]["spark1"][0].update(unit="--all"), "unit is '--all'"),
        (lambda d: group(d)["nodes"]["spark1"][0].update(container="a b"), "container is 'a b'"),
        (lambda d: group(d)["nodes"]["spark1"][0].update(stage=-1), "stage is -1"),
        (lambda d: group(d).update(nodes={"spark0": [], "spark1": []}), "has no unit"),
    ],
)
def test_what_is_wrong_is_told(change: Callable[[dict[str, Any]], None], words: str) -> None:
    document = copy.deepcopy(RIGHT)
    change(document)
    with pytest.raises(ConfigError) as told:
        parse_config(document)
    assert words in str(told.value)


@pytest.mark.parametrize("text", [None, "{", "[]", json.dumps({"version": 1})])
def test_a_file_that_is_no_configuration_is_told_with_its_path(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "supervisor.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=f"{path}.*run playbooks/serve.yml"):
        read_config(str(path))
