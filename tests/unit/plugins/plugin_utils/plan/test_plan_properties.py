# SPDX-License-Identifier: Apache-2.0
"""What holds for every plan, whatever is asked for."""

from __future__ import annotations

import copy
import functools
import json
import re
from dataclasses import replace
from ipaddress import IPv4Network
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.arguments import check_arguments
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan, plan_cluster
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import load_planner_context
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import load_roles
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

ROOT = Path(__file__).resolve().parents[5]
LOADED = load_planner_context([ROOT / "catalog"], load_roles(ROOT / "roles", ROLES))
KNOWLEDGE = replace(LOADED, schema=functools.cache(LOADED.schema))  # not read again for each of some hundred plans
SCHEMAS = {name: KNOWLEDGE.schema(*name.split("==")) for name in KNOWLEDGE.schemas}

RAILS = [
    {"port": "enp1s0f1np1", "subnet": "192.168.100.0/24"},
    {"port": "enP2p1s0f1np1", "subnet": "192.168.101.0/24"},
]
FLAGS = [
    ["--seed", "7"],
    ["--enforce-eager"],
    ["--scheduler-policy", "continuous"],
    ["--max-num-seqs=8"],
    ["--tp", "4"],
    ["--language-model-only"],
    ["--enable-expert-parallel"],
    ["--swap-space", "4"],
    ["--kv-cache-memory-bytes", "8G"],
    ["--speculative-config", '{"method":"mtp","num_speculative_tokens":2}'],
]
SERVING = st.fixed_dictionaries(
    {},
    optional={
        "profile": st.sampled_from(["vllm-ray", "vllm-multinode", "vllm-single", "sglang", "tensorrt-llm", "nothing"]),
        "tensor_parallel": st.sampled_from([1, 2, 3, 4, 8, 0, "4"]),
        "pipeline_parallel": st.sampled_from([1, 2, 4]),
        "gpu_memory_utilization": st.sampled_from([0.5, 0.8, 0.85, 0.9, 0.95, 1.5, "0.8"]),
        "max_model_len": st.sampled_from([256, 8192, 32768, 131072, 10**7]),
        "max_num_seqs": st.integers(1, 512),
        "max_num_batched_tokens": st.sampled_from([2048, 8192, 16384]),
        "kv_cache_dtype": st.sampled_from(["auto", "fp8", "fp8_e5m2", "int3"]),
        "expert_parallel": st.booleans(),
        "prefix_caching": st.booleans(),
        "tool_call_parser": st.sampled_from(["hermes", "qwen3_coder", "qwen3_xml", "nobody"]),
        "reasoning_parser": st.sampled_from(["qwen3", "deepseek_r1", "nobody"]),
        "speculative": st.sampled_from([{"method": "mtp", "tokens": 2}, {"method": "mtp"}, {}, "mtp"]),
        "listen": st.sampled_from(["127.0.0.1", "0.0.0.0", "everywhere"]),
        "flags": st.lists(st.sampled_from(FLAGS), max_size=3, unique_by=lambda one: one[0]).map(
            lambda lists: [word for one in lists for word in one]
        ),
    },
)


def any_size(ranks: int) -> dict[str, Any]:
    """A small model that splits over so many GPUs, whatever their number."""
    return {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 64 * ranks,
        "intermediate_size": 128 * ranks,
        "num_attention_heads": ranks,
        "num_key_value_heads": ranks,
        "head_dim": 64,
        "vocab_size": 64 * ranks,
        "max_position_embeddings": 512,
    }


def hosts(count: int) -> list[HostIntent]:
    return [HostIntent(f"node{index}", index == 0) for index in range(count)]


def plan(count: int, **intent: Any) -> ClusterPlan:
    wanted = {
        "firstlight_hardware": "gb10",
        "firstlight_stack": "spark-vllm-0.32",
        "firstlight_model": "qwen3.5-397b-a17b-fp8",
        **({"firstlight_fabric": {"rails": copy.deepcopy(RAILS)}} if count > 1 else {}),
        "firstlight_firewall": {},
        **{f"firstlight_{name}": value for name, value in intent.items()},
    }
    return plan_cluster(wanted, hosts(count), KNOWLEDGE)


