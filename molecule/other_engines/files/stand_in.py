#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stands for the programs of SGLang and TensorRT-LLM, and for MPI's launcher, in an image without an engine.

Each takes the arguments of the real one, by the flag schema that Firstlight ships, and ends at a flag it does not know.
Ranks find each other as the real ones do; then the head answers in the shape of its engine.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
SETTINGS = {"max_seq_len", "max_batch_size", "max_num_tokens", "kv_cache_config", "speculative_config"}


def parsed(schema: str, words: list[str]) -> dict[str, str]:
    """The flags of a command line by their first name; ends the process at one the schema lacks."""
    flags = json.loads((HERE / schema).read_text())["flags"]
    names = {name: flag for flag in flags for name in flag["names"]}
    found, rest = {}, list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not name.startswith("--"):
            found["model"] = word
            continue
        if name not in names:
            sys.exit(f"error: unrecognized arguments: {name}")
        takes = names[name]["type"] != "bool"
        found[names[name]["names"][0]] = value if equals else (rest.pop(0) if takes else "true")
    return found


class Handler(BaseHTTPRequestHandler):
    """Completions, and what each engine tells besides."""

    model = ""
    key = ""
    pages: dict[str, Any] = {}  # noqa: RUF012 - set once, before anything is served
    tokens = 0

    def do_GET(self) -> None:
        if self.path == "/metrics" and self.key:
            text = f'sglang:generation_tokens_total{{model_name="{self.model}"}} {float(Handler.tokens)}\n'
            self._send(200, text.encode())
        elif self.path == "/health":
            self._send(200, b"")
        elif self._allowed() and self.path in self.pages:
            self._send(200, json.dumps(self.pages[self.path]).encode())
        else:
            self._send(404 if self._allowed() else 401, b"{}")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))) or b"{}")
        if not self._allowed():
            self._send(401, b'{"error": "Unauthorized"}')
            return
        if asked.get("model") != self.model:
            self._send(404, json.dumps({"message": f"The model {asked.get('model')} does not exist."}).encode())
            return
        Handler.tokens += 3
        choice = {"index": 0, "message": {"role": "assistant", "content": "Hello to you."}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": self.model}
        self._send(200, json.dumps({**answer, "choices": [choice], "usage": usage}).encode())

    def _allowed(self) -> bool:
        return not self.key or self.headers.get("Authorization") == f"Bearer {self.key}"

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not a line for every question."""


def serve(host: str, port: str) -> None:
    print(f"serving on {host}:{port}", flush=True)
    ThreadingHTTPServer((host, int(port)), Handler).serve_forever()


def sglang(words: list[str]) -> None:
    """A rank of SGLang's server."""
    given = parsed("sglang-0.5.23.json", words)
    json.loads((Path(given["--model-path"]) / "config.json").read_text())
    logging.basicConfig(level=logging.INFO, force=True)
    # The real one writes all of its settings into its log, the key among them.
    logging.getLogger("sglang").info(
        "server_args=%s", {"api_key": given.get("--api-key"), "tp_size": given["--tp-size"]}
    )
    address, _, port = given.get("--dist-init-addr", "").rpartition(":")
    rank, nodes = int(given.get("--node-rank", "0")), int(given.get("--nnodes", "1"))
    if rank:
        join(address, int(port))
        return
    if nodes > 1:
        gather(address, int(port), nodes - 1)
    if "--api-key" not in given or "--enable-metrics" not in given:
        sys.exit("error: expected a key and metrics")
    Handler.model, Handler.key = given["--served-model-name"], given["--api-key"]
    Handler.pages = {"/server_info": {"tp_size": int(given["--tp-size"]), "version": "0.5.23", "api_key": Handler.key}}
    serve(given["--host"], given["--port"])


KEPT: list[socket.socket] = []


def gather(address: str, port: int, ranks: int) -> None:
    """Wait for the other ranks; the end of one is the end of all."""
    listener = socket.create_server((address, port))
    for _ in range(ranks):
        peer = listener.accept()[0]
        KEPT.append(peer)
        threading.Thread(target=lambda one=peer: (one.recv(1), os._exit(1)), daemon=True).start()


def join(address: str, port: int) -> None:
    """Join the head, and end with it."""
    for _ in range(600):
        try:
            head = socket.create_connection((address, port), timeout=5)
            break
        except OSError:
            time.sleep(0.5)
    else:
        sys.exit("error: the head did not come")
    head.settimeout(None)
    print("joined", flush=True)
    head.recv(1)
    sys.exit("error: the head is gone")


def trtllm_serve(words: list[str]) -> None:
    """TensorRT-LLM's server: no key, no fingerprint, the model under the name of its directory."""
    given = parsed("tensorrt-llm-1.2.1.json", words)
    json.loads((Path(given["model"]) / "config.json").read_text())
    document = yaml.safe_load(Path(given["--config"]).read_text()) or {}
    if unknown := sorted(set(document) - SETTINGS):
        sys.exit(f"error: unknown settings {unknown}")
    Handler.model = Path(given["model"]).name
    serve(given["--host"], given["--port"])


def llmapi_launch(words: list[str]) -> None:
    """Rank 0 runs the server, the others work for it."""
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    print(f"rank {rank} is there with NCCL_SOCKET_IFNAME={os.environ.get('NCCL_SOCKET_IFNAME')}", flush=True)
    if rank == 0:
        os.execvp(words[0], words)
    time.sleep(1e6)


def mpirun(words: list[str]) -> None:
    """One process a slot: here, or over the remote agent; the end of one is the end of all."""
    options: dict[str, str] = {}
    passed: list[str] = []
    while words[0].startswith("-"):
        word = words.pop(0)
        if word == "-x":
            passed.append(words.pop(0))
        elif word == "--mca":
            name = words.pop(0)
            options[name] = words.pop(0)
        elif word in ("-np", "--host"):
            options[word] = words.pop(0)
        elif word != "--allow-run-as-root":
            sys.exit(f"mpirun: unrecognized option {word}")
    places = [place.rpartition(":") for place in options["--host"].split(",")]
    slots = [address for address, _, slots in places for _ in range(int(slots))]
    started = []
    # The others first: the head's is the server, which must not answer before they are there.
    for rank in reversed(range(int(options["-np"]))):
        own = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": options["-np"]}
        given = own | {name: os.environ[name] for name in passed}
        argv = ["env", *(f"{name}={value}" for name, value in given.items()), *words]
        if slots[rank] != places[0][0]:
            argv = [*shlex.split(options["plm_rsh_agent"]), slots[rank], shlex.join(argv)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        if process.stdout is not None:
            print(process.stdout.readline().strip(), flush=True)
        if process.poll() is not None:
            sys.exit(f"mpirun: rank {rank} on {slots[rank]} ended")
        started.append(process)
    while all(process.poll() is None for process in started):
        time.sleep(0.5)
    for process in started:
        process.terminate()
    sys.exit(1)


# The first process of a container is not ended by a signal that it does not take; the real ones take this one.
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))

PROGRAMS = {
    "trtllm-serve": trtllm_serve,
    "trtllm-llmapi-launch": llmapi_launch,
    "mpirun": mpirun,
    "sglang.launch_server": sglang,
}

if __name__ == "__main__":
    PROGRAMS[Path(sys.argv[0]).name](sys.argv[1:])
