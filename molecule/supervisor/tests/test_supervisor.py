# SPDX-License-Identifier: Apache-2.0
"""The supervisor runs, comes back after a boot, says that the group serves, and keeps its secrets."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0", "ssh://spark1"]
SECRETS = ("/etc/firstlight/supervisor-spark1.token", "/etc/firstlight/stand-in.env")


def test_the_supervisor_runs_and_comes_back_after_a_boot(host: Host) -> None:
    assert host.service("firstlight-supervisor").is_running
    assert host.service("firstlight-supervisor").is_enabled


def test_what_is_kept_runs(host: Host) -> None:
    assert host.service("stand-in-first").is_running


def test_it_says_that_the_group_serves(host: Host) -> None:
    state = json.loads(host.file("/run/firstlight/supervisor.json").content_string)
    assert state["groups"]["server"]["phase"] == "serving"


def test_only_the_head_listens_and_only_on_the_fabric(host: Host) -> None:
    is_head = host.check_output("hostname") == "spark0"
    assert host.socket("tcp://192.168.100.10:29600").is_listening is is_head
    assert not host.socket("tcp://0.0.0.0:29600").is_listening


@pytest.mark.parametrize("path", SECRETS)
def test_secrets_are_roots_alone_and_nowhere_else(host: Host, path: str) -> None:
    found = host.file(path)
    assert (found.user, found.group, found.mode) == ("root", "root", 0o600)
    secret = found.content_string.strip().rpartition("=")[2]
    assert len(secret) == 64
    assert secret not in host.check_output("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    assert secret not in host.check_output("cat /run/firstlight/supervisor.json /etc/firstlight/supervisor.json")
    assert secret not in host.check_output("journalctl --no-pager --output=cat")
