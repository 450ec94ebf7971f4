# SPDX-License-Identifier: Apache-2.0
"""The endpoint answers who has a key, and nobody else; it streams, it has limits, and it writes no secret down."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0"]

BASE = "https://127.0.0.1:8443"
DIRECTORY = "/etc/firstlight/endpoint"
NAMES = ("alice", "slow", "vaulted", "leaver", "default", "include", "team")
PROMPT = "a-prompt-nobody-may-read"
FORBIDDEN = (
    "/",
    "/pause",
    "/resume",
    "/update_weights",
    "/invocations",
    "/metrics",
    "/tokenize",
    "/docs",
    "/openapi.json",
    "/version",
    "/v1/load_lora_adapter",
    "/v1/models/",
    "/v1/../pause",
    "/v1/%2e%2e/pause",
    "/v1/models/../../pause",
    "/v1/responses/../pause",
    "/v1/responses/%2e%2e/cancel",
    "/v1/responses/..%2fpause",
    "//pause",
    "//v1/models",
    "/v1//models",
    "/%70ause",
    "/v1/%6dodels",
    "/v1/models%2f..%2f..%2fpause",
    "/v1/models;/pause",
    "/health/../pause",
    "/health/",
    "/V1/models",
)


def ask(host: Host, path: str, *words: str, name: str = "alice", base: str = BASE) -> tuple[int, str]:
    """Status and body; the key comes from a file, as for any client."""
    header = ["--header", f"@/root/{name}.header"] if name else []
    command = ["ask", "--silent", "--path-as-is", "--max-time", "30", "--cacert", f"{DIRECTORY}/ca.crt"]
    told = host.check_output(shlex.join([*command, *header, *words, "--write-out", "\n%{http_code}", base + path]))
    body, _, status = told.rpartition("\n")
    return int(status), body


@pytest.fixture(scope="module", autouse=True)
def _headers(host: Host) -> None:
    for name in (*NAMES, "engine", "wrong", "lower"):
        host.check_output(f"install -m 0600 /dev/null /root/{name}.header")
    for name in NAMES:
        host.check_output(f"{{ printf 'Authorization: Bearer '; cat {DIRECTORY}/keys/{name}; }} > /root/{name}.header")
    host.check_output("sed 's/VLLM_API_KEY=/Authorization: Bearer /' /etc/firstlight/server.env > /root/engine.header")
    host.check_output("echo 'Authorization: Bearer sk-fl-wrong' > /root/wrong.header")
    host.check_output("sed 's/sk-fl-.*/\\L&/' /root/alice.header > /root/lower.header")


def test_it_runs_and_comes_back_after_a_boot(host: Host) -> None:
    assert host.service("firstlight-endpoint").is_running
    assert host.service("firstlight-endpoint").is_enabled
    assert not host.service("nginx").is_running


def test_who_talks_to_clients_is_not_root(host: Host) -> None:
    pid = host.check_output("systemctl show --value --property=MainPID firstlight-endpoint")
    assert set(host.check_output(f"ps -o user= --ppid {pid}").split()) == {"www-data"}


@pytest.mark.parametrize("name", ["alice", "vaulted", "default", "include", "team"])
def test_a_key_is_answered_and_the_engine_gets_its_own(host: Host, name: str) -> None:
    status, body = ask(host, "/v1/models?limit=1", name=name)
    assert (status, json.loads(body)) == (200, {"path": "/v1/models?limit=1", "known": True, "length": 0})


@pytest.mark.parametrize("name", ["", "wrong", "engine", "lower"])
def test_nobody_else_is(host: Host, name: str) -> None:
    status, body = ask(host, "/v1/models", name=name)
    assert (status, json.loads(body)["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize("path", FORBIDDEN)
def test_a_path_that_is_not_listed_is_not_there(host: Host, path: str) -> None:
    before = host.check_output("wc -l < /run/stand-in-engine.log")
    for method in ("GET", "POST"):
        status, body = ask(host, path, "--request", method)
        assert (status, json.loads(body)["error"]["code"]) == (404, "no_such_path")
    assert host.check_output("wc -l < /run/stand-in-engine.log") == before


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses/resp_1/cancel"])
def test_a_path_that_is_listed_is(host: Host, path: str) -> None:
    status, body = ask(host, path, "--data", "{}")
    assert (status, json.loads(body)["path"]) == (200, path)


def test_health_needs_no_key_and_gets_none(host: Host) -> None:
    status, body = ask(host, "/health", name="")
    assert (status, json.loads(body)["known"]) == (200, False)
    assert json.loads(ask(host, "/health")[1])["known"] is False


def test_other_methods_are_refused(host: Host) -> None:
    assert ask(host, "/v1/models", "--request", "DELETE")[0] == 405


def test_plain_http_is_told_where_to_go(host: Host) -> None:
    status, body = ask(host, "/v1/models", base="http://127.0.0.1:8443")
    assert (status, json.loads(body)["error"]["code"]) == (400, "plain_http")
    status, told = ask(host, "/v1/models", "--include", base="http://127.0.0.1:8081")
    assert status == 308
    assert "Location: https://127.0.0.1:8443/v1/models" in told


def test_a_large_request_is_refused_before_it_is_read(host: Host) -> None:
    host.check_output("truncate --size 100M /run/large")
    told = host.check_output(
        f"ask --silent --cacert {DIRECTORY}/ca.crt --header @/root/alice.header --data-binary @/run/large "
        f"--header 'Expect: 100-continue' --output /dev/null --write-out '%{{http_code}} %{{size_upload}}' "
        f"{BASE}/v1/chat/completions; rm /run/large"
    )
    status, sent = told.split()
    assert status == "413"
    assert int(sent) < 2_000_000


STREAM = """
import json, ssl, time, urllib.request
context = ssl.create_default_context(cafile="/etc/firstlight/endpoint/ca.crt")
name, _, value = open("/root/alice.header").read().strip().partition(": ")
body = json.dumps({"stream": True, "prompt": "a-prompt-nobody-may-read"}).encode()
request = urllib.request.Request("https://127.0.0.1:8443/v1/chat/completions", data=body, headers={name: value})
with urllib.request.urlopen(request, context=context) as answer:
    print(json.dumps([time.monotonic() for line in answer if line.startswith(b"data")]))
