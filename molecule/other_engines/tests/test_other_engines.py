# SPDX-License-Identifier: Apache-2.0
"""SGLang's launch on two nodes: a rank on each, the key nowhere but in its file, answers only for those who have it."""

from __future__ import annotations

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0", "ssh://spark1"]
KEY_FILE = "/etc/firstlight/server.env"
ASK = """
import sys, urllib.error, urllib.request
request = urllib.request.Request("http://127.0.0.1:290/server_info")
if sys.argv[1:]:
    key = open(sys.argv[1]).read().strip().partition("=")[2]
    request.add_header("Authorization", "Bearer " + key)
try:
    print(urllib.request.urlopen(request, timeout=30).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.fixture
def is_head(host: Host) -> bool:
    return bool(host.backend.get_hostname() == "spark0")


def test_every_node_runs_its_rank(host: Host, is_head: bool) -> None:
    assert host.service("firstlight-server").is_running
    words = host.check_output("docker inspect --format '{{json .Args}}' firstlight-server")
    assert f"--node-rank={0 if is_head else 1}" in words
    assert "--nnodes=2" in words


def test_the_key_is_on_the_head_and_in_no_command_line_and_no_log(host: Host, is_head: bool) -> None:
    assert host.file(KEY_FILE).exists == is_head
    if not is_head:
        return
    assert host.file(KEY_FILE).mode == 0o600
    key = host.file(KEY_FILE).content_string.strip().partition("=")[2]
    assert len(key) == 64
    assert key not in host.check_output("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; true")
    journal = host.check_output("journalctl --unit=firstlight-server --output=cat")
    assert "server_args=" in journal
    assert "'api_key': '********'" in journal
    assert key not in journal


def test_only_those_with_the_key_are_answered(host: Host, is_head: bool) -> None:
    if not is_head:
        return
    assert host.check_output("python3 -c %s", ASK) == "401"
    assert host.check_output("python3 -c %s %s", ASK, KEY_FILE) == "200"
