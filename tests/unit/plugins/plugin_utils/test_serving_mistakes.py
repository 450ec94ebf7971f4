# SPDX-License-Identifier: Apache-2.0
"""What people get wrong about models, engines and GPUs: each is refused, or told, with a way out."""

from __future__ import annotations

import copy
import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.knowledge import load_knowledge
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan, plan_cluster
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import explain_refusals
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.roles import load_roles

ROOT = Path(__file__).resolve().parents[4]
LOADED = load_knowledge([ROOT / "catalog"], load_roles(ROOT / "roles", ROLES))
KNOWLEDGE = replace(LOADED, schema=functools.cache(LOADED.schema))

H100: dict[str, Any] = {
    "firstlight_hardware": "h100-sxm-4-nvswitch",
    "firstlight_stack": "h100-vllm-0.31",
    "firstlight_model": "qwen2.5-72b",
    "firstlight_firewall": {},
    "firstlight_serving": {"tensor_parallel": 4, "gpu_memory_utilization": 0.92, "max_model_len": 16384, "port": 290},
}
SPARKS: dict[str, Any] = {
    "firstlight_hardware": "gb10",
    "firstlight_stack": "spark-vllm-0.32",
    "firstlight_model": "qwen3.5-397b-a17b-fp8",
    "firstlight_image": "vllm/vllm-openai@sha256:" + "a" * 64,
    "firstlight_fabric": {
        "rails": [
            {"port": "enp1s0f1np1", "subnet": "192.168.100.0/24"},
            {"port": "enP2p1s0f1np1", "subnet": "192.168.101.0/24"},
        ]
    },
    "firstlight_firewall": {},
    "firstlight_serving": {
        "profile": "vllm-multinode",
        "tensor_parallel": 4,
        "max_model_len": 131072,
        "max_num_seqs": 16,
        "max_num_batched_tokens": 4096,
        "port": 290,
        "flags": ["--language-model-only"],
    },
}
HOSTS = {"gb10": 4}


def plan(base: dict[str, Any], variables: dict[str, Any] | None = None, **changes: Any) -> ClusterPlan:
    """The plan of a cluster with changes: of `serving` each key, of everything else the whole."""
    intent = copy.deepcopy(base)
    intent["firstlight_serving"] |= changes.pop("serving", {})
    intent |= {f"firstlight_{name}": value for name, value in changes.items()}
    count = HOSTS.get(intent["firstlight_hardware"], 1)
    hosts = [HostIntent(f"node{index}", index == 0, variables=variables or {}) for index in range(count)]
    return plan_cluster(intent, hosts, KNOWLEDGE)


def flags(*words: str) -> dict[str, Any]:
    return {"serving": {"flags": list(words)}}


@pytest.mark.parametrize("base", [H100, SPARKS])
def test_nothing_is_wrong_to_begin_with(base: dict[str, Any]) -> None:
    made = plan(base)
    assert not made.refusals, explain_refusals(made.refusals)


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("a repository of GGUF", H100, {"model": "unsloth/Qwen3-235B-A22B-GGUF"}, "model.config", "was made from"),
    ("all of the memory", H100, {"serving": {"gpu_memory_utilization": 1.0}}, "serving.utilisation", "to 0.95 or less"),
    ("nearly all", H100, {"serving": {"gpu_memory_utilization": 0.99}}, "serving.utilisation", "to 0.95 or less"),
    ("unified memory", SPARKS, {"serving": {"gpu_memory_utilization": 0.9}}, "serving.utilisation", "to 0.85 or less"),
]


@pytest.mark.parametrize(
    ("base", "changes", "identifier", "remedy"), [pytest.param(*one, id=name) for name, *one in REFUSED]
)
def test_a_mistake_is_refused_with_a_way_out(
    base: dict[str, Any], changes: dict[str, Any], identifier: str, remedy: str
) -> None:
    made = plan(base, **changes)
    assert [one["id"] for one in made.refusals] == [identifier], explain_refusals(made.refusals)
    assert remedy in made.refusals[0]["remedy"]
