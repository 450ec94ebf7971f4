# SPDX-License-Identifier: Apache-2.0
"""The Ray role's desired state, its unit byte by byte."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving import ray_cluster
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state

ROOT = Path(__file__).resolve().parents[6]
GOLDEN = ROOT / "tests" / "golden" / "ray_cluster"
IMAGE = "registry.example/vllm-ray@sha256:" + "0f" * 32
TOKEN = "/etc/firstlight/cluster.token"


def variables(head: bool, **changes: Any) -> dict[str, Any]:
    return {
        "ray_cluster_image": IMAGE,
        "ray_cluster_node_address": "192.168.100.10" if head else "192.168.100.11",
        "ray_cluster_head_address": "192.168.100.10",
        "ray_cluster_is_head": head,
        "ray_cluster_head_host": "spark0",
        "ray_cluster_size": 4,
        "ray_cluster_interface": "enp1s0f1np1",
        "ray_cluster_model_directory": "/var/lib/firstlight/models/tiny",
        "ray_cluster_rdma": True,
        "ray_cluster_environment": {"NCCL_IB_HCA": "=rocep1s0f1:1,roceP2p1s0f1:1"},
        **changes,
    }


@pytest.mark.parametrize("part", ["head", "worker"])
def test_unit_is_the_golden_one(part: str) -> None:
    """Regenerate with FIRSTLIGHT_UPDATE_GOLDEN=1, and read the difference before you commit it."""
    state = desired_state("ray_cluster", variables(part == "head"))
    if os.environ.get("FIRSTLIGHT_UPDATE_GOLDEN"):
        (GOLDEN / f"{part}.service").write_text(state["files"][ray_cluster.UNIT_PATH]["content"])
    assert state["files"][ray_cluster.UNIT_PATH] == {
        "content": (GOLDEN / f"{part}.service").read_text(),
        "mode": "0644",
        "owner": "root",
        "group": "root",
    }


def test_token_unit_and_container() -> None:
    head, worker = (desired_state("ray_cluster", variables(is_head)) for is_head in (True, False))
    assert head["files"][TOKEN]["same_as"] is None
    assert worker["files"][TOKEN] == {
        "secret": True,
        "mode": "0600",
        "owner": "root",
        "group": "root",
        "same_as": "spark0",
    }
    assert head["units"] == {"firstlight-ray.service": {"enabled": False, "active": True}}
    assert head["containers"] == {"firstlight-ray": {"image": IMAGE, "running": True}}


def test_no_secret_stands_in_the_unit() -> None:
    argv = ray_cluster.arguments({**ray_cluster.DEFAULTS, **variables(True)})
    assert [word for word in argv if "RAY_AUTH_TOKEN=" in word] == []
    assert "--env=RAY_AUTH_TOKEN_PATH=/run/firstlight/cluster.token" in argv


def test_a_worker_waits_for_its_head() -> None:
    head, worker = (
        desired_state("ray_cluster", variables(is_head))["files"][ray_cluster.UNIT_PATH]["content"]
        for is_head in (True, False)
    )
    assert "/dev/tcp/" not in head
    assert ">/dev/tcp/192.168.100.10/6379" in worker


def test_only_the_head_gets_head_only_options() -> None:
    argv = ray_cluster.arguments({**ray_cluster.DEFAULTS, **variables(False)})
    assert not {"--head", "--port=6379", "--include-dashboard=false"} & set(argv)
    assert "--address=192.168.100.10:6379" in argv


def test_rdma_is_asked_for() -> None:
    settings = {**ray_cluster.DEFAULTS, **variables(True, ray_cluster_rdma=False)}
    assert "--device=/dev/infiniband" not in ray_cluster.arguments(settings)


@pytest.mark.parametrize("ports", ["", "20000", "a-b", "30000-20000", "80-90", "60000-70000"])
def test_other_ports_are_refused(ports: str) -> None:
    with pytest.raises(ValueError, match="ray_cluster_worker_ports"):
        desired_state("ray_cluster", variables(True, ray_cluster_worker_ports=ports))


@pytest.mark.parametrize("directory", ["models", "/srv/a,readonly=false"])
def test_a_directory_that_cannot_be_mounted_is_refused(directory: str) -> None:
    with pytest.raises(ValueError, match="cannot mount"):
        desired_state("ray_cluster", variables(True, ray_cluster_model_directory=directory))


def test_an_image_that_is_not_pinned_is_refused() -> None:
    with pytest.raises(ValueError, match="not pinned"):
        desired_state("ray_cluster", variables(True, ray_cluster_image="vllm:nightly"))


def test_defaults_are_the_roles() -> None:
    role = yaml.safe_load((ROOT / "roles" / "ray_cluster" / "defaults" / "main.yml").read_text())
    assert {name: role[name] for name in ray_cluster.DEFAULTS} == ray_cluster.DEFAULTS
