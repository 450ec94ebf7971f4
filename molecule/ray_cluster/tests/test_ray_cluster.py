# SPDX-License-Identifier: Apache-2.0
"""Both nodes are in one Ray cluster that lets nobody in without the token."""

from __future__ import annotations

from pathlib import Path

import pytest
import testinfra
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0", "ssh://spark1"]
TOKEN = "/etc/firstlight/cluster.token"  # noqa: S105 - a path, not a password


@pytest.fixture
def head(request: pytest.FixtureRequest) -> Host:
    ssh_config = str(Path(request.config.getoption("ssh_config")))
    return testinfra.get_host("ssh://spark0", ssh_config=ssh_config)


def test_the_unit_runs_and_leaves_the_next_start_to_its_group(host: Host) -> None:
    assert host.service("firstlight-ray").is_running
    assert host.run("systemctl is-enabled firstlight-ray").stdout.strip() == "static"
    assert host.check_output("systemctl show --property=Restart --value firstlight-ray") == "no"


def test_shared_memory_is_the_containers_own(host: Host) -> None:
    assert host.check_output("docker inspect --format {{.HostConfig.IpcMode}} firstlight-ray") == "shareable"


def test_the_token_is_the_same_and_roots_alone(host: Host, head: Host) -> None:
    token = host.file(TOKEN)
    assert (token.user, token.group, token.mode) == ("root", "root", 0o600)
    assert token.size == 64
    assert token.sha256sum == head.file(TOKEN).sha256sum


def test_the_token_is_nowhere_else(host: Host) -> None:
    token = host.file(TOKEN).content_string
    assert token not in host.check_output("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    assert token not in host.file("/etc/systemd/system/firstlight-ray.service").content_string
    assert token not in host.check_output("docker inspect firstlight-ray")
    assert token not in host.check_output("journalctl --no-pager --output=cat")


def test_both_nodes_are_in_the_cluster(host: Host) -> None:
    status = host.check_output("docker exec firstlight-ray ray status")
    assert sum(line.strip().startswith("1 node_") for line in status.splitlines()) == 2
    assert "/2.0 GPU" in status


def test_nobody_gets_in_without_the_token(host: Host) -> None:
    assert host.run("docker exec --env RAY_AUTH_MODE=disabled firstlight-ray ray status").rc != 0


def test_there_is_no_dashboard(host: Host) -> None:
    assert not host.socket("tcp://8265").is_listening
    assert not host.socket("tcp://127.0.0.1:8265").is_listening
