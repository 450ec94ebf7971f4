# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the engine, small enough for a wheel of the lab's own index: `vllm serve` with a canned answer.

It takes the same arguments and key as the real one, and answers the same calls in the same format, without a model.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

VERSION = version("vllm")
WORDS: list[str] = importlib.import_module("firstlight_lab_words").WORDS  # from the wheel's dependency


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="vllm")
    parser.add_argument("--version", action="version", version=VERSION)
    serve = parser.add_subparsers(required=True).add_parser("serve")
    serve.add_argument("model", type=Path)
    serve.add_argument("--served-model-name", required=True)
    serve.add_argument("--tensor-parallel-size", type=int, default=1)
    serve.add_argument("--pipeline-parallel-size", type=int, default=1)
    serve.add_argument("--distributed-executor-backend", choices=["mp"], default="mp")
    serve.add_argument("--host", required=True)
    serve.add_argument("--port", type=int, required=True)
    known, _ = parser.parse_known_args(argv)  # unknown flags are the business of the flag schemas
    return known


class Handler(BaseHTTPRequestHandler):
    """Serves the calls that a gate makes."""

    settings: argparse.Namespace

    def do_GET(self) -> None:
        found = self.path in ("/health", "/v1/models")
        self._send(200 if found else 404, {"data": [{"id": self.settings.served_model_name}]} if found else {})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))) or b"{}")
        if self.headers.get("Authorization") != f"Bearer {os.environ.get('VLLM_API_KEY', '')}":
            self._send(401, {"error": "Unauthorized"})
        elif asked.get("model") != self.settings.served_model_name:
            complaint = f"The model `{asked.get('model')}` does not exist."
            self._send(404, {"error": {"message": complaint, "code": 404}})
        else:
            ranks = f"tp{self.settings.tensor_parallel_size}"
            message = {"role": "assistant", "content": " ".join(WORDS)}
            answer = {
                "object": "chat.completion",
                "model": self.settings.served_model_name,
                "system_fingerprint": f"vllm-{VERSION}-{ranks}-00000000",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"completion_tokens": len(WORDS), "prompt_tokens": 1, "total_tokens": len(WORDS) + 1},
            }
            self._send(200, answer)

    def _send(self, status: int, document: dict[str, object]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    Handler.settings = arguments(sys.argv[1:])
    json.loads((Handler.settings.model / "config.json").read_text())  # a model that cannot be read is not served
    print(f"stand-in for vLLM {VERSION}, as user {os.getuid()}", flush=True)
    ThreadingHTTPServer((Handler.settings.host, Handler.settings.port), Handler).serve_forever()
