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

from tests.e2e.exposed.client import (
    HEAD,
    HTTPS,
    WORKER,
    Asking,
    address,
    asked,
    context,
    key,
    left,
    pids,
    site_without,
    state,
    with_intent,
)
from tests.e2e.exposed.secrets import Told, secrets_of, seen_in, seen_on, text_of
from tests.e2e.exposed.stranger import by_way_of, link_local, listener, listening, on_the_fabric, reached
from tests.e2e.serving.lab import EXPOSED, Run, Serving
from tests.e2e.serving.places import clear, take_place
from tests.e2e.serving.processes import wait_for

STRANGER, WATCHER = "spark2", "spark3"
FABRIC = {HEAD: "192.168.100.10", WORKER: "192.168.100.11"}
PORT, STRANGERS = "enp1s0f1np1", "192.168.100.77/24"
SSH, METRICS, SHARE = 22, 9410, 29610
PLANNED = {80, 290, HTTPS, 6379, 8265, 8480, 9100, METRICS, 9420, 10001, 29600, SHARE, 52365}
"""What a plan has listen somewhere, also while it does not just now."""
KEYS = ("alice", "ci")
KNOWN_TO_ROOT = {"the engine's key in the environment in docker inspect firstlight-server"}
"""The engine takes its key from its environment, which Docker tells whoever may use it: that is root (docs/site.md)."""


@pytest.fixture(scope="module")
def second_run(rack: Serving, told: Told) -> Run:
    """A run of site.yml that has nothing to do."""
    del told
    take_place(rack, EXPOSED)
    return rack.playbook("site.yml")


# -- a run ----------------------------------------------------------------------------------------------------------


def test_a_second_run_changes_nothing(second_run: Run) -> None:
    assert second_run.changed == {**dict.fromkeys(EXPOSED.nodes, 0)}, second_run.output[-6000:]


@pytest.mark.extended  # a full run in check mode takes a minute; the README's cluster shows one, too
def test_check_mode_says_the_same(exposed: Serving) -> None:
    run = exposed.playbook("site.yml", "--check", "-e", "firstlight_full=true")
    assert set(run.changed.values()) == {0}, run.output[-6000:]


# -- strangers ------------------------------------------------------------------------------------------------------


def everything_reached(serving: Serving) -> set[tuple[str, int]]:
    """What a stranger reaches of the two nodes, by node and port, by every way that there is."""
    found: set[tuple[str, int]] = set()
    fabric = on_the_fabric(serving, STRANGER, STRANGERS, PORT)
    with fabric, listener(serving, WORKER, SHARE), listener(serving, HEAD, SHARE):
        for node in EXPOSED.nodes:
            ports = listening(serving, node) | PLANNED
            own, inner = address(serving, node), FABRIC[node]
            local = [f"{one}%{PORT}" for one in link_local(serving, node, PORT)]
            found |= {(node, port) for _, port in reached(serving, STRANGER, [own, inner, *local], ports)}
            with by_way_of(serving, STRANGER, own, inner, PORT):
                found |= {(node, port) for _, port in reached(serving, STRANGER, [own], ports)}
            with by_way_of(serving, STRANGER, inner, own, "eth0"):
                found |= {(node, port) for _, port in reached(serving, STRANGER, [inner], ports)}
    return found


def test_a_stranger_reaches_ssh_and_the_endpoint(exposed: Serving) -> None:
    assert everything_reached(exposed) == {(HEAD, SSH), (HEAD, HTTPS), (WORKER, SSH)}


