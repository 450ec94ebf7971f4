# SPDX-License-Identifier: Apache-2.0
"""Start Ray nodes and a vLLM server as the product does, and ask for one chat completion.

Runs inside the image's own file system with its own network and process namespace. It proves that the image serves,
and leaves behind the byte code of exactly those modules that serving imports. The arguments are the model's
directory and one address per node; the answer and the times are printed as JSON.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

PORT = 8000
DEADLINE = 420.0


def start(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process that writes to a log of its own."""
    with log.open("wb") as output:
        return subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)


def main() -> None:
    """Bring the cluster up, ask, print, leave."""
    model, addresses = sys.argv[1], sys.argv[2:]
    logs = Path("/tmp/smoke")
    logs.mkdir(exist_ok=True)
    token = logs / "token"
    token.write_text(secrets.token_hex(32), encoding="ascii")
    token.chmod(0o600)
    environment = dict(os.environ, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token))
    began = time.monotonic()
    running = []
    for number, address in enumerate(addresses):
        role = ["--head", "--port=6379"] if number == 0 else [f"--address={addresses[0]}:6379"]
        command = ["ray", "start", "--block", *role, f"--node-ip-address={address}", "--num-cpus=1",
                   "--num-gpus=1", "--object-store-memory=100000000", "--include-dashboard=false",
                   "--disable-usage-stats"]  # fmt: skip
        if number:
            time.sleep(8)
            command = [word for word in command if not word.startswith("--include-dashboard")]
        running.append(start(command, dict(environment, VLLM_HOST_IP=address), logs / f"ray{number}.log"))
    command = ["vllm", "serve", model, "--served-model-name", "tiny", "--host", addresses[0],
               "--port", str(PORT), "--tensor-parallel-size", str(len(addresses)),
               "--distributed-executor-backend", "ray", "--dtype", "float32", "--enforce-eager",
               "--max-model-len", "256", "--max-num-seqs", "4", "--kv-cache-memory-bytes", "64M"]  # fmt: skip
    server_environment = dict(environment, RAY_ADDRESS=f"{addresses[0]}:6379", VLLM_HOST_IP=addresses[0])
    server = start(command, server_environment, logs / "server.log")
    running.append(server)
    request = urllib.request.Request(
        f"http://{addresses[0]}:{PORT}/v1/chat/completions",
        data=json.dumps(
            {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": "Say hello."}]}
        ).encode(),
        headers={"Content-Type": "application/json"},
    )
    answer = None
    while answer is None:
        if server.poll() is not None or time.monotonic() - began > DEADLINE:
            sys.stderr.write((logs / "server.log").read_text(errors="replace")[-6000:])
            raise SystemExit(f"no answer after {time.monotonic() - began:.0f} s; server status {server.poll()}")
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                answer = json.load(response)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.25)
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
