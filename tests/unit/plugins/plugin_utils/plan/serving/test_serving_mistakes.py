# SPDX-License-Identifier: Apache-2.0
"""What people get wrong about models, engines and GPUs: each is refused, or told, with a way out."""

from __future__ import annotations

import copy
import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import explain_errors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan, plan_cluster
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import load_planner_context
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import load_roles

ROOT = Path(__file__).resolve().parents[6]
LOADED = load_planner_context([ROOT / "catalog"], load_roles(ROOT / "roles", ROLES))
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


def environment(name: str, value: str) -> dict[str, Any]:
    return {"inference_server_environment": {name: value}}


def flags(*words: str) -> dict[str, Any]:
    return {"serving": {"flags": list(words)}}


@pytest.mark.parametrize("base", [H100, SPARKS])
def test_nothing_is_wrong_to_begin_with(base: dict[str, Any]) -> None:
    made = plan(base)
    assert not made.errors, explain_errors(made.errors)


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("a repository of GGUF", H100, {"model": "unsloth/Qwen3-235B-A22B-GGUF"}, "model.config", "was made from"),
    ("all of the memory", H100, {"serving": {"gpu_memory_utilization": 1.0}}, "serving.utilisation", "to 0.95 or less"),
    ("nearly all", H100, {"serving": {"gpu_memory_utilization": 0.99}}, "serving.utilisation", "to 0.95 or less"),
    ("unified memory", SPARKS, {"serving": {"gpu_memory_utilization": 0.9}}, "serving.utilisation", "to 0.85 or less"),
    ("AWQ of BF16", H100, flags("--quantization", "awq"), "model.quantization", "vllm quantises at load time with fp8"),
    ("GPTQ of BF16", H100, flags("-q", "gptq_marlin"), "model.quantization", "take --quantization out"),
    (
        "another method",
        H100,
        {"model": "llama-3.3-70b-fp8-dynamic", **flags("-q", "fp8")},
        "model.quantization",
        "take",
    ),
    ("NVFP4 cache on Hopper", H100, {"serving": {"kv_cache_dtype": "nvfp4"}}, "hazard.known", "kv_cache_dtype to fp8"),
    (
        "no InfiniBand",
        SPARKS,
        {"variables": environment("NCCL_IB_DISABLE", "1")},
        "network.contradiction",
        "rdma to false",
    ),
    ("sockets", SPARKS, {"variables": environment("NCCL_NET", "Socket")}, "network.contradiction", "rdma to false"),
    ("NCCL misspelt", SPARKS, {"variables": environment("NCCL_DEBG", "INFO")}, "flags.environment", "write NCCL_DEBUG"),
    ("vLLM misspelt", H100, {"variables": environment("VLLM_LOGGING_LEVL", "x")}, "flags.environment", "LOGGING_LEVEL"),
    ("letters swapped", H100, {"variables": environment("VLLM_HOSTI_P", "1")}, "flags.environment", "VLLM_HOST_IP"),
    (
        "small letters",
        H100,
        {"variables": environment("VLLM_USE_V1x", "1")},
        "flags.environment",
        "remove VLLM_USE_V1x",
    ),
    ("experts of a dense model", H100, flags("-q", "experts_int8"), "model.quantization", "take --quantization out"),
    (
        "fewer tokens than requests",
        H100,
        {"serving": {"max_num_seqs": 4096, "max_num_batched_tokens": 1024}},
        "flags.combination",
        "set max_num_seqs to 1024 or less",
    ),
    (
        "prompts in one step",
        H100,
        {"serving": {"max_num_batched_tokens": 1024, "flags": ["--no-enable-chunked-prefill"]}},
        "flags.combination",
        "to 16384 or more",
    ),
    ("tools without a parser", H100, flags("--enable-auto-tool-choice"), "flags.combination", "tool_call_parser"),
    (
        "graphs and none",
        H100,
        flags("--enforce-eager", "--compilation-config", '{"cudagraph_mode": "FULL"}'),
        "flags.combination",
        "remove --enforce-eager",
    ),
    (
        "a draft without a model",
        H100,
        flags("--speculative-config", '{"method": "draft_model", "num_speculative_tokens": 3}'),
        "flags.combination",
        "add model",
    ),
    ("an odd block", H100, flags("--block-size", "17"), "flags.combination", "to 16,"),
    ("no block", H100, flags("--block-size", "0"), "flags.value", "correct it"),
    ("less than no memory", H100, flags("--cpu-offload-gb", "-5"), "flags.value", "correct it"),
    (
        "two of four GPUs",
        H100,
        {"variables": environment("CUDA_VISIBLE_DEVICES", "0,1")},
        "flags.combination",
        "remove CUDA_V",
    ),
    ("a type misspelt", H100, {"serving": {"kv_cache_dtype": "fp8_e4m4"}}, "flags.value", "fp8_e4m3"),
    ("one flag twice", H100, flags("--seed", "1", "--seed", "2"), "serving.flags", "keep one --seed"),
    (
        "a port that is no rail",
        SPARKS,
        {"variables": environment("NCCL_SOCKET_IFNAME", "eth7")},
        "network.contradiction",
        "leave",
    ),
    (
        "one address on all",
        SPARKS,
        {"variables": environment("VLLM_HOST_IP", "10.0.0.1")},
        "network.contradiction",
        "remove VLLM",
    ),
    ("a parser misspelt", SPARKS, {"serving": {"tool_call_parser": "qwen3_xlm"}}, "flags.value", "qwen3_xml"),
]