def test_the_monitoring_host_reads_the_metrics_and_a_stranger_does_not(exposed: Serving) -> None:
    pages = [address(exposed, node) for node in EXPOSED.nodes]
    assert reached(exposed, WATCHER, pages, [METRICS]) == {(page, METRICS) for page in pages}
    assert reached(exposed, WATCHER, pages, PLANNED - {METRICS, HTTPS}) == set()
    program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())"
    for page in pages:
        read = exposed.inside(WATCHER, f"python3 -c {shlex.quote(program)} http://{page}:{METRICS}/metrics")
        for source in ("node", "keeper", "firewall"):
            assert f'firstlight_source_up{{source="{source}"}} 1' in read
    page = exposed.inside(WATCHER, f"python3 -c {shlex.quote(program)} http://{pages[0]}:{METRICS}/metrics")
    assert "vllm:" in page
    assert "firstlight_firewall_dropped_packets_total" in page


@pytest.mark.extended  # shows that the test before it can fail
def test_without_the_rules_a_stranger_reaches_all_of_it(exposed: Serving) -> None:
    """That the test before could fail; and a run puts the rules back."""
    for node in EXPOSED.nodes:
        exposed.inside(node, "nft delete table inet firstlight")
    try:
        found = everything_reached(exposed)
    finally:
        run = exposed.playbook("site.yml")
    assert {(HEAD, 6379), (HEAD, 29600), (HEAD, METRICS), (HEAD, SHARE), (WORKER, METRICS), (WORKER, SHARE)} <= found
    assert all(run.changed.values()), run.output[-4000:]
    assert everything_reached(exposed) == {(HEAD, SSH), (HEAD, HTTPS), (WORKER, SSH)}
    exposed.assert_serves()


# -- clients --------------------------------------------------------------------------------------------------------


def test_only_a_key_is_let_in(exposed: Serving) -> None:
    engine = exposed.endpoint.key
    assert asked(exposed, "/v1/models", key(exposed, "alice"))[0] == 200
    for wrong in ("", "sk-fl-wrong", engine):
        assert asked(exposed, "/v1/models", wrong) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    "path",
    ["/metrics", "/pause", "/tokenize", "/invocations", "/docs", "/v1/../metrics", "/v1/%2e%2e/metrics", "//v1/models"],
)
def test_what_is_not_listed_is_not_there(exposed: Serving, path: str) -> None:
    for method in ("GET", "POST"):
        assert asked(exposed, path, key(exposed, "alice"), method=method) == (404, "no_such_path")


def test_plain_http_is_refused(exposed: Serving) -> None:
    connection = http.client.HTTPConnection(address(exposed, HEAD), HTTPS, timeout=10)
    connection.request("GET", "/v1/models", headers={"Authorization": "Bearer x"})
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["error"]["code"]) == (400, "plain_http")
    with pytest.raises(OSError, match="timed out"):
        socket.create_connection((address(exposed, HEAD), 80), timeout=2)


def test_a_hundred_megabytes_are_refused_before_they_are_read(exposed: Serving) -> None:
    raw = socket.create_connection((address(exposed, HEAD), HTTPS), timeout=30)
    with context(exposed).wrap_socket(raw, server_hostname=address(exposed, HEAD)) as one:
        one.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key(exposed, 'alice')}\r\n"
            f"Content-Length: {100 << 20}\r\n\r\n".encode()
        )
        assert one.recv(100).startswith(b"HTTP/1.1 413 ")


def test_slow_connections_stop_nobody(exposed: Serving) -> None:
    held: list[ssl.SSLSocket] = []
    try:
        for _ in range(200):
            raw = socket.create_connection((address(exposed, HEAD), HTTPS), timeout=30)
            one = context(exposed).wrap_socket(raw, server_hostname=address(exposed, HEAD))
            one.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n")
            held.append(one)
        assert asked(exposed, "/v1/models", key(exposed, "ci"))[0] == 200
        held[-1].settimeout(120)
        ended = held[-1].recv(1000)
        assert ended == b"" or ended.startswith(b"HTTP/1.1 408 "), "the server ends what never becomes a request"
    finally:
        for one in held:
            one.close()


