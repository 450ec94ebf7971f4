# SPDX-License-Identifier: Apache-2.0
"""From a profile to what the supervisors of its hosts are told."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.startup import Startup
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.supervisor_variables import (
    supervisor_groups,
    supervisor_variables,
)

RAY, SERVER = "firstlight-ray.service", "firstlight-server.service"
LIMITS = Startup(
    weights_bytes_per_rank=10**9,
    weights_from="fit",
    ranks_per_host=4,
    weights_bytes_per_host=4 * 10**9,
    disk_read_gb_s=0.1,
    disk_read_from="here",
    read_s=40,
    compile_s=1160,
    computed_s=1200,
    limit_s=1200,
    limit_from="computed",
    progress_timeout_s=300,
    wait_s=1800,
)
CACHE = {"path": "/var/lib/firstlight/compile-cache/tiny", "variables": {"A": "a"}}
IMAGE = "firstlight/engine:sha256-" + "0" * 64


def choices(profile: str, names: Sequence[str] = ("spark0",), **changes: Any) -> ResolvedIntent:
    """Only what the supervisor's variables are made from."""
    unified = changes.pop("unified", True)
    own = changes.pop("own", {})
    gpus = changes.pop("gpus", 1)
    hosts = [HostIntent(name, name == "spark0", variables=own if name == "spark0" else {}) for name in names]
    serving = {
        "profile": profile,
        "runtime": "docker",
        "replicas": 1,
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
        "listen": "0.0.0.0",
        "port": 8000,
        "served_name": "tiny",
        "utilisation": None,
        "memory_share": None,
        "memory_overhead": 0,
        "start_timeout": None,
        **changes,
    }
    made = SimpleNamespace(
        hosts=hosts, head=hosts[0], serving=SimpleNamespace(**serving), hardware={"unified": unified, "gpus": gpus}
    )
    return cast(ResolvedIntent, made)


def units(group: dict[str, Any]) -> dict[str, list[tuple[str, int]]]:
    return {node: [(one["unit"], one["stage"]) for one in listed] for node, listed in group["nodes"].items()}


def test_a_ray_cluster_starts_from_its_head_and_serves_when_it_is_complete() -> None:
    (group,) = supervisor_groups(choices("vllm-ray", ["spark0", "spark1", "spark2"], tensor_parallel=3))
    assert units(group) == {"spark0": [(RAY, 0), (SERVER, 2)], "spark1": [(RAY, 1)], "spark2": [(RAY, 1)]}
    assert group["probe"] == {
        "url": "http://0.0.0.0:8000",
        "model": "tiny",
        "key_path": "/etc/firstlight/server.env",
        "tensor_parallel": 3,
    }


def test_the_ranks_of_a_multi_node_mode_start_together() -> None:
    (group,) = supervisor_groups(choices("vllm-multinode", ["spark0", "spark1"]))
    assert units(group) == {"spark0": [(SERVER, 0)], "spark1": [(SERVER, 0)]}


def test_sglang_starts_all_ranks_at_once_and_mpi_its_head_last() -> None:
    (group,) = supervisor_groups(choices("sglang", ["spark0", "spark1"]))
    assert {name: [unit["stage"] for unit in units] for name, units in group["nodes"].items()} == {
        "spark0": [0],
        "spark1": [0],
    }
    (group,) = supervisor_groups(choices("tensorrt-llm", ["spark0", "spark1"]))
    assert {name: [unit["stage"] for unit in units] for name, units in group["nodes"].items()} == {
        "spark0": [1],
        "spark1": [0],
    }
    (group,) = supervisor_groups(choices("tensorrt-llm", ["spark0"]))
    assert [unit["stage"] for unit in group["nodes"]["spark0"]] == [0]


def test_one_host_has_one_server() -> None:
    (group,) = supervisor_groups(choices("vllm-single", runtime="venv"))
    assert group["nodes"] == {"spark0": [{"unit": SERVER, "stage": 0, "container": ""}]}


def test_every_replica_is_kept_by_itself_on_gpus_of_its_own() -> None:
    groups = supervisor_groups(choices("vllm-replicas", replicas=2, tensor_parallel=2))
    assert [group["name"] for group in groups] == ["replica-0", "replica-1"]
    assert [group["gpus"] for group in groups] == [[0, 1], [2, 3]]
    assert [group["probe"]["url"] for group in groups] == ["http://127.0.0.1:8001", "http://127.0.0.1:8002"]
    assert units(groups[1]) == {"spark0": [("firstlight-server-1.service", 0)]}


def test_the_operators_own_port_and_name_are_asked() -> None:
    own = {"inference_server_port": 9000, "inference_server_listen": "::1", "inference_server_served_name": "mine"}
    (group,) = supervisor_groups(choices("vllm-single", own=own))
    assert (group["probe"]["url"], group["probe"]["model"]) == ("http://[::1]:9000", "mine")