"""


def test_a_stream_arrives_piece_by_piece(host: Host) -> None:
    times = json.loads(host.check_output(f"python3 -c {shlex.quote(STREAM)}"))
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(gaps) == 4
    assert min(gaps) > 0.2


SLOW = """
import socket, ssl, subprocess, time
context = ssl.create_default_context(cafile="/etc/firstlight/endpoint/ca.crt")
held = []
for number in range(200):
    one = context.wrap_socket(socket.create_connection(("127.0.0.1", 8443)), server_hostname="127.0.0.1")
    one.sendall(b"POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\n")
    held.append(one)
started = time.monotonic()
told = subprocess.run(["ask", "--silent", "--cacert", "/etc/firstlight/endpoint/ca.crt", "--header",
    "@/root/alice.header", "--output", "/dev/null", "--write-out", "%{http_code}",
    "https://127.0.0.1:8443/v1/models"], capture_output=True, text=True).stdout
print(told, time.monotonic() - started)
held[0].settimeout(30)
print(held[0].recv(100))
print(time.monotonic() - started)
"""


def test_slow_ones_stop_nobody_and_are_let_go(host: Host) -> None:
    asked, ended, seconds = host.check_output(f"python3 -c {shlex.quote(SLOW)}").splitlines()
    assert asked.split()[0] == "200"
    assert float(asked.split()[1]) < 2
    assert ended == "b''" or "408" in ended
    assert float(seconds) < 20


LARGE = """
import json, os, pathlib, socket, ssl, subprocess, sys, time
context = ssl.create_default_context(cafile="/etc/firstlight/endpoint/ca.crt")
def begin(name, size):
    one = context.wrap_socket(socket.create_connection(("127.0.0.1", 8443)), server_hostname="127.0.0.1")
    header = open(f"/root/{name}.header").read().strip() + "\\r\\n" if name else ""
    path = "/v1/chat/completions" if name else "/health"
    one.sendall(f"POST {path} HTTP/1.1\\r\\nHost: x\\r\\n{header}Content-Length: {size}\\r\\n\\r\\n".encode())
    one.sendall(b"x" * min(size, 1 << 20))
    one.settimeout(3)
    return one
def told(one):
    try:
        return one.recv(4096).split(b" ")[1].decode()
    except TimeoutError:
        return ""
