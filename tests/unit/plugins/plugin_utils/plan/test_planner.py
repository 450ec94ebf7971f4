# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors, explain_errors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.intent import read_fabric
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.variables import fabric_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan, plan_cluster
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import load_planner_context
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import RoleInterface, load_roles
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ideal import ideal

ROOT = Path(__file__).parents[5]
KNOWLEDGE = load_planner_context([ROOT / "catalog"], {})
GOLDEN = ROOT / "tests" / "golden" / "lab" / "plan.json"

INTENT: dict[str, Any] = {
    "firstlight_hardware": "gb10",
    "firstlight_stack": "lab",
    "firstlight_model": "tiny",
    "firstlight_fabric": {
        "mtu": 9000,
        "rails": [
            {"port": "enp1s0f1np1", "subnet": "192.168.100.0/24"},
            {"port": "enP2p1s0f1np1", "subnet": "192.168.101.0/24"},
        ],
        "rdma": False,
    },
    "firstlight_exposed_ok": ["hosts"],
    "firstlight_serving": {
        "tensor_parallel": 4,
        "max_model_len": 256,
        "port": 290,
        "listen": "127.0.0.1",
        "flags": ["--dtype", "float32", "--enforce-eager", "--kv-cache-memory-bytes", "64M"],
    },
}
CATALOG: dict[str, Any] = {
    **load_catalog([ROOT / "catalog"]),
    "stacks": {
        "lab": {
            "name": "lab",
            "source": "made here",
            "date": "2026-01-01",
            "packages": {"docker.io": "20.10.24", "nvidia-container-toolkit": "1.19.0-1"},
            "image": {
                "repository": "registry.lab.example/vllm",
                "digest": "sha256:" + "1" * 64,
                "size_bytes": 2_000_000_000,
            },
            "requires": {"vllm": "0.32.0", "ray": "2.60.0"},
            "weights_endpoint": "https://hub.lab.example",
        }
    },
    "models": {
        "tiny": {
            "name": "tiny",
            "source": "made here",
            "date": "2026-01-01",
            "repository": "lab/tiny",
            "revision": "2" * 40,
            "size_bytes": 1_000_000,
            "context": 512,
            "config": {
                "model_type": "qwen3",
                "dtype": "float32",
                "num_hidden_layers": 2,
                "hidden_size": 256,
                "intermediate_size": 512,
                "num_attention_heads": 4,
                "num_key_value_heads": 4,
                "head_dim": 64,
                "vocab_size": 1024,
                "max_position_embeddings": 512,
            },
        }
    },
}
INTERFACES = {
    **{role: RoleInterface() for role in ROLES},
    **load_roles(
        ROOT / "roles",
        ("preflight", "nvidia_driver", "cuda_toolkit", "host_tuning", "fabric_network", "engine_venv"),
    ),
    "container_runtime": RoleInterface(
        {"container_runtime_service": "docker.service", "container_runtime_daemon": {"live-restore": True}}
    ),
    "inference_server": RoleInterface(
        {"inference_server_api_key": "", "inference_server_restart": False}, frozenset({"inference_server_port"})
    ),
}


def hosts(count: int = 4, heads: tuple[int, ...] = (0,), **variables: Any) -> list[HostIntent]:
    return [HostIntent(f"spark{index}", index in heads, variables=variables) for index in range(count)]


def intent(**changes: Any) -> dict[str, Any]:
    changed = copy.deepcopy(INTENT)
    for name, value in changes.items():
        whole = f"firstlight_{name}"
        if isinstance(value, dict) and isinstance(changed.get(whole), dict):
            changed[whole].update(value)
        else:
            changed[whole] = value
    return changed


def whole(wanted: dict[str, Any] | None = None, on: list[HostIntent] | None = None, catalog: Any = None) -> ClusterPlan:
    knowledge = dataclasses.replace(KNOWLEDGE, catalog=catalog or CATALOG, roles=INTERFACES)
    return plan_cluster(wanted or INTENT, on or hosts(), knowledge)


def plan(wanted: dict[str, Any] | None = None, on: list[HostIntent] | None = None) -> Mapping[str, dict[str, Any]]:
    planned = whole(wanted, on)
    assert not planned.errors, explain_errors(planned.errors)
    return planned.hosts