@pytest.mark.parametrize(
    ("base", "changes", "identifier", "remedy"), [pytest.param(*one, id=name) for name, *one in REFUSED]
)
def test_a_mistake_is_refused_with_a_way_out(
    base: dict[str, Any], changes: dict[str, Any], identifier: str, remedy: str
) -> None:
    made = plan(base, **changes)
    assert [one["id"] for one in made.errors] == [identifier], explain_errors(made.errors)
    assert remedy in made.errors[0]["remedy"]


NOTED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "FP8 of BF16",
        H100,
        flags("--quantization", "fp8"),
        "while it is loaded: linear layers and experts are counted in 8",
    ),
    (
        "idle GPUs",
        H100,
        {"serving": {"tensor_parallel": 2, "max_model_len": 8192}},
        "2 of 4 GPUs stay idle: tensor_parallel 4 or profile vllm-replicas with replicas 2 would use them",
    ),
    (
        "a pipeline over Sparks",
        SPARKS,
        {"serving": {"tensor_parallel": 1, "pipeline_parallel": 4}},
        "pipeline-over-sparks: pipeline parallel over hosts of one GPU",
    ),
    ("blocks of a hybrid", SPARKS, flags("--block-size", "128"), "--block-size 128 has no effect"),
]


@pytest.mark.parametrize(("base", "changes", "told"), [pytest.param(*one, id=name) for name, *one in NOTED])
def test_what_is_legal_and_surprising_is_told(base: dict[str, Any], changes: dict[str, Any], told: str) -> None:
    made = plan(base, **changes)
    assert not made.errors, explain_errors(made.errors)
    assert [one for one in made.notes if told in one], made.notes


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        pytest.param(SPARKS, {"serving": {"tool_call_parser": "qwen3_xml"}}, id="a parser that vLLM has"),
        pytest.param(H100, {"variables": environment("VLLM_NEW_IN_NEXT_RELEASE", "1")}, id="a variable of tomorrow"),
        pytest.param(H100, {"variables": environment("NCCL_P2P_LEVEL", "NVL")}, id="a variable of NCCL"),
        pytest.param(H100, flags("--block-size", "32"), id="a block size that is kept"),
    ],
)
def test_what_is_right_is_left_alone(base: dict[str, Any], changes: dict[str, Any]) -> None:
    made = plan(base, **changes)
    assert not made.errors, explain_errors(made.errors)
    assert list(made.notes) == list(plan(base).notes)


def test_weights_quantised_at_load_are_counted_as_they_will_lie_in_memory() -> None:
    whole, halved = (plan(H100, **flags(*words)).document()["fit"] for words in ((), ("--quantization", "fp8")))
    unquantised = 2 * 2 * 152064 * 8192 / 4  # embeddings and output matrix, on one of four GPUs
    expected = (whole["weights_bytes_per_gpu"] - unquantised) / 2 + unquantised
    assert halved["weights_bytes_per_gpu"] == pytest.approx(expected, rel=0.005)
    assert halved["kv_tokens"] > whole["kv_tokens"]


def test_a_version_that_loads_everything_in_16_bits_first_is_counted_so() -> None:
    changes: dict[str, Any] = {"stack": "h100-vllm-0.7.3-cu126", "model": "llama-3.3-70b"}
    whole, same = (plan(H100, **changes, **flags(*words)) for words in ((), ("--quantization", "fp8")))
    weights = [one.document()["fit"]["weights_bytes_per_gpu"] for one in (whole, same)]
    assert weights[0] == weights[1]
    assert any("loads everything in 16 bits first" in one for one in same.notes)


@pytest.mark.parametrize(
    ("variables", "changes", "missing"),
    [
        pytest.param({}, {}, ["weights.token"], id="no token"),
        pytest.param({"model_weights_token_path": ""}, {}, ["weights.token"], id="an empty path"),
        pytest.param({"model_weights_token_path": "/etc/firstlight/hub-token"}, {}, [], id="a file"),
        pytest.param({"model_weights_token": "hf_secret"}, {}, [], id="Vault"),
        pytest.param({}, {"weights_source": "/mnt/models"}, [], id="a directory of the head"),
        pytest.param({}, {"model": "qwen2.5-72b"}, [], id="not gated"),
    ],
)
def test_a_gated_model_needs_a_token_before_anything_is_done(
    variables: dict[str, Any], changes: dict[str, Any], missing: list[str]
) -> None:
    made = plan(H100, variables, **{"model": "llama-3.3-70b", **changes})
    assert not made.errors, explain_errors(made.errors)
    assert [one["id"] for one in made.missing_inputs] == missing
    assert any("gated, licence Llama-3.3-Community" in one for one in made.notes) == (not changes)
    assert "hf_secret" not in str(made.document()) + str(made.hosts)


def test_every_model_of_the_catalog_says_its_licence_and_whether_it_is_gated() -> None:
    for name, model in KNOWLEDGE.catalog["models"].items():
        assert model.get("licence"), name
        assert isinstance(model.get("gated"), bool), name