def test_a_completion_is_streamed_through_tls(exposed: Serving) -> None:
    transport = openai.DefaultHttpxClient(verify=context(exposed), trust_env=False)
    times, fingerprints = [time.monotonic()], set()
    base, value = f"https://{address(exposed, HEAD)}/v1", key(exposed, "alice")
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
            fingerprints |= {piece.system_fingerprint} if piece.system_fingerprint else set()
    (fingerprint,) = fingerprints
    assert "-tp2" in fingerprint
    assert len(times) > 16
    gaps = sorted((later - earlier for earlier, later in pairwise(times)), reverse=True)
    assert gaps[0] < 0.9 * (times[-1] - times[0]), "it came in one piece"


def test_a_key_is_revoked_while_all_go_on(exposed: Serving) -> None:
    """nginx and the engine are the same processes before and after, and the other key is answered all the time."""
    gone, kept, before = key(exposed, "ci"), key(exposed, "alice"), pids(exposed)
    intent = yaml.safe_load((exposed.checkout / EXPOSED.inventory / "group_vars/cluster.yml").read_text())
    endpoint = {**intent["firstlight_endpoint"], "keys": ["alice"]}
    assert asked(exposed, "/v1/models", gone)[0] == 200
    with Asking(exposed, kept) as other:
        exposed.playbook("site.yml", *with_intent(firstlight_endpoint=endpoint))
    assert len(other.statuses) > 1
    assert set(other.statuses) == {200}, "the other client was answered all the time"
    assert asked(exposed, "/v1/models", gone) == (401, "invalid_api_key")
    assert asked(exposed, "/v1/models", key(exposed, "alice"))[0] == 200
    assert not (state(exposed) / "keys/ci").exists()
    exposed.playbook("site.yml")
    assert pids(exposed) == before
    assert key(exposed, "ci") != gone, "the same name has another value"
    assert asked(exposed, "/v1/models", gone)[0] == 401
    assert asked(exposed, "/v1/models", key(exposed, "ci"))[0] == 200


# -- what a person is told ------------------------------------------------------------------------------------------