def errors(wanted: dict[str, Any], on: list[HostIntent] | None = None) -> list[dict[str, str]]:
    planned = whole(wanted, on)
    found = list(planned.errors)
    assert all(one["desired"] == {} for one in planned.hosts.values() if found)
    for error in found:
        assert set(error) == {"id", "found", "rule", "remedy"}
        assert all(error.values())
    return found


def test_the_plan_of_the_lab_is_the_golden_one() -> None:
    """Regenerate with FIRSTLIGHT_UPDATE_GOLDEN=1, and read the difference before you commit it."""
    plans = plan()
    for one in plans.values():
        # What is asked of an observation names the same, and has a test of its own.
        assert one.pop("observe").keys() == one["desired"].keys()
        # What is rendered for a role is that role's golden test; here it counts what is wanted.
        one["desired"] = {
            role: {kind: sorted(items) if isinstance(items, dict) else items for kind, items in state.items()}
            for role, state in one["desired"].items()
        }
    text = json.dumps(plans, indent=2, sort_keys=True) + "\n"
    if os.environ.get("FIRSTLIGHT_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_a_plan_is_plain_data_and_repeats() -> None:
    assert json.loads(json.dumps(plan())) == plan()


def test_a_host_that_has_its_plan_has_nothing_pending() -> None:
    plans = plan()
    observed = {name: {role: ideal(state) for role, state in one["desired"].items()} for name, one in plans.items()}
    for name, one in plans.items():
        for role, state in one["desired"].items():
            assert differences(state, observed[name][role], {"spark0": observed["spark0"][role]}) == []


@given(st.integers(1, 40), st.integers(0, 200))
def test_appended_hosts_never_move_the_others(count: int, more: int) -> None:
    fabric = read_fabric(INTENT, None, None, hosts(count), PlanErrors())
    grown = read_fabric(INTENT, None, None, hosts(count + more), PlanErrors())
    before = [fabric_of(fabric, index) for index in range(count)]
    after = [fabric_of(grown, index) for index in range(count + more)]
    assert after[:count] == before
    assert len({entry["address"] for one in after for entry in one}) == 2 * (count + more)


def test_addresses_follow_the_inventory_and_the_head_has_rank_zero() -> None:
    plans = plan(on=hosts(heads=(2,)))
    assert [plans[f"spark{index}"]["host"]["fabric"][0]["address"] for index in range(4)] == [
        f"192.168.100.{10 + index}/24" for index in range(4)
    ]
    assert [plans[f"spark{index}"]["host"]["rank"] for index in range(4)] == [1, 2, 0, 3]
    assert plans["spark0"]["roles"]["ray_cluster"]["ray_cluster_head_address"] == "192.168.100.12"
    assert plans["spark0"]["roles"]["ray_cluster"]["ray_cluster_head_host"] == "spark2"


def test_only_the_head_serves() -> None:
    plans = plan()
    assert plans["spark0"]["desired"]["inference_server"]
    assert all(plans[name]["desired"]["inference_server"] == {} for name in ("spark1", "spark2", "spark3"))
    assert all(plans[name]["roles"]["inference_server"] is None for name in ("spark1", "spark2", "spark3"))
    assert all(plans[name]["desired"]["ray_cluster"] for name in plans)


def test_one_host_uses_neither_ray_nor_a_fabric() -> None:
    alone = intent(hardware="h100-sxm-4-nvswitch", fabric=None, serving={"tensor_parallel": 4})
    one = plan(alone, hosts(1))["spark0"]
    assert one["roles"]["ray_cluster"] is None
    assert one["desired"]["ray_cluster"] == {}
    assert one["desired"]["fabric_network"] == {}
    assert one["roles"]["inference_server"]["inference_server_profile"] == "vllm-single"
    assert one["roles"]["inference_server"]["inference_server_node_address"] == "127.0.0.1"
    assert one["roles"]["inference_image"]["inference_image_requires"] == {"vllm": "0.32.0"}


def test_a_guest_is_planned_with_a_word_on_its_driver() -> None:
    """The stack's own driver for a machine whose fabric another one runs: said, and left to the operator."""
    catalog = load_catalog([ROOT / "catalog"])
    for profile, held, notes in (("partition", False, 1), ("partition", True, 0), ("nvswitch", False, 0)):
        alone = intent(hardware=f"h100-sxm-4-{profile}", fabric=None, serving={"tensor_parallel": 4})
        alone |= {"firstlight_stack": "h100-vllm-0.31", "firstlight_model": "qwen3-235b-a22b-fp8"}
        on = hosts(1, (0,), **({"nvidia_driver_policy": "verify-and-hold"} if held else {}))
        planned = whole(alone, on, catalog)
        assert not planned.errors, explain_errors(planned.errors)
        assert len([note for note in planned.notes if "run by the owner of the host" in note]) == notes


def test_without_ray_every_host_has_its_rank_of_the_server() -> None:
    plans = plan(intent(serving={"profile": "vllm-multinode"}))
    roles = {name: one["roles"] for name, one in plans.items()}
    assert all(one["ray_cluster"] is None for one in roles.values())
    assert [one["inference_server"]["inference_server_rank"] for one in roles.values()] == [0, 1, 2, 3]
    nodes = [one["inference_server"]["inference_server_nodes"] for one in roles.values()]
    assert all(one == nodes[0] for one in nodes)
    assert [node["name"] for node in nodes[0]] == ["spark0", "spark1", "spark2", "spark3"]
    assert all(one["desired"]["inference_server"]["units"] for one in plans.values())
    words = [one["host"]["launch"][0]["argv"] for one in plans.values()]
    assert ["--headless" in one for one in words] == [False, True, True, True]
    assert all("--env=GLOO_SOCKET_IFNAME=enp1s0f1np1" in one for one in words)


def test_replicas_serve_behind_one_address() -> None:
    serving = {"profile": "vllm-replicas", "replicas": 2, "tensor_parallel": 2, "port": 290}
    one = plan(intent(hardware="h100-sxm-4-nvswitch", fabric=None, serving=serving), hosts(1))["spark0"]
    assert [command["name"] for command in one["host"]["launch"]] == ["server-0", "server-1", "balancer"]
    assert "firstlight-balancer.service" in one["desired"]["inference_server"]["units"]
    assert one["roles"]["inference_server"]["inference_server_replicas"] == 2


@pytest.mark.parametrize(
    ("serving", "identifier", "words"),
    [
        ({"profile": "vllm-replicas", "replicas": 3, "tensor_parallel": 2}, "serving.parallel", "replicas to 2"),
        ({"replicas": 2, "tensor_parallel": 2}, "serving.profile", "set firstlight_serving.profile to vllm-replicas"),
        ({"profile": "vllm-replicas", "replicas": 17}, "serving.value", "from 1 to 16"),
        ({"profile": "vllm-multinode", "tensor_parallel": 4}, "serving.profile", "are for several"),
    ],
)
def test_replicas_that_cannot_be_are_refused(serving: dict[str, Any], identifier: str, words: str) -> None:
    alone = intent(hardware="h100-sxm-4-nvswitch", fabric=None, serving=serving)
    found = errors(alone, hosts(1))
    assert any(error["id"] == identifier and words in " ".join(map(str, error.values())) for error in found)


def test_thousands_are_written_as_on_the_command_line_and_planned_as_numbers() -> None:
    serving = {"max_model_len": "0.5K", "max_num_seqs": "0.1k", "max_num_batched_tokens": "2K"}
    written = plan(intent(serving=serving), hosts(4))["spark0"]["host"]["launch"]
    assert (
        written
        == plan(intent(serving={"max_model_len": 512, "max_num_seqs": 100, "max_num_batched_tokens": 2048}), hosts(4))[
            "spark0"
        ]["host"]["launch"]
    )


def test_ray_serve_has_a_replica_on_every_host() -> None:
    """Each host is a group of its own: a lost worker takes nobody down."""
    made = plan(intent(serving={"profile": "ray-serve", "tensor_parallel": None}))
    head, worker = made["spark0"], made["spark1"]
    assert [command["name"] for command in head["host"]["launch"]] == ["ray", "server"]
    assert [command["name"] for command in worker["host"]["launch"]] == ["ray"]
    roles = head["roles"]["inference_server"]
    assert (roles["inference_server_replicas"], roles["inference_server_tensor_parallel"]) == (4, 1)
    assert list(head["desired"]["supervisor"]["groups"]) == ["server"]
    assert list(worker["desired"]["supervisor"]["groups"]) == ["worker-spark1"]
    assert not worker["desired"]["inference_server"]


@pytest.mark.parametrize(
    ("serving", "count", "identifier", "words"),
    [
        ({"profile": "ray-serve", "replicas": 3, "tensor_parallel": 1}, 4, "serving.parallel", "replicas to 4"),
        ({"profile": "ray-serve", "replicas": 2, "tensor_parallel": 2}, 4, "launch.world", "a divisor of 1"),
        ({"profile": "ray-serve"}, 1, "serving.profile", "are for several"),
        ({"profile": "ray-serve", "runtime": "venv"}, 4, "serving.profile", "docker"),
    ],
)
def test_a_spread_of_replicas_that_cannot_be_is_refused(
    serving: dict[str, Any], count: int, identifier: str, words: str
) -> None:
    found = errors(intent(serving=serving), hosts(count))
    assert any(error["id"] == identifier and words in " ".join(map(str, error.values())) for error in found)


class TestOperatorWins:
    def test_over_a_default_and_over_the_plan(self) -> None:
        roles = plan(on=hosts(host_tuning_swappiness=10, inference_server_port=900))["spark0"]["roles"]
        assert roles["host_tuning"]["host_tuning_swappiness"] == 10
        assert roles["inference_server"]["inference_server_port"] == 900

    def test_and_the_state_follows(self) -> None:
        one = plan(on=hosts(host_tuning_swappiness=10))["spark1"]
        assert one["desired"]["host_tuning"]["sysctl"]["vm.swappiness"] == "10"

    def test_and_so_do_the_roles_that_use_the_same_thing(self) -> None:
        reference = "other/image@sha256:" + "3" * 64
        roles = plan(on=hosts(inference_image_reference=reference, model_weights_directory="/data/m"))["spark0"][
            "roles"
        ]
        name = "firstlight/engine:sha256-" + "3" * 64
        assert roles["ray_cluster"]["ray_cluster_image"] == name
        assert roles["inference_server"]["inference_server_image"] == name
        assert roles["ray_cluster"]["ray_cluster_model_directory"] == "/data/m"
        assert roles["inference_server"]["inference_server_model_directory"] == "/data/m"
        assert roles["preflight"]["preflight_disk"] == {"/data/m": 1_000_000}

    def test_a_secret_never_enters_the_plan(self) -> None:
        plans = plan(on=hosts(ray_cluster_token="very-secret", inference_server_api_key="very-secret"))
        assert "very-secret" not in json.dumps(plans)
        assert "inference_server_api_key" not in json.dumps(plans)


class TestMemory:
    def flags(self, **serving: Any) -> list[str]:
        flags: list[str] = plan(intent(serving=serving))["spark0"]["roles"]["inference_server"][
            "inference_server_flags"
        ]
        return flags

    def test_what_is_free_at_a_start_is_the_default_on_unified_memory(self) -> None:
        assert self.flags(flags=[])[2:4] == ["--gpu-memory-utilization", "0.82"]

    def test_a_cache_of_a_given_size_comes_with_the_share_that_it_takes(self) -> None:
        """Two to three GiB of runtime and 64 MiB of 121.7 GiB: the engine's own 0.92 would never be free."""
        for flags in (self.flags(), self.flags(flags=["--kv-cache-memory-bytes=64M"])):
            share = float(flags[flags.index("--gpu-memory-utilization") + 1])
            assert 0.02 <= share <= 0.03
        kept = self.flags(gpu_memory_utilization=0.5)
        assert kept[kept.index("--gpu-memory-utilization") + 1] == "0.5"

    def test_a_lower_share_is_kept(self) -> None:
        assert self.flags(gpu_memory_utilization=0.7)[:4] == [
            "--max-model-len",
            "256",
            "--gpu-memory-utilization",
            "0.7",
        ]

    def test_other_hardware_may_take_more(self) -> None:
        alone = intent(hardware="h100-sxm-4-nvswitch", fabric=None, serving={"gpu_memory_utilization": 0.95})
        assert plan(alone, hosts(1))


def test_a_stack_may_set_what_a_role_would_default() -> None:
    assert plan()["spark0"]["roles"]["container_runtime"]["container_runtime_daemon"] == {"live-restore": True}
    catalog = copy.deepcopy(CATALOG)
    catalog["stacks"]["lab"] |= {
        "daemon": {"debug": True},
        "distributions": [{"distribution": "debian", "version": "12"}],
    }
    one = whole(catalog=catalog).hosts["spark0"]
    assert one["roles"]["container_runtime"]["container_runtime_daemon"] == {"debug": True}
    assert one["desired"]["preflight"]["distributions"] == [{"distribution": "debian", "version": "12"}]


def test_rdma_names_the_devices_of_the_rails() -> None:
    role = plan(intent(fabric={"rdma": True}))["spark0"]["roles"]["ray_cluster"]
    assert role["ray_cluster_rdma"] is True
    assert role["ray_cluster_environment"] == {"NCCL_IB_HCA": "=rocep1s0f1:1,roceP2p1s0f1:1", "NCCL_NET": "IB"}
    renamed = intent(fabric={"rdma": True, "rails": [{"port": "eth7", "subnet": "10.0.0.0/24"}]})
    assert plan(renamed)["spark0"]["roles"]["ray_cluster"]["ray_cluster_environment"] == {"NCCL_NET": "IB"}


RAILS = INTENT["firstlight_fabric"]["rails"]


@pytest.mark.parametrize(
    ("changes", "identifier", "words"),
    [
        ({"hardware": "gb11"}, "hardware.unknown", "did you mean gb10?"),
        ({"stack": "labb"}, "stack.unknown", "did you mean lab?"),
        ({"model": "huge"}, "model.unknown", "use one of tiny"),
        ({"hardware": None}, "intent.missing", "set firstlight_hardware"),
        ({"model": 7}, "intent.missing", "set firstlight_model"),
        (
            {"fabric": {"rails": [RAILS[0], {**RAILS[1], "subnet": "192.168.100.0/24"}]}},
            "fabric.overlap",
            "another subnet",
        ),
        (
            {"fabric": {"rails": [RAILS[0], {**RAILS[1], "subnet": "192.168.0.0/16"}]}},
            "fabric.overlap",
            "another subnet",
        ),
        (
            {"fabric": {"rails": [RAILS[0], {**RAILS[1], "port": RAILS[0]["port"]}]}},
            "fabric.port",
            "its own port",
        ),
        (
            {"fabric": {"rails": [{**RAILS[0], "port": "a-very-long-port-name"}]}},
            "fabric.port",
            "ip -br link",
        ),
        (
            {"fabric": {"rails": [{**RAILS[0], "subnet": "192.168.100.5/24"}]}},
            "fabric.subnet",
            "192.168.100.0/24",
        ),
        (
            {"fabric": {"rails": [{**RAILS[0], "subnet": "10.0.0.0/29"}]}},
            "fabric.subnet",
            "subnet of its own",
        ),
        ({"fabric": {"rails": []}}, "fabric.missing", "firstlight_fabric.rails"),
        ({"fabric": {"rails": "enp1"}}, "intent.type", "port"),
        ({"fabric": ["enp1"]}, "intent.type", "mapping"),
        ({"fabric": {"mtu": 9217}}, "fabric.mtu", "9000"),
        ({"fabric": {"mtu": 1279}}, "fabric.mtu", "9000"),
        ({"fabric": {"mtu": "9000"}}, "fabric.mtu", "without quotes"),
        ({"fabric": {"mtu": True}}, "fabric.mtu", "9000"),
        ({"fabric": {"mtu": 9000.0}}, "fabric.mtu", "9000"),
        ({"fabric": {"mut": 9000}}, "intent.unknown-key", "did you mean mtu?"),
        ({"fabric": {"rdma": "no"}}, "fabric.rdma", "quotes"),
        ({"fabric": {"rails": [{**RAILS[0], "sbnet": "x"}]}}, "intent.unknown-key", "did you mean subnet?"),
        ({"serving": {"tensor_paralel": 4}}, "intent.unknown-key", "did you mean tensor_parallel?"),
        ({"servings": {}}, "intent.unknown-variable", "did you mean firstlight_serving?"),
        ({"serving": {"tensor_parallel": 2}}, "serving.parallel", "to 4"),
        ({"serving": {"tensor_parallel": 8}}, "serving.parallel", "to 4"),
        ({"serving": {"tensor_parallel": "4"}}, "serving.value", "quotes"),
        ({"serving": {"gpu_memory_utilization": 0.86}}, "serving.utilisation", "0.85 or less"),
        ({"serving": {"gpu_memory_utilization": 0}}, "serving.utilisation", "0.82"),
        ({"serving": {"gpu_memory_utilization": "0.8"}}, "serving.utilisation", "quotes"),
        ({"serving": {"max_model_len": 513}}, "serving.context", "512 or less"),
        ({"serving": {"max_model_len": "1k"}}, "serving.context", "512 or less"),
        ({"serving": {"max_model_len": "1K"}}, "serving.context", "512 or less"),
        ({"serving": {"max_model_len": "512"}}, "serving.value", "quotes"),
        ({"serving": {"max_model_len": "128 kb"}}, "serving.value", "128k or 128K"),
        ({"serving": {"max_num_seqs": "infk"}}, "serving.value", "128k or 128K"),
        ({"serving": {"max_num_batched_tokens": "1000G"}}, "serving.value", "128k or 128K"),
        ({"serving": {"port": 70000}}, "serving.value", "firstlight_serving.port"),
        ({"serving": {"listen": "everywhere"}}, "serving.listen", "127.0.0.1"),
        ({"serving": {"flags": "--enforce-eager"}}, "serving.flags", "one list item"),
        ({"serving": {"flags": ["--max-num-seqs 4"]}}, "serving.flags", "split it"),
        (
            {"serving": {"flags": ["--tensor-parallel-size", "4"]}},
            "serving.flags",
            "take --tensor-parallel-size out",
        ),
        ({"serving": {"flags": ["--max_model_len=4"]}}, "serving.flags", "take --max-model-len out"),
        ({"serving": {"flags": ["-tp", "4"]}}, "serving.flags", "take -tp out"),
        ({"serving": {"flags": ["--api-key", "k"]}}, "serving.flags", "take --api-key out"),
        ({"serving": {"flags": ["--seed", "1", "--seed=2"]}}, "serving.flags", "keep one --seed"),
        ({"image": "vllm/vllm-openai:v0.32.0"}, "image.unpinned", "set firstlight_image"),
        ({"image": "vllm/vllm-openai@sha256:123"}, "image.unpinned", "set firstlight_image"),
        ({"model_revision": "main"}, "model.revision", "commit of lab/tiny"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_change(changes: dict[str, Any], identifier: str, words: str) -> None:
    found = [one for one in errors(intent(**changes)) if one["id"] == identifier]
    assert found, errors(intent(**changes))
    assert any(words in one["remedy"] for one in found), found


@pytest.mark.parametrize(
    ("on", "identifier"),
    [
        (hosts(heads=()), "head.missing"),
        (hosts(heads=(0, 1)), "head.several"),
        (
            [HostIntent(f"spark{i}", i == 0, variables={"ray_cluster_token": f"secret-{i}"}) for i in range(4)],
            "ray.token",
        ),
        ([*hosts(3), HostIntent("spark3", variables={"ray_cluster_token": "secret"})], "ray.token"),
        ([*hosts(3), HostIntent("spark3", variables={"model_weights_revision": "3" * 40})], "role.differs"),
        (
            [HostIntent(f"spark{i}", i == 0, intent={"firstlight_model": f"m{i}"}) for i in range(4)],
            "intent.differs",
        ),
        ([*hosts(3), HostIntent("spark3", intent={"firstlight_stack": "lab"})], "intent.differs"),
        (hosts(host_tuning_swapiness=1), "role.unknown-variable"),
        (hosts(host_tuning_swappiness="many"), "role.state"),
        (hosts(inference_image_reference="vllm:latest"), "launch.image"),
    ],
)
def test_hosts_that_cannot_be_a_cluster_are_refused(on: list[HostIntent], identifier: str) -> None:
    found = errors(INTENT, on)
    assert {one["id"] for one in found} == {identifier}
    assert "secret" not in json.dumps(found)


def test_all_errors_come_at_once_in_one_message() -> None:
    wrong = intent(fabric={"mtu": 90000}, serving={"tensor_parallel": 2}, image="vllm:nightly")
    found = errors(wrong, hosts(heads=()))
    assert {one["id"] for one in found} == {
        "fabric.mtu",
        "serving.parallel",
        "image.unpinned",
        "head.missing",
    }
    message = explain_errors(found)
    assert message.startswith("The plan is refused, no host was touched; 4 things to change:\n1. ")
    assert message.count("\n   fix: ") == 4


def test_what_only_the_operator_knows_is_a_missing_input_and_no_error() -> None:
    built_in = load_catalog([ROOT / "catalog"])
    built_in["models"]["deepseek-v4-flash"]["revision"] = None
    wanted = intent(stack="spark-vllm-0.32", model="deepseek-v4-flash", serving={"flags": [], "max_model_len": 8192})
    planned = whole(wanted, catalog=built_in)
    assert planned.errors == []
    assert {one["id"] for one in planned.missing_inputs} == {"image.unpinned", "model.revision"}
    wanted |= {"firstlight_image": "r/v@sha256:" + "1" * 64, "firstlight_model_revision": "2" * 40}
    assert whole(wanted, catalog=built_in).missing_inputs == []


def test_tuning_follows_the_hardware_and_who_logs_in() -> None:
    on = [
        dataclasses.replace(host, user=user) for host, user in zip(hosts(), ("root", "nvidia", None, "me"), strict=True)
    ]
    roles = {name: one["roles"]["host_tuning"] for name, one in plan(on=on).items()}
    assert [role["host_tuning_linger_users"] for role in roles.values()] == [[], ["nvidia"], [], ["me"]]
    assert (roles["spark0"]["host_tuning_oom_guard"], roles["spark0"]["host_tuning_swap"]) == (True, "keep")
    catalog = copy.deepcopy(CATALOG)
    catalog["hardware"]["gb10"] |= {"unified": False, "memory_mib": 81559}
    other = whole(catalog=catalog).hosts["spark0"]["roles"]["host_tuning"]
    assert (other["host_tuning_oom_guard"], other["host_tuning_swap"]) == (False, "off")
    assert plan(on=hosts(host_tuning_swap="off"))["spark0"]["desired"]["host_tuning"]["swap"] == "off"


class TestFilesOfTheModel:
    FLAGS = INTENT["firstlight_serving"]["flags"]

    @staticmethod
    def formats(**changes: Any) -> list[str]:
        found = plan(intent(**changes))["spark0"]
        (want,) = found["desired"]["model_weights"]["snapshots"].values()
        assert want.get("selection", {}) == found["roles"]["model_weights"]["model_weights_files"]
        return [one["name"] for one in want.get("selection", {}).get("formats", [])]

    def test_they_are_what_the_engine_loads(self) -> None:
        assert self.formats() == ["mistral", "safetensors", "pytorch", "pt"]
        assert self.formats(serving={"flags": [*self.FLAGS, "--load-format=pt"]}) == ["pt"]

    def test_the_operator_adds_to_them(self) -> None:
        wanted = intent(model_files={"include": ["*.gguf"], "exclude": ["images/*"]})
        files = plan(wanted)["spark0"]["roles"]["model_weights"]["model_weights_files"]
        assert files["include"] == ["*.gguf"]
        assert files["exclude"][-1] == "images/*"
        assert "original/*" in files["exclude"]

    def test_a_load_format_that_is_not_known_brings_everything_and_says_so(self) -> None:
        found = whole(intent(serving={"flags": [*self.FLAGS, "--load-format", "sharded_state"]}))
        assert found.hosts["spark0"]["roles"]["model_weights"]["model_weights_files"] == {}
        assert [note for note in found.notes if "load format sharded_state are not known" in note]
