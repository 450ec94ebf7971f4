# SPDX-License-Identifier: Apache-2.0
"""Strangers at a node that shares, and strangers in its place, all on loopback."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
    record_contents,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot_store import (
    HubError,
    record_directory,
)
from ansible_collections.firstlight.cluster.plugins.modules import model_snapshot

pytestmark = pytest.mark.hostile

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "SecretOfThisVeryTest" * 3
Knock = Callable[..., socket.socket]
RIGHT = {"config.json": b'{"a": 1}\n', "model.safetensors": bytes(range(256)) * 400}
WRONG = {"config.json": b'{"a": 2}\n', "model.safetensors": b"X" * 102_400}


def verified(directory: Path, files: dict[str, bytes]) -> dict[str, Any]:
    directory.mkdir()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return record_directory(str(directory), "example/tiny", COMMIT)


@pytest.fixture
def head(tmp_path: Path) -> dict[str, Any]:
    """The record of the node whose files are wanted."""
    return verified(tmp_path / "head", RIGHT)


def digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


class Impostor(ThreadingHTTPServer):
    """Answers at the head's address with what it likes, and remembers every byte that it was sent."""

    daemon_threads = True

    def __init__(self, listed: bytes, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Lies)
        self.listed, self.files, self.heard = listed, files, ""
        self.leads_to = ""


class Lies(BaseHTTPRequestHandler):
    server: Impostor

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.server.heard += f"{self.requestline}\n{self.headers}\n"
        if self.server.leads_to:
            self.send_response(302)
            self.send_header("Location", self.server.leads_to)
            self.end_headers()
            return
        body = self.server.listed if "/tree/" in self.path else self.server.files[self.path.rpartition("/")[2]]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def impostors() -> Iterator[Any]:
    started: list[tuple[Impostor, threading.Thread]] = []

    def start(listed: bytes, files: dict[str, bytes]) -> Impostor:
        server = Impostor(listed, files)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        started.append((server, thread))
        return server

    yield start
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


def take(port: int, target: Path, listed: str, **more: Any) -> dict[str, Any]:
    client = HubClient(f"http://127.0.0.1:{port}", "example/tiny", COMMIT, TOKEN, 5, peer=True, listing=listed)
    client.pause = lambda _seconds: None
    wanted = {"repository": "example/tiny", "revision": COMMIT, "directory": str(target), "workers": 2, "peer": True}
    return model_snapshot.converge(Host(), client, {**wanted, **more}, check_mode=False)


def test_who_only_answers_at_the_heads_address_is_not_believed(
    head: dict[str, Any], impostors: Any, tmp_path: Path
) -> None:
    listed = json.dumps(listing(verified(tmp_path / "wrong", WRONG))).encode()
    impostor = impostors(listed, WRONG)
    with pytest.raises(HubError, match=r"something else answers at its address.*nothing was fetched"):
        take(impostor.server_port, tmp_path / "to", digest(json.dumps(listing(head)).encode()))
    assert not (tmp_path / "to").exists()
    assert TOKEN not in impostor.heard


@pytest.mark.parametrize("listed", ["", "sha256:", "sha256:" + "0" * 64])
def test_without_the_heads_own_word_nothing_is_taken(
    head: dict[str, Any], impostors: Any, tmp_path: Path, listed: str
) -> None:
    right = json.dumps(listing(head)).encode()
    with pytest.raises(HubError, match=f"expected {listed or 'none'} as that node itself reported"):
        take(impostors(right, RIGHT).server_port, tmp_path / "to", listed)
    assert not (tmp_path / "to").exists()


def test_a_man_in_the_middle_can_change_no_byte_and_learns_no_token(
    head: dict[str, Any], impostors: Any, tmp_path: Path
) -> None:
    right = json.dumps(listing(head)).encode()
    impostor = impostors(right, {**RIGHT, "config.json": WRONG["config.json"]})
    with pytest.raises(HubError, match=r"config.json came twice with sha256:.*nothing of it was kept"):
        take(impostor.server_port, tmp_path / "to", digest(right))
    assert not list((tmp_path / "to").glob("config.json*"))
    assert not (tmp_path / "to" / RECORD_NAME).exists()
    assert TOKEN not in impostor.heard


def test_a_node_leads_nowhere_else(head: dict[str, Any], impostors: Any, tmp_path: Path) -> None:
    right = json.dumps(listing(head)).encode()
    inside, impostor = impostors(right, RIGHT), impostors(right, RIGHT)
    impostor.leads_to = f"http://127.0.0.1:{inside.server_port}/latest/meta-data/"
    with pytest.raises(HubError, match="answered HTTP 302"):
        take(impostor.server_port, tmp_path / "to", digest(right))
    assert not inside.heard


def test_a_head_that_lies_to_the_controller_is_found_out_by_the_pin(
    head: dict[str, Any], impostors: Any, tmp_path: Path
) -> None:
    listed = json.dumps(listing(verified(tmp_path / "wrong", WRONG))).encode()
    impostor = impostors(listed, WRONG)
    with pytest.raises(HubError, match=r"have the digest sha256:.*nothing was recorded"):
        take(impostor.server_port, tmp_path / "to", digest(listed), contents=record_contents(head))
    assert "/resolve/" not in impostor.heard
    assert [path.name for path in (tmp_path / "to").iterdir()] == [".firstlight-lock"]


