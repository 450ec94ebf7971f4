# SPDX-License-Identifier: Apache-2.0
"""Nodes for the supervisor program: a systemctl, a docker and a journalctl on PATH, and a server that answers.

A node is a directory: a file for each unit with its state, a file for each container. The programs read and write
these; the test does too, when something shall die.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import program

SYSTEMCTL = """#!/bin/sh
action="$1"
while [ "$1" != "--" ]; do shift; done
shift
for unit in "$@"; do
  file="$NODE/units/$unit"
  container="$NODE/containers/${unit%.service}"
  case "$action" in
    show)
      state=$(cat "$file" 2>/dev/null || echo inactive)
      code=0; status=0
      [ "$state" = failed ] && code=1 && status=125
      printf 'Id=%s\\nNames=%s\\nLoadState=loaded\\nActiveState=%s\\nSubState=running\\nResult=success\\n' \\
        "$unit" "$unit" "$state"
      printf 'ExecMainCode=%s\\nExecMainStatus=%s\\nStateChangeTimestampMonotonic=1\\nJob=0\\n\\n' $code $status ;;
    start)
      echo "start $unit" >>"$NODE/log"
      if [ -e "$NODE/broken" ]; then echo failed >"$file"; else echo active >"$file"; : >"$container"; fi ;;
    stop | kill) echo "$action $unit" >>"$NODE/log"; echo inactive >"$file"; rm -f "$container" ;;
  esac
done
"""
DOCKER = """#!/bin/sh
[ -e "$NODE/docker-is-down" ] && { echo "Cannot connect to the Docker daemon" >&2; exit 1; }
case "$1" in
  ps) ls "$NODE/containers" ;;
  rm) shift 3; echo "remove $*" >>"$NODE/log"; rm -f "$NODE/containers/$1" ;;
  image) cat "$NODE/image" 2>/dev/null || { echo "Error: No such image: $4" >&2; exit 1; } ;;
esac
"""
JOURNALCTL = """#!/bin/sh
for said in "INFO loading" "RuntimeError: engine said api_key=sk-notforyoureyes0123456789" "bye"; do
  printf '{"__MONOTONIC_TIMESTAMP":"1","MESSAGE":"%s"}\\n' "$said"
