# SPDX-License-Identifier: Apache-2.0
"""The server answers those who have the key, from both nodes, and the key is nowhere but in its file."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0"]
KEY_FILE = "/etc/firstlight/server.env"
# Python's own client, because a node has no curl; status and body come back as JSON.
ASK = """
import json, sys, urllib.error, urllib.request
body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}).encode()
request = urllib.request.Request("http://127.0.0.1:290/v1/chat/completions", data=body)
request.add_header("Content-Type", "application/json")
if sys.argv[1:] == ["with-key"]:
    key = open("/etc/firstlight/server.env").read().strip().partition("=")[2]
    request.add_header("Authorization", "Bearer " + key)
try:
    with urllib.request.urlopen(request, timeout=60) as answer:
        print(json.dumps([answer.status, json.load(answer)]))
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, {}]))
"""


@pytest.fixture
def key(host: Host) -> str:
    return str(host.file(KEY_FILE).content_string.strip().partition("=")[2])


def test_the_unit_runs_and_leaves_the_next_start_to_its_group(host: Host) -> None:
    assert host.service("firstlight-server").is_running
    assert host.run("systemctl is-enabled firstlight-server").stdout.strip() == "static"
    assert host.check_output("systemctl show --property=Restart --value firstlight-server") == "no"


def test_shared_memory_is_that_of_its_raylet(host: Host) -> None:
    mode = host.check_output("docker inspect --format {{.HostConfig.IpcMode}} firstlight-server")
    assert mode == "container:" + host.check_output("docker inspect --format {{.Id}} firstlight-ray")


def test_it_answers_from_both_nodes(host: Host) -> None:
    status, answer = json.loads(host.check_output("python3 -c %s with-key", ASK))
    assert status == 200
    assert answer["usage"]["completion_tokens"] >= 1
    assert "-tp2-" in f"{answer['system_fingerprint']}-"


def test_it_answers_nobody_without_the_key(host: Host) -> None:
    status, _ = json.loads(host.check_output("python3 -c %s", ASK))
    assert status == 401


def test_it_listens_on_loopback_only(host: Host) -> None:
    assert host.socket("tcp://127.0.0.1:290").is_listening
    assert not host.socket("tcp://0.0.0.0:290").is_listening


def test_the_key_is_roots_alone_and_nowhere_else(host: Host, key: str) -> None:
    found = host.file(KEY_FILE)
    assert (found.user, found.group, found.mode) == ("root", "root", 0o600)
    assert len(key) == 64
    assert key not in host.check_output("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    assert key not in host.file("/etc/systemd/system/firstlight-server.service").content_string
    assert key not in host.check_output("journalctl --no-pager --output=cat")
