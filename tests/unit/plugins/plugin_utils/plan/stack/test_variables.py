# SPDX-License-Identifier: Apache-2.0
"""From a stack release to the variables of the roles that install it, over a whole plan."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import explain_errors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent, read_host
from ansible_collections.firstlight.cluster.plugins.plugin_utils.packages.openpgp import fingerprints
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan, plan_cluster
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import load_planner_context
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planning import plan_hosts
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import (
    ROLES,
    desired_state,
    host_state,
    observation_request,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import load_roles

ROOT = Path(__file__).resolve().parents[6]
KNOWLEDGE = load_planner_context([ROOT / "catalog"], load_roles(ROOT / "roles", ROLES))
KEY = (ROOT / "tests" / "fixtures" / "apt" / "key.asc").read_text(encoding="ascii")
SIGNED = {"key": KEY, "fingerprint": fingerprints(KEY)}
LOCK = "vllm==0.7.3 --hash=sha256:" + "1" * 64 + "\nautoawq==0.2.9 --hash=sha256:" + "2" * 64 + "\n"
H100: dict[str, Any] = {
    "firstlight_hardware": "h100-sxm-4-nvswitch",
    "firstlight_stack": "h100-vllm-0.31",
    "firstlight_model": "qwen3-235b-a22b-fp8",
    "firstlight_serving": {"tensor_parallel": 4, "max_model_len": 32768},
    "firstlight_sources": {"cuda-repository": SIGNED},
}
GUIDE = H100 | {
    "firstlight_stack": "h100-vllm-0.7.3-cu126",
    "firstlight_model": "qwen2.5-72b",
    "firstlight_serving": {"tensor_parallel": 4, "max_model_len": 8192, "runtime": "venv"},
}
SPARK: dict[str, Any] = {
    "firstlight_hardware": "gb10",
    "firstlight_stack": "spark-vllm-0.31-multinode",
    "firstlight_model": "gpt-oss-120b",
    "firstlight_serving": {"max_model_len": 8192},
}


def planned(intent: dict[str, Any], variables: dict[str, Any] | None = None, **more: Any) -> ClusterPlan:
    return plan_cluster(intent, [HostIntent("gpu0", True, variables=variables or {})], KNOWLEDGE, **more)


def plan(intent: dict[str, Any], variables: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    found = planned(intent, variables, **more)
    assert not found.errors, explain_errors(found.errors)
    return found.hosts["gpu0"]


def ids(intent: dict[str, Any], variables: dict[str, Any] | None = None) -> set[str]:
    return {one["id"] for one in planned(intent, variables).errors}


def test_a_driver_is_installed_with_its_source_and_fabric_manager() -> None:
    one = plan(H100)
    driver = one["roles"]["nvidia_driver"]
    assert driver["nvidia_driver_policy"] == "install"
    assert driver["nvidia_driver_fabric_manager"] == {"nvidia-fabricmanager": "580.173.02-1ubuntu1"}
    assert driver["nvidia_driver_source"]["uris"] == [
        "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64"
    ]
    assert driver["nvidia_driver_reboot_ok"] is False
    # Of the shipped release no kernel is known that it does not build on.
    assert driver["nvidia_driver_kernel_below"] == ""
    assert one["desired"]["nvidia_driver"]["driver"]["version"] == "580.173.02"
    assert "nvidia-fabricmanager" not in one["desired"]["nvidia_driver"]["packages"]
    assert "nvidia-fabricmanager" in one["observe"]["nvidia_driver"]["packages"]
    assert one["roles"]["container_runtime"]["container_runtime_gpus"] is True
    sources = {source["name"]: source for source in one["roles"]["container_runtime"]["container_runtime_sources"]}
    assert sources["docker"]["packages"] == ["containerd.io", "docker-ce", "docker-ce-cli"]
    assert (sources["docker"]["suites"], sources["docker"]["components"]) == (["noble"], ["stable"])
    toolkit = {**driver["nvidia_driver_source"], "name": "cuda-repository", "packages": ["nvidia-container-toolkit"]}
    assert sources["cuda-repository"] == toolkit
    assert one["roles"]["cuda_toolkit"] is one["roles"]["engine_venv"] is None
    assert one["desired"]["cuda_toolkit"] == one["desired"]["engine_venv"] == {}


def test_a_key_to_supply_is_a_missing_input_of_a_source_that_is_used() -> None:
    sources = KNOWLEDGE.catalog["sources"]
    keyless = {**sources, "cuda-repository": sources["cuda-repository"] | {"key": None}}
    knowledge = dataclasses.replace(KNOWLEDGE, catalog={**KNOWLEDGE.catalog, "sources": keyless})
    intent = {name: value for name, value in H100.items() if name != "firstlight_sources"}

    def missing_inputs(**variables: Any) -> list[str]:
        found = plan_cluster(intent, [HostIntent("gpu0", True, variables=variables)], knowledge)
        assert not found.errors, explain_errors(found.errors)
        return [one["id"] for one in found.missing_inputs]

    assert missing_inputs() == ["source.key"]
    assert missing_inputs(nvidia_driver_policy="verify-and-hold", container_runtime_sources=[]) == []
    assert plan(intent)["roles"]["nvidia_driver"]["nvidia_driver_source"]["key"] == sources["cuda-repository"]["key"]


@pytest.mark.parametrize("policy", ["install", "verify-and-hold"])
def test_a_password_in_a_roles_source_is_refused_and_goes_nowhere(policy: str) -> None:
    source = {"uris": ["https://me:hunter2@mirror.example/cuda"], "suites": ["./"], **SIGNED}
    found = planned(H100, {"nvidia_driver_source": source, "nvidia_driver_policy": policy})
    assert [one["id"] for one in found.errors] == ["role.state"]
    assert "nvidia_driver_source has a user or password in https://****@mirror.example/cuda" in str(found.errors)
    assert "hunter2" not in str(dataclasses.asdict(found))


def test_a_factory_driver_stays_unless_the_operator_says_otherwise() -> None:
    one = plan(SPARK)
    assert one["roles"]["nvidia_driver"]["nvidia_driver_policy"] == "verify-and-hold"
    assert one["desired"]["nvidia_driver"]["driver"]["branch"] == "580"
    assert "stack.driver-unpinned" in ids(SPARK, {"nvidia_driver_policy": "install"})


def test_the_guides_set_has_a_toolkit_and_a_virtual_environment() -> None:
    found = planned(GUIDE, {"engine_venv_lock": "vllm.lock"}, files={"vllm.lock": LOCK})
    assert found.errors == [], explain_errors(found.errors)
    roles, desired = found.hosts["gpu0"]["roles"], found.hosts["gpu0"]["desired"]
    assert roles["container_runtime"] is None
    assert roles["cuda_toolkit"]["cuda_toolkit_version"] == "12.6.3"
    assert roles["cuda_toolkit"]["cuda_toolkit_source"]["uris"][0].endswith("/ubuntu2204/x86_64")
    assert roles["engine_venv"]["engine_venv_python"] == "python3.10"
    assert roles["engine_venv"]["engine_venv_compute_capability"] == "9.0"
    assert list(desired["engine_venv"]["venvs"]) == ["/opt/venvs/vllm"]
    assert desired["container_runtime"] == {}


def test_a_lock_to_supply_is_a_missing_input() -> None:
    found = planned(GUIDE)
    assert "venv.lock" in {one["id"] for one in found.missing_inputs}
    assert found.hosts["gpu0"]["desired"]["engine_venv"] == {}


@pytest.mark.parametrize("nvswitches", [0, 4])
def test_the_state_of_the_host_that_was_seen(nvswitches: int) -> None:
    variables = plan(H100)["roles"]["nvidia_driver"]
    seen = {"driver": {"nvswitches": nvswitches, "kernel": "6.8.0-60-generic", "related": [], "installed": None}}
    state = host_state("nvidia_driver", variables, seen)
    assert ("nvidia-fabricmanager" in state["packages"]) == (nvswitches > 0)
    assert ("nvidia-fabricmanager.service" in state["units"]) == (nvswitches > 0)
    assert "linux-headers-6.8.0-60-generic" in state["packages"]
    request = observation_request("nvidia_driver", variables, desired_state("nvidia_driver", variables))
    for kind in ("holds", "files", "units"):
        assert state[kind].keys() <= request[kind].keys()
    assert host_state("nvidia_driver", variables, {}) == plan(H100)["desired"]["nvidia_driver"]
    assert host_state("host_tuning", plan(H100)["roles"]["host_tuning"], seen)


class TestPlanHosts:
    def test_another_stack_than_the_inventorys(self) -> None:
        hosts = [HostIntent("gpu0", True, intent=copy.deepcopy(H100))]
        assert plan_hosts(hosts).cluster["stack"] == "h100-vllm-0.31"
        assert plan_hosts(hosts, stack="h100-vllm-0.32").cluster["stack"] == "h100-vllm-0.32"
        assert [one["id"] for one in plan_hosts(hosts, stack="none").errors] == ["stack.unknown"]
        assert hosts[0].intent["firstlight_stack"] == "h100-vllm-0.31"

    def test_keys_and_locks_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "key.asc").write_text(KEY)
        (tmp_path / "vllm.lock").write_text(LOCK)
        signed = {"key_file": str(tmp_path / "key.asc"), "fingerprint": fingerprints(KEY)}
        host = HostIntent(
            "gpu0",
            True,
            intent=GUIDE | {"firstlight_sources": {"cuda-repository": signed}},
            variables={"engine_venv_lock": str(tmp_path / "vllm.lock")},
        )
        found = plan_hosts([host])
        assert found.errors == [], explain_errors(found.errors)
        roles = found.hosts["gpu0"]["roles"]
        assert roles["cuda_toolkit"]["cuda_toolkit_source"]["key"] == KEY
        assert roles["engine_venv"]["engine_venv_lock_text"] == LOCK
        (tmp_path / "key.asc").write_bytes(base64.b64decode("".join(KEY.split("\n\n")[1].split("\n=")[0].split())))
        found = plan_hosts([host])
        assert found.errors == [], explain_errors(found.errors)
        binary = found.hosts["gpu0"]["roles"]["cuda_toolkit"]["cuda_toolkit_source"]["key"]
        assert fingerprints(binary) == fingerprints(KEY)
        (tmp_path / "key.asc").write_bytes(b"\xff\xfe")
        (tmp_path / "vllm.lock").unlink()
        assert {one["id"] for one in plan_hosts([host]).errors} == {"source.key-file", "venv.lock"}

    def test_a_lock_of_the_catalog(self, tmp_path: Path) -> None:
        stack = copy.deepcopy(KNOWLEDGE.catalog["stacks"]["h100-vllm-0.7.3-cu126"])
        stack |= {"name": "mine", "venv": stack["venv"] | {"lock": "mine.lock"}}
        (tmp_path / "stacks").mkdir()
        (tmp_path / "stacks" / "mine.yml").write_text(json.dumps(stack, default=str))
        (tmp_path / "locks").mkdir()
        (tmp_path / "locks" / "mine.lock").write_text(LOCK)
        host = HostIntent("gpu0", True, intent=GUIDE | {"firstlight_catalog": [str(tmp_path)]})
        found = plan_hosts([host], stack="mine")
        assert found.errors == [], explain_errors(found.errors)
        assert found.hosts["gpu0"]["roles"]["engine_venv"]["engine_venv_lock_text"] == LOCK


def test_results_of_an_earlier_play_are_no_intent() -> None:
    names = ["firstlight_desired", "firstlight_stack", "nvidia_driver_reboot_required", "nvidia_driver_policy"]
    host = read_host("gpu0", ["head"], names, lambda name: name, ROLES)
    assert dataclasses.asdict(host)["intent"] == {"firstlight_stack": "firstlight_stack"}
    assert host.variables == {"nvidia_driver_policy": "nvidia_driver_policy"}


def test_variables_that_the_plan_has_set_are_no_intent() -> None:
    """A run sets the variables of all roles as facts; a plan made after that must be the same again."""
    host = HostIntent("gpu0", True, intent=GUIDE, variables={"host_tuning_swappiness": 7})
    first = plan_hosts([host]).hosts["gpu0"]
    assert first["given"] == ["host_tuning_swappiness"]
    facts = {name: value for role in first["roles"].values() for name, value in (role or {}).items()}
    known = {**GUIDE, **facts, "firstlight_plan": first}
    again = read_host("gpu0", ["head"], known, known.__getitem__, ROLES)
    assert again.variables == host.variables
    assert plan_hosts([again]).hosts["gpu0"] == first
