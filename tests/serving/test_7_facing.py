# SPDX-License-Identifier: Apache-2.0
"""Two nodes with firewall, endpoint and metrics, as clients, strangers and those who look for secrets see them."""

from __future__ import annotations

import http.client
import json
import shlex
import socket
import ssl
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import openai
import pytest
import yaml

from tests.serving.facing import HEAD, HTTPS, WORKER, address, asked, context, key, left, pids, state, with_intent
from tests.serving.lab import FACING, Serving
from tests.serving.places import clear
from tests.serving.processes import wait_for
from tests.serving.secrets import Told, secrets_of, seen_in, seen_on, text_of
from tests.serving.stranger import by_way_of, link_local, listener, listening, on_the_fabric, reached

STRANGER, WATCHER = "spark2", "spark3"
FABRIC = {HEAD: "192.168.100.10", WORKER: "192.168.100.11"}
PORT, STRANGERS = "enp1s0f1np1", "192.168.100.77/24"
SSH, METRICS, SHARE = 22, 9410, 29610
PLANNED = {80, HTTPS, 6379, 8000, 8265, 8480, 9100, METRICS, 9420, 10001, 29600, SHARE, 52365}
"""What a plan has listen somewhere, also while it does not just now."""
KEYS = ("alice", "ci")
KNOWN_TO_ROOT = {"the engine's key in the environment in docker inspect firstlight-server"}
"""The engine takes its key from its environment, which Docker tells whoever may use it: that is root (docs/site.md)."""
CHEAP_SECONDS = 240
"""Of a run that finds nothing to do on a machine that does other things, too; usual is half a minute."""


@pytest.fixture(scope="module")
def again(facing: Serving) -> str:
    """What the next run says, which has nothing to do."""
    run = facing.playbook("site.yml")
    assert set(run.changed.values()) == {0}, run.output[-6000:]
    assert run.seconds < CHEAP_SECONDS, run.output[-3000:]
    facing.records.note("facing: a run with nothing to do", run.seconds)
    return run.output


# -- a run ----------------------------------------------------------------------------------------------------------


def test_a_second_run_changes_nothing_and_is_cheap(again: str) -> None:
    assert "==> Recap" in again


def test_check_mode_says_the_same(facing: Serving, again: str) -> None:
    del again
    run = facing.playbook("site.yml", "--check", "-e", "firstlight_full=true")
    assert set(run.changed.values()) == {0}, run.output[-6000:]


# -- strangers ------------------------------------------------------------------------------------------------------


def everything_reached(serving: Serving) -> set[tuple[str, int]]:
    """What a stranger reaches of the two nodes, by node and port, by every way that there is."""
    found: set[tuple[str, int]] = set()
    fabric = on_the_fabric(serving, STRANGER, STRANGERS, PORT)
    with fabric, listener(serving, WORKER, SHARE), listener(serving, HEAD, SHARE):
        for node in FACING.nodes:
            ports = listening(serving, node) | PLANNED
            own, inner = address(serving, node), FABRIC[node]
            local = [f"{one}%{PORT}" for one in link_local(serving, node, PORT)]
            found |= {(node, port) for _, port in reached(serving, STRANGER, [own, inner, *local], ports)}
            with by_way_of(serving, STRANGER, own, inner, PORT):
                found |= {(node, port) for _, port in reached(serving, STRANGER, [own], ports)}
            with by_way_of(serving, STRANGER, inner, own, "eth0"):
                found |= {(node, port) for _, port in reached(serving, STRANGER, [inner], ports)}
    return found


def test_a_stranger_reaches_ssh_and_the_endpoint(facing: Serving) -> None:
    assert everything_reached(facing) == {(HEAD, SSH), (HEAD, HTTPS), (WORKER, SSH)}


def test_the_monitoring_host_reads_the_metrics_and_a_stranger_does_not(facing: Serving) -> None:
    pages = [address(facing, node) for node in FACING.nodes]
    assert reached(facing, WATCHER, pages, [METRICS]) == {(page, METRICS) for page in pages}
    assert reached(facing, WATCHER, pages, PLANNED - {METRICS, HTTPS}) == set()
    program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())"
    for page in pages:
        read = facing.inside(WATCHER, f"python3 -c {shlex.quote(program)} http://{page}:{METRICS}/metrics")
        for source in ("node", "keeper", "firewall"):
            assert f'firstlight_source_up{{source="{source}"}} 1' in read
    page = facing.inside(WATCHER, f"python3 -c {shlex.quote(program)} http://{pages[0]}:{METRICS}/metrics")
    assert "vllm:" in page
    assert "firstlight_firewall_dropped_packets_total" in page


def test_without_the_rules_a_stranger_reaches_all_of_it(facing: Serving) -> None:
    """That the test before could fail; and a run puts the rules back."""
    for node in FACING.nodes:
        facing.inside(node, "nft delete table inet firstlight")
    try:
        found = everything_reached(facing)
    finally:
        run = facing.playbook("site.yml")
    assert {(HEAD, 6379), (HEAD, 29600), (HEAD, METRICS), (HEAD, SHARE), (WORKER, METRICS), (WORKER, SHARE)} <= found
    assert all(run.changed.values()), run.output[-4000:]
    assert everything_reached(facing) == {(HEAD, SSH), (HEAD, HTTPS), (WORKER, SSH)}
    facing.assert_serves()


