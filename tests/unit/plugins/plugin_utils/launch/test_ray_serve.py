# SPDX-License-Identifier: Apache-2.0
"""Replicas on several hosts: what Ray Serve is told, and which spreads are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    MOST_REPLICAS,
    RAY_SERVE_SETTINGS_PATH,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.checks import problems
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import LaunchDescription, LaunchHost
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.ray_serve import PROGRAM_PATH
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.launching import commands

IMAGE = "registry.example/engine@sha256:" + "0f" * 32


def launch(hosts: int = 2, **changes: Any) -> LaunchDescription:
    fields: dict[str, Any] = {
        "profile": "ray-serve",
        "model_directory": "/m",
        "served_name": "m",
        "hosts": tuple(LaunchHost(f"n{n}", n, f"10.0.0.{n + 1}", "eth1") for n in range(hosts)),
        "head": "n0",
        "image": IMAGE,
        "replicas": hosts,
        **changes,
    }
    return LaunchDescription(**fields)


def settings(description: LaunchDescription) -> dict[str, Any]:
    _, server = commands(description, "n0")
    document: dict[str, Any] = json.loads(server["files"][RAY_SERVE_SETTINGS_PATH])
    return document


def test_only_the_head_has_the_program_and_every_host_is_a_ray_node() -> None:
    description = launch(max_model_len=256, flags=("--enforce-eager",))
    ray, server = commands(description, "n0")
    assert [one["name"] for one in commands(description, "n1")] == ["ray"]
    assert (ray["container"], server["container"]) == ("firstlight-ray", "firstlight-server")
    assert server["argv"][-3:] == [IMAGE, PROGRAM_PATH, RAY_SERVE_SETTINGS_PATH]
    assert "--entrypoint=python3" in server["argv"]
    assert {"--pid=container:firstlight-ray", "--ipc=container:firstlight-ray"} <= set(server["argv"])
    assert server["env_file"] == "/etc/firstlight/server.env"


def test_replicas_are_told_what_a_server_would_be() -> None:
    """Flags are evaluated in the engine's words, and the program hands the same ones to the engine's own parser."""
    description = launch(max_model_len=256, flags=("--enforce-eager",), environment={"OMP_NUM_THREADS": 8})
    document = settings(description)
    closed = "--allowed-media-domains=none.invalid"
    assert document["arguments"] == ["--max-model-len", "256", closed, "--enforce-eager"]
    _, server = commands(description, "n0")
    assert server["engine_argv"][-4:] == document["arguments"]
    assert (document["replicas"], document["nodes"]) == (2, ["10.0.0.1", "10.0.0.2"])
    assert document["environment"]["OMP_NUM_THREADS"] == "8"
    assert "VLLM_HOST_IP" not in document["environment"], "it is another on every node"


def test_more_hosts_than_a_host_may_have_replicas_are_no_limit() -> None:
    assert problems(launch(MOST_REPLICAS + 1)) == []
    (problem,) = problems(launch(1, replicas=MOST_REPLICAS + 1, gpus_per_host=MOST_REPLICAS + 1))
    assert "from 1 to 16" in problem.sentence


@given(st.integers(1, 8), st.integers(1, 16), st.integers(1, 16), st.integers(1, 64))
def test_what_is_let_pass_can_be_spread_in_one_way_only(hosts: int, each: int, parallel: int, replicas: int) -> None:
    description = launch(hosts, gpus_per_host=each, tensor_parallel=parallel, replicas=replicas)
    spread = each % parallel == 0 and replicas == hosts * each // parallel
    assert (problems(description) == []) == spread


@pytest.mark.parametrize(
    ("changes", "identifier", "words"),
    [
        ({"tensor_parallel": 2, "replicas": 1}, "launch.world", "set tensor_parallel to a divisor of 1"),
        ({"gpus_per_host": 4, "tensor_parallel": 3}, "launch.world", "none of that host stays unused"),
        ({"pipeline_parallel": 2}, "launch.world", "leave pipeline_parallel out"),
        ({"replicas": 1}, "launch.replicas", "use 2 replicas"),
        ({"ray_worker_ports": "9-1"}, "launch.value", "correct ray_worker_ports"),
    ],
)
def test_a_spread_that_cannot_be_says_what_to_change(changes: dict[str, Any], identifier: str, words: str) -> None:
    (problem,) = problems(launch(**changes))
    assert problem.id == identifier
    assert words in problem.sentence
