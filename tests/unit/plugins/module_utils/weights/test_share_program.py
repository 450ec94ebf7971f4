# SPDX-License-Identifier: Apache-2.0
"""A node that shares, on loopback, asked by the client that the other nodes use."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.weights import share_program as program
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.hub_client import HubClient
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot import (
    RECORD_NAME,
    listing,
    parse_record,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot_store import (
    HubError,
    record_directory,
)
from ansible_collections.firstlight.cluster.plugins.modules import model_snapshot, peer_share
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.unit.examples import examples

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "t" * 48
WEIGHTS = bytes(range(256)) * 400
LIST = f"/api/models/example/tiny/tree/{COMMIT}?recursive=true"
FILES = {"config.json": b'{"a": 1}\n', "sub/mo del.safetensors": WEIGHTS, "empty.txt": b""}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    directory = tmp_path / "shared"
    for name, data in FILES.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    record_directory(str(directory), "example/tiny", COMMIT)
    (directory / "secret.txt").write_text("not in the record")
    return directory


def server_of(directory: Path, connections: int = 8, idle: float = 60.0, peers: Sequence[str] = ()) -> program.Server:
    told = peer_share.settings(
        Host(),
        {
            "address": "127.0.0.1",
            "port": 0,
            "token": TOKEN,
            "directories": [str(directory)],
            "lifetime": 60,
            "idle": 60,
            "connections": connections,
            "peers": list(peers),
        },
    )
    path = directory.parent / "settings.json"
    path.write_text(json.dumps({**told, "idle": idle}))
    server = program.Server(program.take_settings(str(path)))
    assert not path.exists(), "the token lies about no longer than it must"
    return server


def serve(directory: Path, connections: int = 8, peers: Sequence[str] = ()) -> Iterator[program.Server]:
    server = server_of(directory, connections, peers=peers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def server(shared: Path) -> Iterator[program.Server]:
    yield from serve(shared)


def listing_of(server: program.Server) -> str:
    (shared,) = server.settings.shared.values()
    return f"sha256:{sha256(shared.listing).hexdigest()}"


def client_of(server: program.Server, token: str = TOKEN, revision: str = COMMIT) -> HubClient:
    endpoint = f"http://127.0.0.1:{server.server_port}"
    client = HubClient(endpoint, "example/tiny", revision, token, 10, peer=True, listing=listing_of(server))
    client.pause = lambda _seconds: None
    return client


def receive(server: program.Server, directory: Path, **more: Any) -> dict[str, Any]:
    parameters = {"repository": "example/tiny", "revision": COMMIT, "directory": str(directory), "workers": 3, **more}
    return model_snapshot.converge(Host(), client_of(server), parameters, check_mode=False)


def signed(path: str, wanted: str = "", method: str = "GET", token: str = TOKEN, nonce: str = "") -> dict[str, str]:
    nonce = nonce or secrets.token_hex(16)
    mac = program.request_mac(token, method, path, wanted, nonce)
    return {"Authorization": f"Firstlight {nonce} {mac}"}


def ask(server: program.Server, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(
        method, path, headers={**signed(path, (headers or {}).get("Range", ""), method), **(headers or {})}
    )
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_another_node_gets_everything_verified(server: program.Server, shared: Path, tmp_path: Path) -> None:
    result = receive(server, tmp_path / "to")
    assert result["fetched"] == sorted(FILES)
    for name, data in FILES.items():
        assert (tmp_path / "to" / name).read_bytes() == data
    records = [parse_record((place / RECORD_NAME).read_text()) for place in (shared, tmp_path / "to")]
    assert listing(records[0]) == listing(records[1])
    assert not receive(server, tmp_path / "to")["changed"]


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, len(WEIGHTS)), wrong=st.booleans())
def test_a_copy_that_was_cut_at_any_byte_is_resumed(
    server: program.Server, tmp_path: Path, cut: int, wrong: bool
) -> None:
    target = tmp_path / "to" / "sub" / "mo del.safetensors"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    beginning = WEIGHTS[:cut]
    target.with_name(target.name + ".partial").write_bytes(b"X" + beginning[1:] if wrong and cut else beginning)
    receive(server, tmp_path / "to")
    assert target.read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ("wanted", "status", "body"),
    [
        ("bytes=0-", 206, WEIGHTS),
        ("bytes=100-", 206, WEIGHTS[100:]),
        ("bytes=100-199", 206, WEIGHTS[100:200]),
        ("bytes=100-999999999", 206, WEIGHTS[100:]),
        (f"bytes={len(WEIGHTS)}-", 416, b""),
        ("bytes=5-4", 416, b""),
        ("bytes=-5", 200, WEIGHTS),
        ("lines=1-2", 200, WEIGHTS),
        ("bytes=1-x", 200, WEIGHTS),
    ],
)
def test_ranges(server: program.Server, wanted: str, status: int, body: bytes) -> None:
    answer, found = ask(server, f"/example/tiny/resolve/{COMMIT}/sub/mo%20del.safetensors", {"Range": wanted})
    assert answer.status == status
    assert found == body


@pytest.mark.parametrize(
    "path",
    [
        "/",
        f"/example/tiny/resolve/{COMMIT}/secret.txt",
        f"/example/tiny/resolve/{COMMIT}/{RECORD_NAME}",
        f"/example/tiny/resolve/{COMMIT}/../../../../etc/passwd",
        f"/example/tiny/resolve/{COMMIT}/sub%2F..%2Fsecret.txt",
        f"/example/tiny/resolve/{'0' * 40}/config.json",
        f"/example/other/resolve/{COMMIT}/config.json",
        f"/api/models/example/other/tree/{COMMIT}",
    ],
)
def test_nothing_but_the_record_is_handed_out(server: program.Server, path: str) -> None:
    assert ask(server, path)[0].status == 404


def test_a_head_request_has_no_bytes(server: program.Server) -> None:
    answer, body = ask(server, f"/example/tiny/resolve/{COMMIT}/config.json", method="HEAD")
    assert (answer.status, answer.headers["Content-Length"], body) == (200, str(len(FILES["config.json"])), b"")
    assert ask(server, f"/api/models/example/tiny/tree/{COMMIT}", method="HEAD")[1] == b""


@pytest.mark.hostile
@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": ""},
        {"Authorization": "Firstlight"},
        {"Authorization": "Firstlight  "},
        {"Authorization": f"Firstlight {'0' * 32} {'0' * 64}"},
        {"Authorization": "Firstlight ä ö"},
        {"Authorization": f"Bearer {TOKEN}"},
        signed(LIST, token=TOKEN + "x"),
        signed(LIST, method="HEAD"),
        signed(LIST, nonce="0" * 31),
        signed(LIST + "&x"),
        signed(LIST, "bytes=1-"),
        {**signed(LIST, "bytes=1-"), "Range": "bytes=2-"},
    ],
)
def test_a_request_that_was_not_signed_as_it_is_gets_nothing(server: program.Server, headers: dict[str, str]) -> None:
    encoded = {name: value.encode("utf-8").decode("latin-1") for name, value in headers.items()}
    answer, body = ask(server, LIST, encoded)
    assert (answer.status, body) == (401, b"")


@pytest.mark.hostile
def test_what_was_recorded_on_the_way_is_not_answered_again(server: program.Server) -> None:
    recorded = signed(LIST)
    assert ask(server, LIST, recorded)[0].status == 200
    assert ask(server, LIST, recorded)[0].status == 401


def test_another_token_is_explained(server: program.Server) -> None:
    with pytest.raises(HubError, match=r"rejects this run's token .*another run shares"):
        client_of(server, token="other").files()
    with pytest.raises(HubError, match=r"answered HTTP 404 .*expected a node that shares exactly that"):
        client_of(server, revision="f" * 40).files()


def test_a_file_that_changed_is_not_handed_out(server: program.Server, shared: Path, tmp_path: Path) -> None:
    (shared / "config.json").write_bytes(b'{"a": 2}\n')
    with pytest.raises(HubError, match=r"no longer has config.json as it was verified there \(HTTP 409\)"):
        receive(server, tmp_path / "to")
    (shared / "config.json").unlink()
    with pytest.raises(HubError, match=r"no longer has config.json"):
        receive(server, tmp_path / "to")


def test_a_node_that_went_away_is_explained(server: program.Server, tmp_path: Path) -> None:
    client = client_of(server)
    item = client.files()[0]
    client.endpoint = "http://127.0.0.1:9"
    with pytest.raises(HubError, match=r"broke off at config.json .*the node that shares went away.*kept and resumed"):
        client.fetch(item, str(tmp_path))


@pytest.fixture
def narrow(shared: Path) -> Iterator[program.Server]:
    yield from serve(shared, connections=1)


def test_no_more_connections_than_allowed_are_answered(narrow: program.Server, tmp_path: Path) -> None:
    statuses: list[int] = []
    with socket.create_connection(("127.0.0.1", narrow.server_port)) as idle:
        authorization = signed("/")["Authorization"].encode()
        idle.sendall(b"GET / HTTP/1.0\r\nAuthorization: " + authorization + b"\r\n")
        waiting = threading.Thread(target=lambda: statuses.append(ask(narrow, "/")[0].status))
        waiting.start()
        waiting.join(0.2)
        assert not statuses, "its place is taken"
        idle.sendall(b"\r\n")
        waiting.join(60)
        assert statuses == [404]
    receive(narrow, tmp_path / "to")


def test_a_share_that_nobody_uses_ends(shared: Path) -> None:
    with server_of(shared, idle=0.05) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()


def test_the_program_runs_as_one_file_and_tells_systemd(shared: Path, tmp_path: Path) -> None:
    told: dict[str, Any] = {
        "address": "127.0.0.1",
        "port": free_port(),
        "token": TOKEN,
        "connections": 2,
        "idle": 60,
        "peers": [],
        "shared": [peer_share.shared_directory(Host(), str(shared))],
    }
    listed = f"sha256:{sha256(told['shared'][0]['listing'].encode()).hexdigest()}"
    (tmp_path / "settings.json").write_text(json.dumps(told))
    notify = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(notify)
        channel.settimeout(20)
        argv = [sys.executable, "-I", program.__file__, str(tmp_path / "settings.json")]
        with subprocess.Popen(argv, env={**os.environ, "NOTIFY_SOCKET": notify}) as process:
            assert channel.recv(100) == b"READY=1"
            endpoint = f"http://127.0.0.1:{told['port']}"
            client = HubClient(endpoint, "example/tiny", COMMIT, TOKEN, 10, peer=True, listing=listed)
            assert sorted(item.path for item in client.files()) == sorted(FILES)
            (tmp_path / "settings.json").write_text(json.dumps(told))
            second = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
            process.terminate()
    assert second.returncode == 1
    assert second.stderr == f"cannot listen on 127.0.0.1 port {told['port']}: Address already in use\n"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_place_comes_back_when_no_thread_could_be_started(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    server = server_of(shared, connections=1)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for _ in range(3):  # the second would wait for ever
                with pytest.raises(RuntimeError), socket.socket() as caller:
                    server.process_request(caller, ("127.0.0.1", 1))
    finally:
        server.server_close()


def test_another_node_knows_what_was_left_out(tmp_path: Path) -> None:
    """It takes what the first one took, and would not believe that this is all there is."""
    first = tmp_path / "first"
    for name, data in FILES.items():
        (first / name).parent.mkdir(parents=True, exist_ok=True)
        (first / name).write_bytes(data)
    record = record_directory(str(first), "example/tiny", COMMIT)
    (first / RECORD_NAME).write_text(json.dumps({**record, "left_out": {"original/x.pth": 7}}))
    files = {"formats": [{"name": "safetensors", "files": ["*.safetensors"]}], "weights": ["*.pth"]}
    for server in serve(first):
        assert receive(server, tmp_path / "to", files=files)["left_out"] == ["original/x.pth"]
        got = parse_record((tmp_path / "to" / RECORD_NAME).read_text())
        assert got["left_out"] == {"original/x.pth": 7}
        with pytest.raises(HubError, match=r"the sharing node has left out original/x\.pth.*model_weights_files"):
            receive(server, tmp_path / "all")