def test_what_somebody_slipped_in_earlier_is_replaced(head: dict[str, Any], impostors: Any, tmp_path: Path) -> None:
    """A record that verifies other bytes is no reason to keep them."""
    verified(tmp_path / "to", WRONG)
    right = json.dumps(listing(head)).encode()
    take(impostors(right, RIGHT).server_port, tmp_path / "to", digest(right))
    assert {name: (tmp_path / "to" / name).read_bytes() for name in RIGHT} == RIGHT
    assert record_contents(parse_record((tmp_path / "to" / RECORD_NAME).read_text())) == record_contents(head)


@pytest.fixture
def share(tmp_path: Path, head: dict[str, Any]) -> Iterator[program.Server]:
    """A node that shares with four planned others, of 127.0.0.0/24; the rest of loopback are strangers."""
    text = json.dumps(listing(head)).encode()
    shared = {f"example/tiny@{COMMIT}": program.Shared(str(tmp_path / "head"), head["files"], text)}
    settings = program.Settings(
        "127.0.0.1", 0, TOKEN, shared, 16, 60.0, frozenset(f"127.0.0.{one}" for one in (1, 2, 3, 9))
    )
    server = program.Server(settings)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def knock(share: program.Server) -> Iterator[Knock]:
    """Begins requests, from addresses of loopback."""
    callers: list[socket.socket] = []

    def begin(source: str, words: bytes = b"GET / HT") -> socket.socket:
        caller = socket.create_connection(("127.0.0.1", share.server_port), timeout=10, source_address=(source, 0))
        callers.append(caller)
        caller.sendall(words)
        return caller

    yield begin
    for caller in callers:
        caller.close()


def push(caller: socket.socket, piece: bytes, pause: float = 0.0) -> None:
    """Send it again and again, until the other end has had enough."""
    caller.settimeout(10)
    for _ in range(10_000):
        caller.sendall(piece)
        time.sleep(pause)


def connected(share: program.Server, callers: list[socket.socket]) -> int:
    """How many of these are, once the share has looked at all of them."""
    addresses = {caller.getsockname()[0] for caller in callers}
    end = time.monotonic() + 10
    while time.monotonic() < end:
        held = sum(count for address, count in dict(share._held).items() if address in addresses)
        if held + sum(map(is_closed, callers)) == len(callers):
            return held
        time.sleep(0.01)
    raise AssertionError("some are neither let in nor refused")


def is_closed(caller: socket.socket) -> bool:
    caller.setblocking(False)
    try:
        return not caller.recv(1)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_slow_strangers_take_no_place_of_a_planned_node(
    share: program.Server, knock: Knock, head: dict[str, Any], tmp_path: Path
) -> None:
    callers = [knock(f"127.0.1.{number}") for number in range(1, 41)]
    take(share.server_port, tmp_path / "to", digest(json.dumps(listing(head)).encode()))
    assert connected(share, callers) == program.STRANGERS


def test_one_stranger_leaves_room_for_another(share: program.Server, knock: Knock) -> None:
    assert connected(share, [knock("127.0.1.1") for _ in range(20)]) == program.STRANGERS_OF_ONE
    assert connected(share, [knock("127.0.1.2")]) == 1


def test_a_planned_node_leaves_room_for_another(share: program.Server, knock: Knock) -> None:
    assert connected(share, [knock("127.0.0.1") for _ in range(20)]) == program.LEAST
    assert connected(share, [knock("127.0.0.9")]) == 1


@pytest.mark.slow  # the deadline of a header, shortened to half a second
def test_a_header_has_one_deadline_however_it_trickles_in(knock: Knock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "HEADER_SECONDS", 0.5)
    caller = knock("127.0.1.1", b"GET / HTTP/1.0\r\nX: ")
    with pytest.raises(ConnectionError):
        push(caller, b"y", pause=0.02)


def test_a_header_without_an_end_is_not_read(knock: Knock) -> None:
    caller = knock("127.0.1.1", b"GET / HTTP/1.0\r\nX: ")
    with pytest.raises(ConnectionError):
        push(caller, b"x" * 8192)


def test_nobody_floods_the_log(share: program.Server, knock: Knock, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(30):
        assert b"400" in knock("127.0.1.1", b"\x1b[2Jonsense\r\n\r\n").recv(1000)
    share.say("127.0.0.1", "is heard all the same")
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == program.LINES + 1
    assert lines[-1] == "127.0.0.1: is heard all the same"
    assert not any("\x1b" in line for line in lines)


def test_who_has_no_token_does_not_keep_the_share_awake(share: program.Server, knock: Knock) -> None:
    share._last = time.monotonic() - 1000
    assert b"401" in knock("127.0.1.1", b"GET / HTTP/1.0\r\n\r\n").recv(1000)
    assert time.monotonic() - share._last > 900


def test_what_is_remembered_of_requests_has_a_limit(share: program.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "REQUESTS", 2)
    assert [share.is_new(nonce) for nonce in ("a", "a", "b", "c")] == [True, False, True, False]