@examples(120)
@given(
    serving=SERVING,
    place=st.sampled_from([("gb10", 4), ("gb10", 1), ("h100-sxm-8", 1), ("h100-sxm-4", 1), ("h200-sxm-8", 2)]),
    stack=st.sampled_from(sorted(KNOWLEDGE.catalog["stacks"])),
    model=st.sampled_from(sorted(KNOWLEDGE.catalog["models"])),
)
def test_a_plan_that_passes_renders_no_flag_its_engine_lacks(
    serving: dict[str, Any], place: tuple[str, int], stack: str, model: str
) -> None:
    hardware, count = place
    made = plan(count, hardware=hardware, stack=stack, model=model, serving=serving)
    document = made.document()
    assert json.loads(json.dumps(document)) == document
    for error in made.errors:
        assert all(error.values()), error
    if made.errors:
        return
    assert document["fit"]["fits"]
    assert serving.get("tensor_parallel", document["fit"]["tensor_parallel"]) in document["fit"]["legal_tp"]
    schema = SCHEMAS[f"{made.cluster['engine']}=={made.cluster['engine_version']}"]
    assert schema is not None
    served = [one for host in document["hosts"].values() for one in host["launch"] if one["name"] == "server"]
    assert served
    for command in served:
        findings = check_arguments(schema, command["engine_argv"], KNOWLEDGE.replaced)
        assert [one for one in findings if one["problem"]] == []


LEGALITY = ("tp.", "pp.", "world.", "serving.parallel", "launch.world", "launch.replicas")
TENSOR, PIPELINE = (rf"(?:firstlight_serving\.)?{kind}[ _]parallel" for kind in ("tensor", "pipeline"))
OFFERED = (
    re.compile(rf"set {TENSOR} to (?P<tensor>\d+) and {PIPELINE} to (?P<pipeline>\d+)"),
    re.compile(rf"set {TENSOR} to (?:one of )?(?P<sizes>\d+(?:, \d+)*)(?![\d,]* and {PIPELINE})"),
    re.compile(rf"list (?P<hosts>\d+) hosts?(?: with {TENSOR} (?P<tensor>\d+))?"),
    re.compile(r"set firstlight_serving.replicas to (?P<replicas>\d+)"),
    re.compile(rf"set {PIPELINE} to (?P<pipeline>\d+) or less"),
)


def offers(remedy: str) -> list[dict[str, int]]:
    """Every change of sizes that a remedy names, as what it sets."""
    found: list[dict[str, int]] = []
    for one in OFFERED:
        for match in one.finditer(remedy):
            given = {key: value for key, value in match.groupdict().items() if value}
            sizes = given.pop("sizes", None)
            found += [{"tensor": int(size)} for size in sizes.split(", ")] if sizes else []
            found += [{key: int(value) for key, value in given.items()}] if given else []
    return found


def illegal(made: ClusterPlan) -> list[dict[str, str]]:
    return [one for one in made.errors if one["id"].startswith(LEGALITY)]


@pytest.mark.slow
@examples(150)
@given(
    serving=st.fixed_dictionaries(
        {},
        optional={
            "tensor_parallel": st.integers(1, 17),
            "pipeline_parallel": st.sampled_from([1, 2, 3, 5, 100]),
            "expert_parallel": st.booleans(),
        },
    ),
    replicas=st.none() | st.integers(2, 9),
    place=st.sampled_from([("gb10", count) for count in range(1, 10)] + [("h100-sxm-8", 1), ("h100-sxm-4", 3)]),
    model=st.sampled_from(sorted(KNOWLEDGE.catalog["models"])),
)
def test_what_a_remedy_names_is_legal(
    serving: dict[str, Any], replicas: int | None, place: tuple[str, int], model: str
) -> None:
    hardware, count = place
    if replicas:
        serving = {**serving, "replicas": replicas, "profile": "vllm-replicas" if count == 1 else "ray-serve"}
    made = plan(count, hardware=hardware, model=model, serving=serving)
    for error in illegal(made):
        for offer in offers(error["remedy"]):
            names = {"tensor": "tensor_parallel", "pipeline": "pipeline_parallel", "replicas": "replicas"}
            changed = {**serving, **{names[key]: value for key, value in offer.items() if key in names}}
            again = plan(offer.get("hosts", count), hardware=hardware, model=model, serving=changed)
            assert error["id"] not in [one["id"] for one in again.errors], (error, offer, again.errors)
            new = {one["id"] for one in illegal(again)} - {one["id"] for one in illegal(made)}
            assert not new, (error, offer, again.errors)


