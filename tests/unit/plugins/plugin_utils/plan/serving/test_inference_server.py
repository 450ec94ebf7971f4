# SPDX-License-Identifier: Apache-2.0
"""The server role's desired state, its unit byte by byte."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.waits import wait_for_nodes
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving import inference_server
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state

ROOT = Path(__file__).resolve().parents[6]
GOLDEN = ROOT / "tests" / "golden" / "inference_server"
IMAGE = "registry.example/vllm-ray@sha256:" + "0f" * 32


def variables(**changes: Any) -> dict[str, Any]:
    return {
        "inference_server_image": IMAGE,
        "inference_server_model_directory": "/var/lib/firstlight/models/tiny",
        "inference_server_served_name": "tiny",
        "inference_server_tensor_parallel": 4,
        "inference_server_node_address": "192.168.100.10",
        "inference_server_flags": ["--max-model-len=131072", "--speculative-config", '{"method": "mtp"}'],
        **changes,
    }


NODES = [{"name": f"spark{number}", "address": f"192.168.100.1{number}"} for number in range(4)]
MULTINODE: dict[str, Any] = {
    "inference_server_profile": "vllm-multinode",
    "inference_server_nodes": NODES,
    "inference_server_interface": "enp1s0f1np1",
    "inference_server_rdma": True,
    "inference_server_environment": {"NCCL_NET": "IB"},
}
REPLICAS: dict[str, Any] = {
    "inference_server_profile": "vllm-replicas",
    "inference_server_replicas": 2,
    "inference_server_tensor_parallel": 2,
    "inference_server_node_address": "127.0.0.1",
}
RAY_SERVE: dict[str, Any] = {
    "inference_server_profile": "ray-serve",
    "inference_server_replicas": 4,
    "inference_server_tensor_parallel": 1,
    "inference_server_nodes": NODES,
}
VENV: dict[str, Any] = {
    "inference_server_image": "",
    "inference_server_runtime": "venv",
    "inference_server_venv_lock": "0f" * 32,
    "inference_server_profile": "vllm-single",
    "inference_server_node_address": "127.0.0.1",
}
GOLDEN_STATES: dict[str, dict[str, Any]] = {
    "cluster": {"inference_server_nodes": NODES},
    "single": {"inference_server_profile": "vllm-single"},
    "venv": VENV,
    "multinode-head": MULTINODE,
    "multinode-worker": {**MULTINODE, "inference_server_rank": 2, "inference_server_node_address": "192.168.100.12"},
    "replicas": REPLICAS,
    "ray-serve": RAY_SERVE,
}


def contents(**changes: Any) -> dict[str, str]:
    files = desired_state("inference_server", variables(**changes))["files"]
    return {Path(path).name: file["content"] for path, file in files.items() if "content" in file}


def unit(**changes: Any) -> str:
    return contents(**changes)["firstlight-server.service"]


@pytest.mark.parametrize("part", GOLDEN_STATES)
def test_units_are_the_golden_ones(part: str) -> None:
    """Regenerate with FIRSTLIGHT_UPDATE_GOLDEN=1, and read the difference before you commit it."""
    written = {name: text for name, text in contents(**GOLDEN_STATES[part]).items() if not name.endswith(".py")}
    text = "\n".join(f"=== {name}\n{content}" for name, content in written.items())
    if os.environ.get("FIRSTLIGHT_UPDATE_GOLDEN"):
        (GOLDEN / f"{part}.txt").write_text(text)
    assert text == (GOLDEN / f"{part}.txt").read_text()


def test_out_of_a_virtual_environment_there_is_a_user_and_no_container() -> None:
    state = desired_state("inference_server", variables(**VENV))
    assert "User=firstlight\n" in unit(**VENV)
    assert "containers" not in state


def test_another_lock_is_another_unit() -> None:
    units = {unit(**VENV, **more) for more in ({}, {"inference_server_environment": {"COST": "5 $ and 3%"}})}
    assert len(units) == 2
    assert any('Environment="COST=5 $ and 3%%"\n' in text for text in units)
    assert unit(**VENV | {"inference_server_venv_lock": "aa" * 32}) not in units


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"inference_server_profile": "vllm-ray"}, "a virtual environment serves on one node only"),
        ({"inference_server_runtime": "podman"}, "expected docker or venv"),
        ({"inference_server_runtime": "docker"}, "is not pinned"),
    ],
)
def test_a_runtime_that_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        desired_state("inference_server", variables(**VENV | changes))


def test_key_unit_and_container() -> None:
    state = desired_state("inference_server", variables())
    key = state["files"]["/etc/firstlight/server.env"]
    assert key == {"secret": True, "mode": "0600", "owner": "root", "group": "root", "same_as": None}
    assert state["units"] == {"firstlight-server.service": {"enabled": False, "active": True}}
    assert state["containers"] == {"firstlight-server": {"image": IMAGE, "running": True}}


def test_a_driver_sits_beside_its_raylet() -> None:
    argv = inference_server.arguments({**inference_server.DEFAULTS, **variables()})
    assert {
        "--pid=container:firstlight-ray",
        "--volumes-from=firstlight-ray",
        "--network=host",
        "--ipc=container:firstlight-ray",
        "--gpus=all",
        "--env=RAY_ADDRESS=192.168.100.10:6379",
        "--env=RAY_AUTH_MODE=token",
        "--distributed-executor-backend=ray",
    } <= set(argv)


def test_a_single_node_has_no_ray() -> None:
    settings = {**inference_server.DEFAULTS, **variables(inference_server_profile="vllm-single")}
    assert not [word for word in inference_server.arguments(settings) if "ray" in word.replace("vllm-ray@", "").lower()]
    assert "firstlight-ray" not in unit(inference_server_profile="vllm-single")


@pytest.mark.parametrize("part", GOLDEN_STATES)
def test_nothing_starts_by_itself_and_nothing_is_left(part: str) -> None:
    for name, text in contents(**GOLDEN_STATES[part]).items():
        if name.startswith("firstlight-server"):
            assert "Restart=no\n" in text
            assert "[Install]" not in text
            assert part == "venv" or "rm --force --volumes" in text.partition("ExecStopPost=")[2]
            assert "ConditionPathExists=!/var/lib/firstlight/drained\n" in text


def test_only_who_answers_has_the_key() -> None:
    states = [
        desired_state("inference_server", variables(**MULTINODE, inference_server_rank=rank)) for rank in range(4)
    ]
    assert ["/etc/firstlight/server.env" in state["files"] for state in states] == [True, False, False, False]
    commands = [
        inference_server.servers({**inference_server.DEFAULTS, **variables(**MULTINODE, inference_server_rank=rank)})[0]
        for rank in range(4)
    ]
    assert ["--headless" in one["argv"] for one in commands] == [False, True, True, True]
    assert [one["env"]["VLLM_HOST_IP"] for one in commands] == [node["address"] for node in NODES]
    assert {one["env"]["GLOO_SOCKET_IFNAME"] for one in commands} == {"enp1s0f1np1"}


@pytest.mark.parametrize(
    ("listen", "written"),
    [
        ("10.0.0.1", "listen 10.0.0.1:290;"),
        ("fd00::1", "listen [fd00::1]:290;"),
        ("::", "listen [::]:290 ipv6only=off;"),
    ],
)
def test_the_balancer_listens_where_the_engine_would(listen: str, written: str) -> None:
    assert written in contents(**REPLICAS | {"inference_server_listen": listen})["balancer.conf"]


def test_replicas_have_units_of_their_own_behind_a_balancer() -> None:
    state = desired_state("inference_server", variables(**REPLICAS))
    assert state["units"] == {
        "firstlight-server-0.service": {"enabled": False, "active": True},
        "firstlight-server-1.service": {"enabled": False, "active": True},
        "firstlight-balancer.service": {"enabled": True, "active": True},
    }
    assert state["packages"] == {"nginx": None}
    assert list(state["containers"]) == ["firstlight-server-0", "firstlight-server-1"]


def test_a_driver_waits_for_every_node_and_gpu() -> None:
    words = wait_for_nodes(
        {**inference_server.DEFAULTS, **variables(inference_server_nodes=NODES, inference_server_tensor_parallel=8)}
    )
    listed = ",".join(node["address"] for node in NODES)
    asked = f"docker exec -i firstlight-ray python3 - 192.168.100.10:6379 {listed} 4 180 2"
    assert words[-1] == f"exec /usr/bin/{asked} </usr/local/lib/firstlight/ray_gather.py"
    assert "ray_gather.py" in contents()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"inference_server_profile": "sgl"}, "expected one of vllm-ray, vllm-multinode"),
        ({"inference_server_replicas": 2}, "more than 1 only with vllm-replicas"),
        ({**MULTINODE, "inference_server_rank": 4}, "this node's place among them"),
        ({**MULTINODE, "inference_server_nodes": []}, "expected at least two nodes"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        desired_state("inference_server", variables(**changes))


@pytest.mark.parametrize("flag", ["--api-key", "--api_key=x", "--port=1", "-tp", "--host"])
def test_flags_of_the_roles_own_are_refused(flag: str) -> None:
    with pytest.raises(ValueError, match="which the role sets from its own variables"):
        desired_state("inference_server", variables(inference_server_flags=[flag]))


def test_flags_are_a_list() -> None:
    with pytest.raises(ValueError, match="expected a list"):
        desired_state("inference_server", variables(inference_server_flags="--enforce-eager"))


def test_defaults_are_the_roles() -> None:
    role = yaml.safe_load((ROOT / "roles" / "inference_server" / "defaults" / "main.yml").read_text())
    assert {name: role[name] for name in inference_server.DEFAULTS} == inference_server.DEFAULTS
