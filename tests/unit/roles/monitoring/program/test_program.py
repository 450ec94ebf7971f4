# SPDX-License-Identifier: Apache-2.0
"""The program as it is shipped, one file in a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import program
from ansible_collections.firstlight.cluster.roles.monitoring.program import server as server_module
from ansible_collections.firstlight.cluster.roles.monitoring.program.server import AT_ONCE, Server
from ansible_collections.firstlight.cluster.roles.monitoring.program.settings import Settings


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "metrics.pyz"
    path.write_bytes(program("monitoring"))
    return path


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def config(path: Path, **changes: Any) -> Path:
    document = {"version": 1, "node": "a", "listen": "127.0.0.1", "port": free_port(), "supervisor": False, **changes}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.fixture
def port(written: Path, tmp_path: Path) -> Iterator[int]:
    settings = config(tmp_path / "metrics.json")
    process = subprocess.Popen([sys.executable, "-I", str(written), "--config", str(settings)])
    own = int(json.loads(settings.read_text())["port"])
    for _ in range(1200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", own)) == 0:
                break
        time.sleep(0.05)
    yield own
    process.terminate()
    process.wait(60)


def ask(port: int, method: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_it_serves_one_page_and_takes_nothing(port: int) -> None:
    status, page = ask(port, "GET", "/metrics")
    assert status == 200
    assert 'firstlight_source_up{source="host"} 1\n' in page
    assert ask(port, "GET", "/etc/shadow")[0] == 404
    assert ask(port, "HEAD", "/metrics") == (200, "")
    assert ask(port, "POST", "/metrics")[0] == 501


@pytest.mark.slow  # two processes
def test_a_wrong_configuration_ends_it_with_a_reason(written: Path, tmp_path: Path) -> None:
    wrong = config(tmp_path / "metrics.json", hosts=["monitor.example"])
    for path in (wrong, tmp_path / "none.json"):
        done = subprocess.run(
            [sys.executable, "-I", str(written), "--config", str(path)], check=False, capture_output=True, text=True
        )
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "expected an IP address" in done.stderr or "cannot be read" in done.stderr


def test_an_address_of_somebody_else_ends_it_with_a_reason(written: Path, tmp_path: Path) -> None:
    path = config(tmp_path / "metrics.json", listen="192.0.2.1", hosts=["192.0.2.2"])
    done = subprocess.run(
        [sys.executable, "-I", str(written), "--config", str(path)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "cannot listen on 192.0.2.1" in done.stderr


# --- strangers, and slow ones ---------------------------------------------------------------------------------------

SETTINGS = Settings(node="a", listen="127.0.0.1", port=0, hosts=frozenset({"10.0.0.5", "10.0.0.7"}))
REQUEST = b"GET /metrics HTTP/1.0\r\n\r\n"


class Door:
    """The server, and connections to it that seem to come from anywhere."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.server = Server(SETTINGS, lambda: "secret 1\n", self.said.append)

    def connect(self, peer: str, words: bytes = b"") -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.settimeout(10)
        theirs.sendall(words)
        self.server.process_request(ours, (peer, 1))
        return theirs


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    with made.server:
        yield made


def answer(connection: socket.socket) -> str:
    with connection, connection.makefile("rb") as stream:
        return stream.read().decode()


@pytest.mark.hostile
def test_a_stranger_gets_no_page_and_is_told_of_once(door: Door) -> None:
    for _ in range(2):
        said = answer(door.connect("10.0.0.6", REQUEST))
        assert said.startswith("HTTP/1.0 403 ")
        assert "secret" not in said
    assert "secret 1" in answer(door.connect("10.0.0.5", REQUEST))
    assert door.said == ["10.0.0.6 may not read the metrics: it is not one of the monitoring hosts"]


@pytest.mark.hostile
def test_silent_strangers_and_slow_readers_keep_nobody_out(door: Door) -> None:
    crowd = [door.connect(f"10.1.{number // 250}.{number % 250}") for number in range(300)]
    slow = [door.connect("10.0.0.7", b"GET /metrics HT") for _ in range(50)]
    slow += [door.connect(f"127.0.0.{number}", b"GET /metrics HT") for number in range(1, 50)]
    threads = threading.active_count()
    assert "secret 1" in answer(door.connect("10.0.0.5", REQUEST))
    assert threads <= 2 * AT_ONCE + 5  # of one that may read and of loopback, beside the test's own
    assert len(door.said) == 64
    door.server.service_actions()
    assert len([one for one in crowd if one.recv(100)]) == 300  # all were told why
    for one in crowd + slow:
        one.close()


@pytest.mark.hostile
def test_a_request_in_drops_has_one_deadline(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REQUEST_SECONDS", 0.05)
    slow = door.connect("10.0.0.5", b"GET /metrics HTTP/1.0\r\nX: ")
    ended = time.monotonic() + 10
    with contextlib.suppress(OSError):
        while time.monotonic() < ended:
            slow.sendall(b"x")
            door.server.service_actions()
            time.sleep(0.01)
    assert time.monotonic() < ended
    slow.close()