def test_five_hosts_are_offered_what_a_model_of_32_heads_can_be_cut_into() -> None:
    for serving in ({"tensor_parallel": 4}, {"tensor_parallel": 5}, {}):
        for error in illegal(plan(5, serving=serving)):
            assert error["remedy"].startswith(
                "set tensor_parallel to 1 and pipeline_parallel to 5, or list 4 hosts with tensor_parallel 4"
            )


@examples(60)
@given(
    numbers=st.lists(st.integers(0, 400), min_size=1, max_size=24, unique=True),
    prefix=st.integers(16, 24),
    rails=st.integers(1, 4),
)
def test_no_two_ports_share_an_address_and_each_is_in_its_own_subnet(
    numbers: list[int], prefix: int, rails: int
) -> None:
    subnets = [str(one) for one in islice(IPv4Network("10.64.0.0/12").subnets(new_prefix=prefix), rails)]
    wanted = {
        "firstlight_fabric": {
            "rails": [{"port": f"eth{number}", "subnet": subnet} for number, subnet in enumerate(subnets)]
        }
    }
    cluster = [
        HostIntent(f"node{number}", place == 0, intent={"firstlight_fabric_number": number})
        for place, number in enumerate(numbers)
    ]
    made = plan_cluster(
        {
            "firstlight_hardware": "gb10",
            "firstlight_stack": "spark-vllm-0.32",
            "firstlight_model": "org/tiny",
            "firstlight_serving": {"tensor_parallel": len(numbers), "max_model_len": 256},
            "firstlight_firewall": {},
            **wanted,
        },
        cluster,
        KNOWLEDGE,
        config=any_size(len(numbers)),
    )
    too_small = max(numbers) + 10 >= IPv4Network(subnets[0]).num_addresses - 1
    assert ("fabric.subnet" in {one["id"] for one in made.errors}) == too_small
    assert bool(made.errors) == too_small, made.errors
    if too_small:
        return
    addresses = [
        (number, port["address"]) for host in made.hosts.values() for number, port in enumerate(host["host"]["fabric"])
    ]
    assert len({address for _, address in addresses}) == len(numbers) * rails
    for number, address in addresses:
        assert IPv4Network(address, strict=False) == IPv4Network(subnets[number])


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda some: st.lists(some) | st.dictionaries(st.text(), some),
    max_leaves=8,
)
PLACES = [
    *([name] for name in ("hardware", "stack", "model", "fabric", "serving", "image", "networks", "model_revision")),
    *(["serving", key] for key in ("tensor_parallel", "gpu_memory_utilization", "max_model_len", "flags", "listen")),
    *(["serving", key] for key in ("port", "speculative", "kv_cache_dtype", "profile", "served_name", "start_timeout")),
    *(["fabric", key] for key in ("mtu", "rails", "rdma")),
]


@examples(120)
@given(place=st.sampled_from(PLACES), value=ANYTHING)
def test_nothing_an_operator_writes_is_a_traceback(place: list[str], value: Any) -> None:
    name, *keys = place
    before: dict[str, Any] = {"rails": copy.deepcopy(RAILS)} if name == "fabric" else {}
    assert plan(4, **{name: {**before, keys[0]: value} if keys else value}).document()


@examples(30)
@given(port=ANYTHING, subnet=ANYTHING)
def test_nothing_written_in_a_rail_is_a_traceback(port: Any, subnet: Any) -> None:
    assert plan(4, fabric={"rails": [{"port": port, "subnet": subnet}]}).errors