def test_a_run_ends_with_a_command_that_works(exposed: Serving, second_run: Run) -> None:
    again = second_run.output
    line = next(one for one in again.splitlines() if one.startswith(f"  {HEAD}  curl "))
    command = line.removeprefix(f"  {HEAD}  ")
    assert f"address    https://{address(exposed, HEAD)}/v1" in again
    assert "model      tiny" in again
    assert key(exposed, "alice") not in again
    done = subprocess.run(["sh", "-c", command], env=exposed.env, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "-tp2" in json.loads(done.stdout)["system_fingerprint"]


@pytest.mark.extended  # the README's cluster is asked by the same command, without an endpoint
def test_ask_answers_through_the_endpoint(exposed: Serving) -> None:
    how = exposed.command("firstlight", "ask", "-i", EXPOSED.inventory, "--how").output
    assert f"https://{address(exposed, HEAD)}/v1" in how
    ask = ("firstlight", "ask", "-i", EXPOSED.inventory, "--key", "ci")
    whole = exposed.command(*ask, "--json", "Which node answers?").output
    assert "-tp2" in json.loads(whole[whole.index("{") :])["system_fingerprint"]
    exposed.command(*ask, "Which node answers?")  # streamed; random weights may end an answer at once


# -- secrets --------------------------------------------------------------------------------------------------------


def test_secrets_are_nowhere(exposed: Serving, told: Told, tmp_path: Path) -> None:
    secrets = {**secrets_of(exposed, KEYS), "the token of the share": told.share_token}
    assert "Take the model's files from the host that shares them" in told.output
    assert seen_in(told.output, secrets) == []
    for node in EXPOSED.nodes:
        assert set(seen_on(exposed, node, secrets)) <= KNOWN_TO_ROOT, node
    reports = ("-e", f"verify_report={tmp_path / 'verify.json'}", "-e", f"plan_document={tmp_path / 'plan.json'}")
    exposed.playbook("playbooks/verify.yml", *reports, fails=None)
    plan = exposed.command("firstlight", "plan", "-i", EXPOSED.inventory, "--json").output
    exposed.command("firstlight", "collect", "-i", EXPOSED.inventory, "--output", str(tmp_path / "bundle"))
    for text in (plan, *((tmp_path / name).read_text() for name in ("verify.json", "plan.json"))):
        assert seen_in(text, secrets) == []
    assert (tmp_path / "bundle").is_dir()
    assert seen_in(text_of(tmp_path / "bundle"), secrets) == []


@pytest.mark.extended  # shows that the test before it can fail
def test_a_secret_that_lies_about_is_found(exposed: Serving) -> None:
    """That the test before could fail."""
    secrets = {"one": "a-secret-that-lies-about-in-many-places"}
    exposed.inside(HEAD, f"echo {secrets['one']} | base64 > /etc/firstlight/left; logger {secrets['one']}")
    try:
        seen = seen_on(exposed, HEAD, secrets)
    finally:
        exposed.inside(HEAD, "rm /etc/firstlight/left")
    assert seen == ["one in /etc/firstlight/left", "one in the journal"]


# -- going away -----------------------------------------------------------------------------------------------------


@pytest.mark.extended  # the engine stops and starts
def test_clients_are_told_that_a_cluster_is_drained_until_it_is_back(exposed: Serving) -> None:
    exposed.playbook("playbooks/drain.yml", "-e", "reason='a new cable'")
    try:
        assert asked(exposed, "/v1/models", key(exposed, "alice")) == (503, "engine_down")
        assert asked(exposed, "/v1/models") == (401, "invalid_api_key")
    finally:
        exposed.playbook("playbooks/undrain.yml")
    wait_for(
        lambda: asked(exposed, "/v1/models", key(exposed, "alice"))[0] == 200,
        300,
        "that the endpoint answers",
        exposed.diagnosis,
    )


@pytest.mark.extended  # five runs of site.yml
def test_what_an_intent_no_longer_names_stays_until_it_is_disabled(exposed: Serving, tmp_path: Path) -> None:
    silent = site_without(exposed, tmp_path, "firstlight_firewall", "firstlight_endpoint", "firstlight_monitoring")
    run = exposed.command(*silent)
    assert set(run.changed.values()) == {0}, run.output[-6000:]
    for role in ("firewall", "endpoint", "monitoring"):
        assert f"set firstlight_{role} to {{enabled: false}}" in run.output
    assert asked(exposed, "/v1/models", key(exposed, "alice"))[0] == 200
    off = {"enabled": False}
    gone = with_intent(firstlight_firewall=off, firstlight_endpoint=off, firstlight_monitoring=off)
    exposed.playbook("site.yml", "--check", *gone)
    assert asked(exposed, "/v1/models", key(exposed, "alice"))[0] == 200
    exposed.playbook("site.yml", *gone)
    for node in EXPOSED.nodes:
        assert left(exposed, node) == "", node
    assert not list(state(exposed).rglob("*.header"))
    run = exposed.playbook("site.yml", *gone)
    assert set(run.changed.values()) == {0}, run.output[-6000:]
    exposed.assert_serves()
    exposed.playbook("site.yml")


@pytest.mark.extended  # the engine starts once more
def test_a_teardown_takes_all_of_it(exposed: Serving) -> None:
    assert asked(exposed, "/v1/models", key(exposed, "alice"))[0] == 200
    check = exposed.playbook("playbooks/teardown.yml", "--check").output
    assert all(f"  {HEAD}  {role}" in check for role in ("endpoint", "monitoring", "firewall")), check[-4000:]
    assert asked(exposed, "/v1/models", key(exposed, "alice"))[0] == 200
    clear(exposed)
    for node in EXPOSED.nodes:
        assert left(exposed, node) == "", node
    assert not list(state(exposed).rglob("*.header"))
    again = exposed.playbook("playbooks/teardown.yml", "-e", f"teardown_confirm={HEAD}")
    assert set(again.changed.values()) == {0}, again.output[-4000:]