held = [begin("alice", 16 << 20) for _ in range(2)]
time.sleep(1)
master = subprocess.run(["systemctl", "show", "--value", "--property=MainPID", "firstlight-endpoint"],
    capture_output=True, text=True).stdout.strip()
workers = subprocess.run(["pgrep", "--parent", master], capture_output=True, text=True).stdout.split()
links = [os.readlink(link) for pid in workers for link in pathlib.Path("/proc", pid, "fd").iterdir()]
print(json.dumps({
    "third": told(begin("alice", 1 << 20)),
    "small": told(begin("alice", 1000)),
    "health": told(begin("", 1 << 20)),
    "spooled": [link for link in links if "client_body" in link],
}))
"""


def test_large_requests_wait_on_disk_and_only_so_many(host: Host) -> None:
    told = json.loads(host.check_output(f"python3 -c {shlex.quote(LARGE)}"))
    assert (told["third"], told["small"], told["health"]) == ("429", "200", "413")
    assert len(told["spooled"]) == 2
    assert all(path.startswith("/var/cache/firstlight-endpoint/") for path in told["spooled"])


def test_each_key_has_its_rate(host: Host) -> None:
    statuses = [ask(host, "/v1/models", "--include", name="slow") for _ in range(5)]
    assert statuses[0][0] == 200
    status, body = statuses[-1]
    assert status == 429
    assert "Retry-After: 10" in body
    assert '"code": "too_many"' in body
    assert ask(host, "/v1/models")[0] == 200


def test_the_log_names_who_asked_and_nothing_else(host: Host) -> None:
    ask(host, f"/v1/chat/completions?api_key={PROMPT}", "--data", json.dumps({"prompt": PROMPT}))
    ask(host, f"/{PROMPT}")
    logged = host.check_output("journalctl --no-pager --output=cat --identifier=firstlight_endpoint")
    last = [json.loads(line) for line in logged.splitlines()][-2]
    assert (last["key"], last["method"], last["path"], last["status"]) == (
        "alice",
        "POST",
        "/v1/chat/completions",
        "200",
    )
    whole = host.check_output("journalctl --no-pager --output=cat")
    assert PROMPT not in whole
    for secret in secrets(host):
        assert secret not in whole


def secrets(host: Host) -> list[str]:
    paths = [f"{DIRECTORY}/keys/{name}" for name in NAMES] + ["/etc/firstlight/server.env"]
    return [host.file(path).content_string.strip().rpartition("=")[2] for path in paths]


def test_keys_are_roots_alone_and_nowhere_else(host: Host) -> None:
    for path in (*(f"keys/{name}" for name in NAMES), "keys.map", "upstream.conf", "server.pem", "ca.key"):
        found = host.file(f"{DIRECTORY}/{path}")
        assert (found.user, found.group, found.mode) == ("root", "root", 0o600), path
    assert host.file(f"{DIRECTORY}/keys").mode == 0o700
    arguments = host.check_output("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    public = host.check_output(f"cat {DIRECTORY}/nginx.conf /etc/systemd/system/firstlight-endpoint.service")
    for secret in secrets(host):
        assert len(secret) >= 40
        assert secret not in arguments
        assert secret not in public


def test_keys_that_are_made_have_their_shape(host: Host) -> None:
    value = host.file(f"{DIRECTORY}/keys/alice").content_string.strip()
    assert value.startswith("sk-fl-")
    assert len(value) == 6 + 43


def test_the_certificate_is_for_its_names_and_its_end_can_be_read(host: Host) -> None:
    shown = host.check_output(f"openssl x509 -in {DIRECTORY}/server.crt -noout -enddate -ext subjectAltName")
    assert "DNS:llm.example.org" in shown
    assert "IP Address:127.0.0.1" in shown
    assert host.run(f"openssl verify -CAfile {DIRECTORY}/ca.crt {DIRECTORY}/server.crt").rc == 0
    assert host.file(f"{DIRECTORY}/server.crt").mode == 0o644


def test_counters_are_the_hosts_own(host: Host) -> None:
    assert "Active connections" in host.check_output("ask --silent http://127.0.0.1:8480/status")
    assert host.socket("tcp://127.0.0.1:8480").is_listening
    assert not host.socket("tcp://0.0.0.0:8480").is_listening
    assert not host.socket("tcp://0.0.0.0:8443").is_listening
