# SPDX-License-Identifier: Apache-2.0
"""The supervisor's desired state: what it is told, on which node, and what of it must be the same everywhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import PROGRAM_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import CONFIG_PATH, parse_config
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import Timing
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving import supervisor
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state
from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import program_digest

ROOT = Path(__file__).resolve().parents[6]
GOLDEN = ROOT / "tests" / "golden" / "supervisor" / "supervisor.service"
RAY_TOKEN = "/etc/firstlight/cluster.token"
RAY = {"unit": "firstlight-ray.service", "container": "firstlight-ray"}
SERVER = {"unit": "firstlight-server.service", "container": "firstlight-server"}
GROUP: dict[str, Any] = {
    "name": "server",
    "nodes": {"spark0": [{**RAY, "stage": 0}, {**SERVER, "stage": 2}], "spark1": [{**RAY, "stage": 1}]},
    "probe": {"url": "http://127.0.0.1:8000", "model": "tiny", "key_path": "/etc/firstlight/server.env"},
}


def variables(node: str = "spark0", **changes: Any) -> dict[str, Any]:
    return {
        "supervisor_node": node,
        "supervisor_address": f"192.168.100.1{node[-1]}",
        "supervisor_head_host": "spark0",
        "supervisor_head_address": "192.168.100.10",
        "supervisor_groups": [GROUP],
        **changes,
    }


def config(node: str = "spark0", **changes: Any) -> dict[str, Any]:
    state = desired_state("supervisor", variables(node, **changes))
    return dict(json.loads(state["files"][CONFIG_PATH]["content"]))


def test_the_program_is_known_by_its_digest_and_the_supervisor_comes_back_after_a_boot() -> None:
    state = desired_state("supervisor", variables())
    assert state["files"][PROGRAM_PATH]["sha256"] == program_digest("supervisor")
    assert state["units"] == {"firstlight-supervisor.service": {"enabled": True, "active": True}}
    assert state["groups"] == {"server": {"phase": "serving"}}


def test_unit_is_the_golden_one() -> None:
    """Regenerate with FIRSTLIGHT_UPDATE_GOLDEN=1, and read the difference before you commit it."""
    content = desired_state("supervisor", variables())["files"][supervisor.UNIT_PATH]["content"]
    if os.environ.get("FIRSTLIGHT_UPDATE_GOLDEN"):
        GOLDEN.write_text(content)
    assert content == GOLDEN.read_text()


@pytest.mark.hostile
def test_every_node_has_a_token_of_its_own_that_only_the_head_has_too() -> None:
    nodes = {**GROUP["nodes"], "spark2": [{**RAY, "stage": 1}]}
    groups = {"supervisor_groups": [{**GROUP, "nodes": nodes}]}
    tokens = {}
    for node in nodes:
        files = desired_state("supervisor", variables(node, **groups))["files"]
        tokens[node] = {path: file["same_as"] for path, file in files.items() if file.get("secret")}
    first, second = (f"/etc/firstlight/supervisor-spark{number}.token" for number in (1, 2))
    assert tokens == {"spark0": {first: None, second: None}, "spark1": {first: "spark0"}, "spark2": {second: "spark0"}}


def test_what_ray_needs_is_looked_at_where_there_is_ray() -> None:
    assert config()["groups"][0]["needs"]["token"] == RAY_TOKEN
    other = {**GROUP, "nodes": {"spark0": [SERVER], "spark1": [SERVER]}}
    assert "token" not in config(supervisor_groups=[other])["groups"][0]["needs"]


def test_one_node_needs_no_token_and_no_port() -> None:
    alone = {**GROUP, "nodes": {"spark0": [SERVER]}}
    state = desired_state("supervisor", variables(supervisor_groups=[alone]))
    assert not [path for path, file in state["files"].items() if file.get("secret")]
    assert config(supervisor_groups=[alone])["head"]["port"] == 0


def test_the_supervisor_can_read_what_it_is_told() -> None:
    told = config("spark1", supervisor_memory_kind="unified", supervisor_memory_share=0.8, supervisor_start_attempts=7)
    read = parse_config(told)
    assert read.node == "spark1"
    assert read.groups[0].plan.timing == Timing(start_attempts=7)
    assert (read.groups[0].needs.memory.kind, read.groups[0].needs.memory.share) == ("unified", 0.8)


def test_what_is_given_on_a_command_line_is_text() -> None:
    given = {"supervisor_start_attempts": "3", "supervisor_backoff": "2.5", "supervisor_memory_share": "0.5"}
    group = config(**given)["groups"][0]
    assert (group["timing"]["start_attempts"], group["timing"]["backoff"], group["needs"]["memory"]["share"]) == (
        3,
        2.5,
        0.5,
    )


def test_what_a_start_takes_before_the_engine_looks_must_be_free_too() -> None:
    told = config("spark1", supervisor_memory_kind="unified", supervisor_memory_overhead="1946")
    assert parse_config(told).groups[0].needs.memory.overhead_mib == 1946
    assert "overhead_mib" not in config("spark1")["groups"][0]["needs"]["memory"]


def test_no_memory_is_looked_at_where_none_is_asked_for() -> None:
    assert config(supervisor_memory_share=0)["groups"][0]["needs"]["memory"] == {}


def test_a_replica_looks_at_its_own_gpus() -> None:
    replica = {**GROUP, "nodes": {"spark0": [SERVER]}, "gpus": [2, 3]}
    assert config(supervisor_groups=[replica])["groups"][0]["needs"]["memory"]["gpus"] == [2, 3]


def test_an_image_is_compared_with_its_record() -> None:
    tag = "sha256-" + "0" * 64
    needs = config(supervisor_image=f"firstlight/engine:{tag}")["groups"][0]["needs"]
    assert needs["image_record"] == f"/var/lib/firstlight/images/{tag}.json"


@pytest.mark.parametrize(
    "changes",
    [{"supervisor_memory_share": 0.5}, {"supervisor_heartbeat_timeout": 60}, {"supervisor_drop_caches": False}],
)
def test_what_is_a_hosts_own_is_no_other_plan(changes: dict[str, Any]) -> None:
    assert config("spark1", **changes)["plan"] == config()["plan"]


@pytest.mark.parametrize(
    "changes",
    [
        {"supervisor_image": "firstlight/engine:sha256-" + "0" * 64},
        {"supervisor_weights": "/models/other"},
        {"supervisor_port": 29601},
        {"supervisor_groups": [{**GROUP, "name": "other"}]},
    ],
)
def test_what_must_be_the_same_everywhere_is_another_plan(changes: dict[str, Any]) -> None:
    assert config("spark1", **changes)["plan"] != config()["plan"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"supervisor_groups": []}, "expected a list of groups"),
        ({"supervisor_groups": [{"name": "server"}]}, "expected name and nodes"),
        ({"supervisor_groups": [{**GROUP, "ports": []}]}, "expected name and nodes"),
        ({"supervisor_groups": [{**GROUP, "nodes": {"spark7": [RAY]}}]}, "has no unit on spark0"),
        ({"supervisor_memory_kind": "swap"}, "memory.kind"),
        ({"supervisor_memory_share": 2}, "memory.share"),
        ({"supervisor_start_attempts": 0}, "timing.start_attempts"),
        ({"supervisor_heartbeat_timeout": "2"}, "supervisor_heartbeat_timeout is 2, expected 5 or more"),
        ({"supervisor_start_attempts": "many"}, "supervisor_start_attempts is 'many', expected a number"),
    ],
)
def test_what_no_supervisor_could_use_is_refused_on_the_controller(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        desired_state("supervisor", variables(**changes))


def test_defaults_are_the_roles_own_and_the_programs() -> None:
    told = yaml.safe_load((ROOT / "roles" / "supervisor" / "defaults" / "main.yml").read_text())
    assert told == {**supervisor.DEFAULTS, "supervisor_observation": {}}, "what was observed is no setting"
    assert parse_config(config()).groups[0].plan.timing == Timing()


def test_what_runs_out_of_a_virtual_environment_does_not_wait_for_docker() -> None:
    unit = {"unit": "firstlight-server.service"}
    state = desired_state("supervisor", variables(supervisor_groups=[{**GROUP, "nodes": {"spark0": [unit]}}]))
    assert "docker" not in state["files"][supervisor.UNIT_PATH]["content"]
