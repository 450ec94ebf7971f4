# SPDX-License-Identifier: Apache-2.0
"""How each part is read, from commands that answer, refuse and are not there, and from other programs' pages."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.roles.monitoring.program.page import rendered
from ansible_collections.firstlight.cluster.roles.monitoring.program.reading import (
    AbsentError,
    ReadError,
    Readings,
    fetch,
)
from ansible_collections.firstlight.cluster.roles.monitoring.program.settings import parse_settings

from tests.unit.fake_host import FakeHost, Reply, not_installed

SETTINGS: dict[str, Any] = {
    "version": 1,
    "node": "a",
    "listen": "127.0.0.1",
    "port": 9410,
    "pins": {"bash": "5"},
    "gpus": 1,
    "certificates": ["/a.pem"],
    "firewall_tables": ["inet t"],
}


def answer(text: str = "", rc: int = 0, error: str = "") -> Result:
    return Result(("x",), rc, text, error)


def read(part: str, *results: Reply, program: str) -> str:
    readings = Readings(parse_settings(SETTINGS), FakeHost({program: list(results) or not_installed}))
    return rendered(readings.parts()[part][0]())


def test_a_field_that_a_driver_does_not_know_is_left_out() -> None:
    refused = answer('Field "clocks_event_reasons.active" is not a valid field to query.\n', 2)
    told = read("gpu", refused, answer("0, GPU-1, H100, 41, 97, 1, 2, 3, 4, 0\n"), program="nvidia-smi")
    assert 'firstlight_gpu_temperature_celsius{gpu="0"} 41' in told
    assert "throttled" not in told


def test_a_driver_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(ReadError, match="couldn't communicate"):
        read("gpu", answer("", 9, "NVIDIA-SMI has failed because it couldn't communicate"), program="nvidia-smi")
    with pytest.raises(ReadError, match="not installed"):
        read("gpu", program="nvidia-smi")


def test_no_fault_in_the_log_is_none() -> None:
    assert "firstlight_gpu_faults_total 0" in read("kernel_log", answer("", 1), program="journalctl")
    line = "2026-11-16T03:00:00+0000 a kernel: NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n"
    assert "firstlight_gpu_faults_total 1" in read("kernel_log", answer(line), program="journalctl")
    with pytest.raises(ReadError):
        read("kernel_log", answer("", 1, "No journal files were opened"), program="journalctl")


def test_a_package_that_is_not_there_is_off_its_pin() -> None:
    told = read("pins", answer("", 1, "dpkg-query: no packages found matching bash"), program="dpkg-query")
    assert 'firstlight_package_as_pinned{package="bash",wanted="5",installed=""} 0' in told


def test_what_is_not_asked_for_is_not_looked_at() -> None:
    bare = parse_settings({"version": 1, "node": "a", "listen": "127.0.0.1", "port": 1, "supervisor": False})
    assert list(Readings(bare).parts()) == ["host"]


def test_a_supervisor_without_files_is_dead() -> None:
    with pytest.raises(ReadError, match="missing"):
        Readings(parse_settings(SETTINGS), FakeHost({}, {"/": None})).parts()["supervisor"][0]()


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response({"/metrics": 200, "/moved": 302}.get(self.path, 500))
        self.send_header("Location", "/metrics")
        self.end_headers()
        self.wfile.write(b"vllm:x 1\n")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_only_an_answer_of_200_is_a_page(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert fetch(f"{url}/metrics") == "vllm:x 1\n"
    for path in ("/moved", "/broken"):
        with pytest.raises(ReadError, match="does not answer"):
            fetch(f"{url}{path}")
    with pytest.raises(ReadError, match="does not answer"):
        fetch("http://127.0.0.1:1/metrics")


RAYLET = "/site/ray/core/src/ray/raylet/raylet\0--metrics-agent-port=0\0--dashboard_agent_command={}\0--head\0"
AGENT = "/usr/bin/python3 -u /site/ray/dashboard/agent.py --node-ip-address=192.0.2.10 --stdout-filepath=/tmp/a"


@pytest.mark.parametrize(
    ("processes", "error"),
    [
        (["python3\0-u\0", RAYLET.format(f"{AGENT} --minimal --head")], AbsentError),
        (["python3\0-u\0", RAYLET.format(f"{AGENT} --head")], ReadError),
        (["python3\0--minimal\0"], ReadError),
        ([], ReadError),
    ],
)
def test_a_ray_without_agent_is_no_part_and_one_that_is_silent_is_down(
    processes: list[str], error: type[Exception]
) -> None:
    source = {"name": "ray", "url": "http://127.0.0.1:1/metrics", "allowed": ["ray_"], "labels": {}}
    files = {f"/proc/{pid}/cmdline": text for pid, text in enumerate(processes, start=100)}
    host = FakeHost({}, {**files, "/proc/self/cmdline": "python3\0", "/proc/version": "Linux\n"})
    readings = Readings(parse_settings({**SETTINGS, "sources": [source]}), host)
    with pytest.raises(error):
        readings.parts()["ray"][0]()
