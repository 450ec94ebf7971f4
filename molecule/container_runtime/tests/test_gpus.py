# SPDX-License-Identifier: Apache-2.0
"""A node with a driver has one description of its GPUs, for the driver that is loaded."""

from __future__ import annotations

import json

from testinfra.host import Host

testinfra_hosts = ["ssh://spark0"]


def test_the_description_names_the_gpu_and_the_loaded_driver(host: Host) -> None:
    spec = json.loads(host.file("/etc/cdi/nvidia.json").content_string)
    uuid = host.check_output("nvidia-smi --query-gpu=uuid --format=csv,noheader")
    assert [device["name"] for device in spec["devices"]] == ["0", uuid, "all"]
    driver = host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader")
    mounts = [mount["hostPath"] for mount in spec["containerEdits"]["mounts"]]
    assert any(path.endswith(f"/libcuda.so.{driver}") for path in mounts)


def test_no_other_description_is_in_the_way(host: Host) -> None:
    assert host.file("/etc/cdi/nvidia.yaml.replaced").exists
    assert not host.file("/etc/cdi/nvidia.yaml").exists
    assert not host.file("/var/run/cdi/nvidia.yaml").exists


def test_docker_knows_the_runtime(host: Host) -> None:
    assert "nvidia" in json.loads(host.check_output("docker info --format '{{json .Runtimes}}'"))
    assert host.check_output("docker ps --all --quiet") == ""
