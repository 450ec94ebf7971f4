# SPDX-License-Identifier: Apache-2.0
"""Start Ray nodes and a vLLM server as the product does, and ask for one chat completion.

Runs inside the image's own file system with its own network and process namespace. It proves that the image serves,
and leaves behind the byte code of exactly those modules that serving imports. The arguments are the model's
directory and one address per node; the answer and the times are printed as JSON.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

PORT = 8000
RAY_PORT = 6379
DEADLINE = 180.0


def start(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process that writes to a log of its own."""
    with log.open("wb") as output:
        return subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)


def give_up(reason: str, log: Path) -> NoReturn:
    """Say why there is no answer, with the end of the log that knows more."""
    sys.stderr.write(log.read_text(encoding="utf-8", errors="replace")[-6000:])
    raise SystemExit(reason)


def start_ray(addresses: list[str], environment: dict[str, str], logs: Path) -> list[subprocess.Popen[bytes]]:
    """Start one Ray node for each address; a node joins when the one before it is up."""
    running = []
    for number, address in enumerate(addresses):
        role = ["--head", f"--port={RAY_PORT}", "--include-dashboard=false"]
        if number > 0:
            role = [f"--address={addresses[0]}:{RAY_PORT}"]
        log = logs / f"ray{number}.log"
        command = ["ray", "start", "--block", *role, f"--node-ip-address={address}", "--num-cpus=1", "--num-gpus=1",
                   "--object-store-memory=100000000", "--disable-usage-stats"]  # fmt: skip
        node = start(command, dict(environment, VLLM_HOST_IP=address), log)
        running.append(node)
        deadline = time.monotonic() + 60
        while len(addresses) > 1 and "Ray runtime started" not in log.read_text(encoding="utf-8", errors="replace"):
            if node.poll() is not None or time.monotonic() > deadline:
                give_up(f"Ray node {number} did not start; status {node.poll()}", log)
            time.sleep(0.1)
    return running


def ask(address: str) -> Any:
    """Ask for a chat completion; return None while nobody answers."""
    question = {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": "Say hello."}]}
    connection = http.client.HTTPConnection(address, PORT, timeout=60)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(question), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return json.load(response) if response.status == http.HTTPStatus.OK else None
    except OSError:
        return None
    finally:
        connection.close()


def main() -> None:
    """Bring the cluster up, ask, print, leave."""
    model, addresses = sys.argv[1], sys.argv[2:]
    logs = Path(tempfile.mkdtemp())
    token = logs / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32), encoding="ascii")
    environment = dict(os.environ, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token))
    running = start_ray(addresses, environment, logs)
    began = time.monotonic()
    command = ["vllm", "serve", model, "--served-model-name", "tiny", "--host", addresses[0],
               "--port", str(PORT), "--tensor-parallel-size", str(len(addresses)),
               "--distributed-executor-backend", "ray", "--dtype", "float32", "--enforce-eager",
               "--max-model-len", "256", "--max-num-seqs", "4", "--kv-cache-memory-bytes", "64M"]  # fmt: skip
    server_environment = dict(environment, RAY_ADDRESS=f"{addresses[0]}:{RAY_PORT}", VLLM_HOST_IP=addresses[0])
    server = start(command, server_environment, logs / "server.log")
    running.append(server)
    answer = None
    while answer is None:
        seconds = time.monotonic() - began
        if server.poll() is not None or seconds > DEADLINE:
            give_up(f"no answer after {seconds:.0f} s; the server's status is {server.poll()}", logs / "server.log")
        time.sleep(0.25)
        answer = ask(addresses[0])
    print(json.dumps({"seconds": round(time.monotonic() - began, 1), "answer": answer}))
    for process in reversed(running):
        process.terminate()
    for process in running:
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()


if __name__ == "__main__":
    main()