@pytest.mark.parametrize(("unified", "kind"), [(True, "unified"), (False, "discrete")])
def test_a_start_needs_the_memory_the_engine_takes(unified: bool, kind: str) -> None:
    made = choices("vllm-ray", ["spark0", "spark1"], unified=unified, utilisation=0.8)
    nodes = [{"address": "192.168.100.10"}, {"address": "192.168.100.11"}]
    roles: dict[str, dict[str, Any]] = {
        "ray_cluster": {"ray_cluster_image": IMAGE, "ray_cluster_compile_cache": CACHE},
        "model_weights": {"model_weights_directory": "/models/tiny"},
    }
    told = supervisor_variables(made, made.hosts[1], nodes, roles, LIMITS)
    del told["supervisor_groups"]
    assert told == {
        "supervisor_node": "spark1",
        "supervisor_address": "192.168.100.11",
        "supervisor_head_host": "spark0",
        "supervisor_head_address": "192.168.100.10",
        "supervisor_addresses": {"spark0": "192.168.100.10", "spark1": "192.168.100.11"},
        "supervisor_image": IMAGE,
        "supervisor_weights": "/models/tiny",
        "supervisor_memory_kind": kind,
        "supervisor_memory_share": 0.8,
        "supervisor_drop_caches": unified,
        "supervisor_weights_bytes": 4 * 10**9,
        "supervisor_compile_cache": "/var/lib/firstlight/compile-cache/tiny",
        "supervisor_start_timeout": 1200,
        "supervisor_progress_timeout": 300,
        "supervisor_stage_timeout": 300,
    }


def test_the_gate_asks_for_what_the_engine_will_look_for() -> None:
    """The engine's own default where nobody says a share, and what a start takes before it looks, in whole MiB."""
    made = choices("vllm-single", memory_share=0.92, memory_overhead=(1 << 30) + 1)
    told = supervisor_variables(made, made.hosts[0], [{"address": "127.0.0.1"}], {}, LIMITS)
    assert told["supervisor_memory_share"] == 0.92
    assert told["supervisor_memory_overhead"] == 1025


def test_a_server_that_waits_for_its_nodes_is_let_say_who_is_missing() -> None:
    made = choices("vllm-ray", ["spark0", "spark1"], own={"inference_server_join_timeout": "600"})
    nodes = [{"address": "192.168.100.10"}, {"address": "192.168.100.11"}]
    for host in made.hosts:
        assert supervisor_variables(made, host, nodes, {}, LIMITS)["supervisor_stage_timeout"] == 720


def test_a_replica_has_its_part_of_the_weights_and_of_the_cache() -> None:
    made = choices("vllm-replicas", replicas=2, tensor_parallel=2)
    roles = {"inference_server": {"inference_server_image": IMAGE, "inference_server_compile_cache": CACHE}}
    told = supervisor_variables(made, made.head, [{"address": "127.0.0.1"}], roles, LIMITS)
    assert told["supervisor_weights_bytes"] == 2 * 10**9
    assert told["supervisor_compile_cache"] == CACHE["path"]
    assert [group["cache"] for group in told["supervisor_groups"]] == ["server-0", "server-1"]


@pytest.mark.parametrize(("size", "expected"), [(2, {"gpus": [0, 1]}), (4, {})])
def test_a_server_alone_needs_only_the_gpus_it_takes(size: int, expected: dict[str, Any]) -> None:
    (group,) = supervisor_groups(choices("vllm-single", gpus=4, tensor_parallel=size))
    assert {key: group[key] for key in group if key == "gpus"} == expected


def test_a_virtual_environment_has_no_image() -> None:
    made = choices("vllm-single", runtime="venv")
    told = supervisor_variables(made, made.head, [{"address": "127.0.0.1"}], {}, LIMITS)
    assert (told["supervisor_image"], told["supervisor_compile_cache"]) == ("", "")


def test_with_ray_serve_every_host_is_a_group_of_its_own() -> None:
    """A worker that is away takes nobody down, and tries for as long as it takes to join its head again."""
    chosen = choices("ray-serve", ["spark0", "spark1", "spark2"], replicas=3)
    nodes = [{"address": f"192.168.100.1{number}"} for number in range(3)]
    head, worker, _ = (supervisor_variables(chosen, host, nodes, {}, LIMITS) for host in chosen.hosts)
    (served,), (joined,) = head["supervisor_groups"], worker["supervisor_groups"]
    assert units(served) == {"spark0": [(RAY, 0), (SERVER, 2)]}
    assert served["probe"]["tensor_parallel"] == 1
    assert (joined["name"], units(joined)) == ("worker-spark1", {"spark1": [(RAY, 0)]})
    assert "probe" not in joined
    assert (worker["supervisor_head_host"], worker["supervisor_head_address"]) == ("spark1", "192.168.100.11")
    assert worker["supervisor_start_attempts"] > 1000
    assert "supervisor_start_attempts" not in head
    # Nobody sees on the head how far a replica on another host is: only the limit ends a start.
    assert head["supervisor_progress_timeout"] == head["supervisor_start_timeout"] == 1200
