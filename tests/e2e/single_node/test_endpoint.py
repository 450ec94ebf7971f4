# SPDX-License-Identifier: Apache-2.0
"""A node with firewall, endpoint and metrics, as clients, strangers and those who look for secrets see it.

What takes two nodes, or starts an engine anew, is in tests/e2e/exposed.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import shlex
import socket
import ssl
import subprocess
from pathlib import Path

import openai
import pytest
import yaml

from tests.e2e.exposed.client import HTTPS, Asking, address, asked, context, key, pids, state, with_intent
from tests.e2e.exposed.secrets import KNOWN_TO_ROOT, secrets_of, seen_in, seen_on, text_of
from tests.e2e.exposed.stranger import METRICS, PLANNED, SSH, listening, reached
from tests.e2e.serving.lab import Run, Serving

STRANGER, WATCHER = "gpu1", "gpu2"
UNLISTED = (
    *("/metrics", "/pause", "/tokenize", "/invocations", "/docs"),
    *("/v1/../metrics", "/v1/%2e%2e/metrics", "//v1/models"),
)


@pytest.fixture(scope="module")
def second_run(rack: Serving, first_run: Run) -> Run:
    """A run of site.yml that has nothing to do."""
    del first_run
    rack.restore_service()
    return rack.playbook("site.yml")


def test_a_second_run_changes_nothing(second_run: Run) -> None:
    assert second_run.changed == {"gpu0": 0}, second_run.output[-6000:]


# -- strangers ------------------------------------------------------------------------------------------------------


def test_a_stranger_reaches_ssh_and_the_endpoint(node: Serving) -> None:
    own = address(node)
    ports = listening(node, node.profile.head) | PLANNED
    assert METRICS in ports
    assert reached(node, STRANGER, [own], ports) == {(own, SSH), (own, HTTPS)}


def test_the_monitoring_host_reads_the_metrics(node: Serving) -> None:
    own = address(node)
    assert reached(node, WATCHER, [own], PLANNED - {HTTPS}) == {(own, METRICS)}
    program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())"
    page = node.inside(WATCHER, f"python3 -c {shlex.quote(program)} http://{own}:{METRICS}/metrics")
    for source in ("node", "supervisor", "firewall", "engine"):
        assert f'firstlight_source_up{{source="{source}"}} 1' in page
    assert "vllm:" in page


# -- clients --------------------------------------------------------------------------------------------------------


def test_only_a_key_is_let_in(node: Serving) -> None:
    engine = node.endpoint.key
    assert asked(node, "/v1/models", key(node, "alice"))[0] == 200
    for wrong in ("", "sk-fl-wrong", engine):
        assert asked(node, "/v1/models", wrong) == (401, "invalid_api_key")


def test_what_is_not_listed_is_not_there(node: Serving) -> None:
    answers = {
        (method, path): asked(node, path, key(node, "alice"), method=method)
        for method in ("GET", "POST")
        for path in UNLISTED
    }
    assert answers == dict.fromkeys(answers, (404, "no_such_path"))


def test_plain_http_is_refused(node: Serving) -> None:
    connection = http.client.HTTPConnection(address(node), HTTPS, timeout=10)
    connection.request("GET", "/v1/models", headers={"Authorization": "Bearer x"})
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["error"]["code"]) == (400, "plain_http")
    with pytest.raises(OSError, match="timed out"):
        socket.create_connection((address(node), 80), timeout=2)


def test_a_hundred_megabytes_are_refused_before_they_are_read(node: Serving) -> None:
    raw = socket.create_connection((address(node), HTTPS), timeout=30)
    with context(node).wrap_socket(raw, server_hostname=address(node)) as one:
        one.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key(node, 'alice')}\r\n"
            f"Content-Length: {100 << 20}\r\n\r\n".encode()
        )
        assert one.recv(100).startswith(b"HTTP/1.1 413 ")


def test_slow_connections_stop_nobody(node: Serving) -> None:
    held: list[ssl.SSLSocket] = []
    try:
        for _ in range(200):
            raw = socket.create_connection((address(node), HTTPS), timeout=30)
            # On a busy machine the server may have ended it before it has written anything, which is as good.
            with contextlib.suppress(ssl.SSLEOFError, ConnectionError):
                one = context(node).wrap_socket(raw, server_hostname=address(node))
                one.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n")
                held.append(one)
        assert len(held) > 100
        assert asked(node, "/v1/models", key(node, "ci"))[0] == 200
        held[-1].settimeout(120)
        ended = held[-1].recv(1000)
        assert ended == b"" or ended.startswith(b"HTTP/1.1 408 "), "the server ends what never becomes a request"
    finally:
        for one in held:
            one.close()


def test_a_completion_is_streamed_through_tls(node: Serving) -> None:
    transport = openai.DefaultHttpxClient(verify=context(node), trust_env=False)
    base, value = f"https://{address(node)}/v1", key(node, "alice")
    with (
        openai.OpenAI(base_url=base, api_key=value, max_retries=0, timeout=120, http_client=transport) as client,
        client.chat.completions.with_streaming_response.create(
            model="tiny",
            messages=[{"role": "user", "content": "Which node answers?"}],
            max_tokens=16,
            stream=True,
            extra_body={"min_tokens": 16, "ignore_eos": True},
        ) as response,
    ):
        chunks = list(response.iter_bytes())
    lines = [line.removeprefix(b"data: ") for line in b"".join(chunks).splitlines() if line]
    assert lines.pop() == b"[DONE]"
    pieces = [json.loads(line) for line in lines]
    assert len(pieces) >= 16
    (fingerprint,) = {piece["system_fingerprint"] for piece in pieces if piece.get("system_fingerprint")}
    assert node.profile.fingerprint in fingerprint
    # Held back until it is complete, it comes as a chunk or two. How fast chunks follow each other is not asked.
    assert len(chunks) > 4, "it came in one piece"


def test_a_key_is_revoked_while_all_go_on(node: Serving) -> None:
    """nginx and the engine are the same processes before and after, and the other key is answered all the time."""
    gone, kept, before = key(node, "ci"), key(node, "alice"), pids(node)
    intent = yaml.safe_load((node.checkout / node.profile.inventory / "group_vars/cluster.yml").read_text())
    endpoint = {**intent["firstlight_endpoint"], "keys": ["alice"]}
    assert asked(node, "/v1/models", gone)[0] == 200
    with Asking(node, kept) as other:
        node.playbook("site.yml", *with_intent(firstlight_endpoint=endpoint))
    assert len(other.statuses) > 1
    assert set(other.statuses) == {200}, "the other client was answered all the time"
    assert asked(node, "/v1/models", gone) == (401, "invalid_api_key")
    assert asked(node, "/v1/models", key(node, "alice"))[0] == 200
    assert not (state(node) / "keys/ci").exists()
    node.playbook("site.yml")
    assert pids(node) == before
    assert key(node, "ci") != gone, "the same name has another value"
    assert asked(node, "/v1/models", gone)[0] == 401
    assert asked(node, "/v1/models", key(node, "ci"))[0] == 200


# -- what a person is told ------------------------------------------------------------------------------------------


def test_a_run_ends_with_a_command_that_works(node: Serving, second_run: Run) -> None:
    again = second_run.output
    line = next(one for one in again.splitlines() if one.startswith(f"  {node.profile.head}  curl "))
    command = line.removeprefix(f"  {node.profile.head}  ")
    assert f"address    https://{address(node)}/v1" in again
    assert "model      tiny" in again
    assert key(node, "alice") not in again
    done = subprocess.run(["sh", "-c", command], env=node.env, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert node.profile.fingerprint in json.loads(done.stdout)["system_fingerprint"]


@pytest.mark.extended  # the README's cluster is asked by the same command, without an endpoint
def test_ask_answers_through_the_endpoint(node: Serving) -> None:
    how = node.command("firstlight", "ask", "-i", node.profile.inventory, "--how").output
    assert f"https://{address(node)}/v1" in how
    ask = ("firstlight", "ask", "-i", node.profile.inventory, "--key", "ci")
    whole = node.command(*ask, "--json", "Which node answers?").output
    assert node.profile.fingerprint in json.loads(whole[whole.index("{") :])["system_fingerprint"]
    node.command(*ask, "Which node answers?")  # streamed; random weights may end an answer at once


# -- secrets --------------------------------------------------------------------------------------------------------


def test_secrets_are_nowhere(node: Serving, first_run: Run, tmp_path: Path) -> None:
    secrets = secrets_of(node, ("alice", "ci"))
    assert seen_in(first_run.output, secrets) == []
    assert set(seen_on(node, node.profile.head, secrets)) <= KNOWN_TO_ROOT
    node.command("firstlight", "collect", "-i", node.profile.inventory, "--output", str(tmp_path / "bundle"))
    assert (tmp_path / "bundle").is_dir()
    assert seen_in(text_of(tmp_path / "bundle"), secrets) == []