done
"""

KEY = "key-of-the-server-0123456789"
TOKEN = "token-of-the-cluster-0123456789"
FAST = {
    "start_timeout": 8, "stage_timeout": 5, "stop_timeout": 5, "heartbeat_timeout": 2, "probe_interval": 0.3,
    "probe_timeout": 1, "failure_threshold": 2, "backoff": 0.2, "max_backoff": 0.5, "start_attempts": 2,
    "stable_after": 60,
}  # fmt: skip


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Serving:
    """A server that completes while all units of all its nodes run, unless `status` and `text` say otherwise."""

    def __init__(self, units: list[Path]) -> None:
        self.units = units
        self.status, self.text = 200, ""
        self.answering = threading.Event()
        self.answering.set()
        self.completion: dict[str, Any] = {
            "choices": [{"message": {"content": None}}],
            "usage": {"completion_tokens": 1},
            "system_fingerprint": "vllm-0.32.0-tp2-aa",
        }
        self.asked: list[str] = []
        self.tokens = 0
        serving = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                return

            def do_GET(self) -> None:
                labels = '{engine="0",model_name="tiny"}'
                lines = [
                    f"vllm:generation_tokens_total{labels} {serving.tokens}.0",
                    f'vllm:request_success_total{{engine="0",finished_reason="stop"}} {serving.tokens}.0',
                    f"vllm:num_requests_running{labels} 1.0",
                    f"vllm:num_requests_waiting{labels} 0.0",
                    f"vllm:kv_cache_usage_perc{labels} 0.25",
                ]
                serving.tokens += 10
                self._send(200, "\n".join(lines) + "\n")

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                serving.asked.append(self.headers.get("Authorization", ""))
                serving.answering.wait(60)
                up = all(unit.is_file() and unit.read_text().strip() == "active" for unit in serving.units)
                told = serving.text or json.dumps(serving.completion)
                self._send(*((serving.status, told) if up else (500, json.dumps({"error": "dead"}))))

            def _send(self, status: int, text: str) -> None:
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text.encode())

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self.answering.set()
        self._server.shutdown()
        self._server.server_close()


class Machine:
    """One node and its supervisor, when it runs."""

    def __init__(self, place: Path, name: str) -> None:
        self.name = name
        self.place = place / name
        for part in ("units", "containers", "run", "state"):
            (self.place / part).mkdir(parents=True)
        self.token = self.place / "token"
        self.token.write_text(f"{TOKEN}-{name}")
        self.key = self.place / "server.env"
        self.key.write_text(f"VLLM_API_KEY={KEY}\n")
        self.config: dict[str, Any] = {}
        self.supervisor: subprocess.Popen[bytes] | None = None
        self._bin = place / "bin"
        self._program = place / "supervisor.pyz"

    def unit(self, name: str) -> Path:
        return self.place / "units" / name

    def start(self, *arguments: str) -> None:
        """The supervisor as systemd would run it."""
        config = self.place / "supervisor.json"
        config.write_text(json.dumps(self.config))
        environment = {"PATH": f"{self._bin}:{os.environ['PATH']}", "NODE": str(self.place), "LC_ALL": "C"}
        argv = [sys.executable, "-I", str(self._program), "--config", str(config), "--interval=0.2"]
        argv += [f"--run-directory={self.place}/run", f"--state-directory={self.place}/state", *arguments]
        with (self.place / "journal").open("ab") as journal:
            self.supervisor = subprocess.Popen(argv, env=environment, stdout=journal, stderr=journal)

    def send(self, number: int) -> None:
        assert self.supervisor is not None
        self.supervisor.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.supervisor is not None
        if self.supervisor.poll() is None:
            self.supervisor.send_signal(number)
        return self.supervisor.wait(timeout=60)

    def wait(self) -> int:
        assert self.supervisor is not None
        return self.supervisor.wait(timeout=60)

    @property
    def state(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads((self.place / "run/supervisor.json").read_text()))
        return {}

    def group(self, name: str = "server") -> dict[str, Any]:
        return dict(self.state.get("groups", {}).get(name, {}))

    @property
    def journal(self) -> str:
        return (self.place / "journal").read_text()

    @property
    def log(self) -> list[str]:
        """What the supervisor has told systemd and Docker to do."""
        path = self.place / "log"
        return path.read_text().splitlines() if path.is_file() else []


class Cluster:
    """Nodes n0 (the head) to nN, one group over all of them, and its server."""

    def __init__(self, place: Path, count: int) -> None:
        tools = place / "bin"
        tools.mkdir()
        for name, text in (("systemctl", SYSTEMCTL), ("docker", DOCKER), ("journalctl", JOURNALCTL)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        (place / "supervisor.pyz").write_bytes(program("supervisor"))
        self.nodes = [Machine(place, f"n{number}") for number in range(count)]
        self.head = self.nodes[0]
        ray = [node.unit("ray.service") for node in self.nodes]
        self.serving = Serving([*ray, self.head.unit("server.service")])
        port = free_port()
        units = {
            node.name: [{"unit": "ray.service", "stage": min(number, 1), "container": "ray"}]
            for number, node in enumerate(self.nodes)
        }
        units["n0"].append({"unit": "server.service", "stage": 2, "container": "server"})
        # The head's copies of what the others have.
        copies = {node.name: self.head.place / f"{node.name}.token" for node in self.nodes[1:]}
        for node in self.nodes[1:]:
            copies[node.name].write_text(node.token.read_text())
        for node in self.nodes:
            tokens = copies if node is self.head else {node.name: node.token}
            probe = {"url": self.serving.url, "model": "tiny", "key_path": str(node.key), "tensor_parallel": 2}
            node.config = {
                "version": 1,
                "node": node.name,
                "address": "127.0.0.1",
                "head": {"name": "n0", "address": "127.0.0.1", "port": port},
                "tokens": {name: str(path) for name, path in tokens.items()},
                "plan": "a" * 64,
                "groups": [{"name": "server", "head": "n0", "nodes": units, "timing": FAST, "probe": probe}],
            }

    def start(self) -> None:
        for node in self.nodes:
            node.start()

    def close(self) -> None:
        for node in self.nodes:
            if node.supervisor is not None:
                node.end(signal.SIGKILL)
        self.serving.close()

    def wait(self, what: Callable[[], object], seconds: float = 60) -> None:
        """Until something holds; else everything that was said is shown."""
        deadline = time.monotonic() + seconds
        while not what():
            if time.monotonic() > deadline:
                told = "\n".join(
                    f"--- {node.name}\n{node.journal}{node.state}" for node in self.nodes if node.supervisor
                )
                raise AssertionError(f"it did not come true within {seconds} s\n{told}")
            time.sleep(0.05)

    def wait_for(self, phase: str, seconds: float = 60) -> None:
        self.wait(lambda: self.head.group().get("phase") == phase, seconds)


@contextlib.contextmanager
def cluster(place: Path, count: int) -> Iterator[Cluster]:
    made = Cluster(place, count)
    try:
        yield made
    finally:
        made.close()
