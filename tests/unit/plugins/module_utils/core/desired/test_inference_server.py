# SPDX-License-Identifier: Apache-2.0
"""The server role's desired state, its unit byte by byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired import (
    desired_state,
    inference_server,
)

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


@pytest.mark.parametrize("part", ["cluster", "single"])
def test_unit_is_the_golden_one(part: str) -> None:
    state = desired_state("inference_server", variables(inference_server_ray=part == "cluster"))
    assert state["files"][inference_server.UNIT_PATH]["content"] == (GOLDEN / f"{part}.service").read_text()


VENV: dict[str, Any] = {
    "inference_server_image": "",
    "inference_server_runtime": "venv",
    "inference_server_venv_lock": "0f" * 32,
    "inference_server_ray": False,
    "inference_server_node_address": "127.0.0.1",
}


def test_out_of_a_virtual_environment_there_is_a_user_and_no_container() -> None:
    state = desired_state("inference_server", variables(**VENV))
    assert state["files"][inference_server.UNIT_PATH]["content"] == (GOLDEN / "venv.service").read_text()
    assert "containers" not in state


def test_another_lock_is_another_unit() -> None:
    units = {
        desired_state("inference_server", variables(**VENV, **more))["files"][inference_server.UNIT_PATH]["content"]
        for more in ({}, {"inference_server_environment": {"COST": "5 $ and 3%"}})
    }
    assert len(units) == 2
    assert any('Environment="COST=5 $ and 3%%"\n' in unit for unit in units)
    former = desired_state("inference_server", variables(**VENV | {"inference_server_venv_lock": "aa" * 32}))
    assert former["files"][inference_server.UNIT_PATH]["content"] not in units


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"inference_server_ray": True}, "out of a virtual environment one node is served"),
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
    assert state["units"] == {"firstlight-server.service": {"enabled": True, "active": True}}
    assert state["containers"] == {"firstlight-server": {"image": IMAGE, "running": True}}


def test_a_driver_sits_beside_its_raylet() -> None:
    argv = inference_server.arguments({**inference_server.DEFAULTS, **variables()})
    assert {
        "--pid=container:firstlight-ray",
        "--volumes-from=firstlight-ray",
        "--network=host",
        "--ipc=host",
        "--gpus=all",
        "--env=RAY_ADDRESS=192.168.100.10:6379",
        "--env=RAY_AUTH_MODE=token",
        "--distributed-executor-backend=ray",
    } <= set(argv)


def test_a_single_node_has_no_ray() -> None:
    settings = {**inference_server.DEFAULTS, **variables(inference_server_ray=False)}
    assert not [word for word in inference_server.arguments(settings) if "ray" in word.replace("vllm-ray@", "").lower()]
    assert "firstlight-ray" not in inference_server.unit(settings)


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