# -- clients --------------------------------------------------------------------------------------------------------


def test_only_a_key_is_let_in(facing: Serving) -> None:
    engine = facing.endpoint.key
    assert asked(facing, "/v1/models", key(facing, "alice"))[0] == 200
    for wrong in ("", "sk-fl-wrong", engine):
        assert asked(facing, "/v1/models", wrong) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    "path",
    ["/metrics", "/pause", "/tokenize", "/invocations", "/docs", "/v1/../metrics", "/v1/%2e%2e/metrics", "//v1/models"],
)
def test_what_is_not_listed_is_not_there(facing: Serving, path: str) -> None:
    for method in ("GET", "POST"):
        assert asked(facing, path, key(facing, "alice"), method=method) == (404, "no_such_path")


def test_plain_http_is_refused(facing: Serving) -> None:
    connection = http.client.HTTPConnection(address(facing, HEAD), HTTPS, timeout=10)
    connection.request("GET", "/v1/models", headers={"Authorization": "Bearer x"})
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["error"]["code"]) == (400, "plain_http")
    with pytest.raises(OSError, match="timed out"):
        socket.create_connection((address(facing, HEAD), 80), timeout=2)


def test_a_hundred_megabytes_are_refused_before_they_are_read(facing: Serving) -> None:
    raw = socket.create_connection((address(facing, HEAD), HTTPS), timeout=30)
    with context(facing).wrap_socket(raw, server_hostname=address(facing, HEAD)) as one:
        one.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key(facing, 'alice')}\r\n"
            f"Content-Length: {100 << 20}\r\n\r\n".encode()
        )
        assert one.recv(100).startswith(b"HTTP/1.1 413 ")


def test_slow_connections_stop_nobody(facing: Serving) -> None:
    held: list[ssl.SSLSocket] = []
    began = time.monotonic()
    try:
        for _ in range(200):
            raw = socket.create_connection((address(facing, HEAD), HTTPS), timeout=30)
            one = context(facing).wrap_socket(raw, server_hostname=address(facing, HEAD))
            one.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n")
            held.append(one)
        before = time.monotonic()
        assert asked(facing, "/v1/models", key(facing, "ci"))[0] == 200
        assert time.monotonic() - before < 5
        held[-1].settimeout(30)
        assert not held[-1].recv(1000).startswith(b"HTTP/1.1 2")
        assert time.monotonic() - began < 60
    finally:
        for one in held:
            one.close()


def test_a_completion_is_streamed_through_tls(facing: Serving) -> None:
    transport = openai.DefaultHttpxClient(verify=context(facing), trust_env=False)
    times = []
    base, value = f"https://{address(facing, HEAD)}/v1", key(facing, "alice")
    with openai.OpenAI(base_url=base, api_key=value, max_retries=0, timeout=120, http_client=transport) as client:
        pieces = client.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "Which node answers?"}],
            max_tokens=16,
            stream=True,
            extra_body={"min_tokens": 16, "ignore_eos": True},
        )
        for piece in pieces:
            times.append(time.monotonic())
            assert "-tp2" in (piece.system_fingerprint or "-tp2")
    assert len(times) >= 16
    assert sum(later - earlier > 0.001 for earlier, later in pairwise(times)) >= 8, "it came in one piece"


def test_a_key_is_revoked_while_all_go_on(facing: Serving) -> None:
    """nginx and the engine are the same processes before and after, and the other key is answered all the time."""
    gone, before = key(facing, "ci"), pids(facing)
    intent = yaml.safe_load((facing.checkout / FACING.inventory / "group_vars/cluster.yml").read_text())
    endpoint = {**intent["firstlight_endpoint"], "keys": ["alice"]}
    assert asked(facing, "/v1/models", gone)[0] == 200
    facing.playbook("site.yml", *with_intent(firstlight_endpoint=endpoint))
    assert asked(facing, "/v1/models", gone) == (401, "invalid_api_key")
    assert asked(facing, "/v1/models", key(facing, "alice"))[0] == 200
    assert not (state(facing) / "keys/ci").exists()
    facing.playbook("site.yml")
    assert pids(facing) == before
    assert key(facing, "ci") != gone, "the same name has another value"
    assert asked(facing, "/v1/models", gone)[0] == 401
    assert asked(facing, "/v1/models", key(facing, "ci"))[0] == 200


# -- what a person is told ------------------------------------------------------------------------------------------


