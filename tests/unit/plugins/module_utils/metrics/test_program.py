# SPDX-License-Identifier: Apache-2.0
"""The program as it is shipped, one text in a process of its own."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.metrics.settings import Settings
from ansible_collections.firstlight.cluster.plugins.module_utils.metrics.bundle import program
from ansible_collections.firstlight.cluster.plugins.module_utils.metrics.server import Handler, Server


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "metrics.py"
    path.write_text(program(), encoding="utf-8")
    return path


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def config(path: Path, **changes: Any) -> Path:
    document = {"version": 1, "node": "a", "listen": "127.0.0.1", "port": free_port(), "keeper": False, **changes}
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


def test_a_stranger_gets_no_page_and_is_told_of_once() -> None:
    said: list[str] = []
    settings = Settings(node="a", listen="127.0.0.1", port=0, hosts=frozenset({"10.0.0.5"}))
    with Server(settings, lambda: "secret 1\n", said.append) as server:
        for peer, status in (("10.0.0.6", 403), ("10.0.0.6", 403), ("10.0.0.5", 200)):
            ours, theirs = socket.socketpair()
            theirs.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            Handler(ours, (peer, 1), server)
            ours.close()
            answer = theirs.recv(65536).decode()
            theirs.close()
            assert answer.startswith(f"HTTP/1.0 {status} ")
            assert ("secret" in answer) is (status == 200)
    assert said == ["10.0.0.6 may not read: it is none of the monitoring hosts"]