def test_the_last_words_of_a_run_are_a_command_that_works(facing: Serving, again: str) -> None:
    line = next(one for one in again.splitlines() if one.startswith(f"  {HEAD}  curl "))
    command = line.removeprefix(f"  {HEAD}  ")
    assert f"address    https://{address(facing, HEAD)}/v1" in again
    assert "model      tiny" in again
    assert key(facing, "alice") not in again
    done = subprocess.run(["sh", "-c", command], env=facing.env, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "-tp2" in json.loads(done.stdout)["system_fingerprint"]


def test_ask_streams_an_answer(facing: Serving) -> None:
    how = facing.command("firstlight", "ask", "-i", FACING.inventory, "--how").output
    assert f"https://{address(facing, HEAD)}/v1" in how
    run = facing.command("firstlight", "ask", "-i", FACING.inventory, "--key", "ci", "Which node answers?")
    assert run.output.strip()


# -- secrets --------------------------------------------------------------------------------------------------------


def test_secrets_are_nowhere(facing: Serving, told: Told, tmp_path: Path) -> None:
    secrets = {**secrets_of(facing, KEYS), "the token of the share": told.share_token}
    assert "Take the model's files from the host that shares them" in told.output
    assert seen_in(told.output, secrets) == []
    for node in FACING.nodes:
        assert set(seen_on(facing, node, secrets)) <= KNOWN_TO_ROOT, node
    reports = ("-e", f"verify_report={tmp_path / 'verify.json'}", "-e", f"plan_document={tmp_path / 'plan.json'}")
    facing.playbook("playbooks/verify.yml", *reports, fails=None)
    plan = facing.command("firstlight", "plan", "-i", FACING.inventory, "--json").output
    facing.command("firstlight", "collect", "-i", FACING.inventory, "--output", str(tmp_path / "bundle"))
    for text in (plan, *((tmp_path / name).read_text() for name in ("verify.json", "plan.json"))):
        assert seen_in(text, secrets) == []
    assert (tmp_path / "bundle").is_dir()
    assert seen_in(text_of(tmp_path / "bundle"), secrets) == []


def test_a_secret_that_lies_about_is_found(facing: Serving) -> None:
    """That the test before could fail."""
    secrets = {"one": "a-secret-that-lies-about-in-many-places"}
    facing.inside(HEAD, f"echo {secrets['one']} | base64 > /etc/firstlight/left; logger {secrets['one']}")
    try:
        seen = seen_on(facing, HEAD, secrets)
    finally:
        facing.inside(HEAD, "rm /etc/firstlight/left")
    assert seen == ["one in /etc/firstlight/left", "one in the journal"]


# -- going away -----------------------------------------------------------------------------------------------------


def test_a_cluster_that_is_drained_says_so_to_clients(facing: Serving) -> None:
    facing.playbook("playbooks/drain.yml", "-e", "reason='a new cable'")
    assert asked(facing, "/v1/models", key(facing, "alice")) == (503, "engine_down")
    assert asked(facing, "/v1/models") == (401, "invalid_api_key")


def test_once_it_is_back_it_answers(facing: Serving) -> None:
    began = time.monotonic()
    facing.playbook("playbooks/undrain.yml")
    wait_for(
        lambda: asked(facing, "/v1/models", key(facing, "alice"))[0] == 200,
        300,
        "that the endpoint answers",
        facing.diagnosis,
    )
    facing.records.note("facing: undrained to an answer of the endpoint", time.monotonic() - began)


def test_what_an_intent_no_longer_speaks_of_stays_until_it_is_told_to_go(facing: Serving, tmp_path: Path) -> None:
    del tmp_path
    silent = with_intent(firstlight_firewall=None, firstlight_endpoint=None, firstlight_monitoring=None)
    run = facing.playbook("site.yml", *silent)
    assert set(run.changed.values()) == {0}, run.output[-6000:]
    for role in ("firewall", "endpoint", "monitoring"):
        assert f"set firstlight_{role} to {{enabled: false}}" in run.output
    assert asked(facing, "/v1/models", key(facing, "alice"))[0] == 200
    off = {"enabled": False}
    gone = with_intent(firstlight_firewall=off, firstlight_endpoint=off, firstlight_monitoring=off)
    facing.playbook("site.yml", "--check", *gone)
    assert asked(facing, "/v1/models", key(facing, "alice"))[0] == 200
    facing.playbook("site.yml", *gone)
    for node in FACING.nodes:
        assert left(facing, node) == "", node
    assert not list(state(facing).rglob("*.header"))
    run = facing.playbook("site.yml", *gone)
    assert set(run.changed.values()) == {0}, run.output[-6000:]
    facing.assert_serves()


def test_a_teardown_takes_all_of_it(facing: Serving) -> None:
    if not left(facing, HEAD):  # as the test before leaves it
        facing.playbook("site.yml")
    assert asked(facing, "/v1/models", key(facing, "alice"))[0] == 200
    check = facing.playbook("playbooks/teardown.yml", "--check").output
    assert all(f"  {HEAD}  {role}" in check for role in ("endpoint", "monitoring", "firewall")), check[-4000:]
    assert asked(facing, "/v1/models", key(facing, "alice"))[0] == 200
    clear(facing)
    for node in FACING.nodes:
        assert left(facing, node) == "", node
    assert not list(state(facing).rglob("*.header"))
    again = facing.playbook("playbooks/teardown.yml", "-e", f"teardown_confirm={HEAD}")
    assert set(again.changed.values()) == {0}, again.output[-4000:]
