# SPDX-License-Identifier: Apache-2.0
"""Stands in for the engine: says what it was asked and with which key, streams in pieces, and notes every request."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KEY = Path("/etc/firstlight/server.env").read_text(encoding="utf-8").strip().partition("=")[2]
SEEN = Path("/run/stand-in-engine.log")
PIECES = 5
PAUSE_SECONDS = 0.4


class Answers(BaseHTTPRequestHandler):
    """One question, one answer; with `stream` in it, one in pieces."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Say what was asked for."""
        self.answer("")

    def do_POST(self) -> None:
        """The same, or a stream."""
        self.answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())

    def answer(self, body: str) -> None:
        """Note the request, and answer it."""
        known = self.headers.get("Authorization") == f"Bearer {KEY}"
        with SEEN.open("a", encoding="utf-8") as stream:
            stream.write(f"{self.command} {self.path} {known}\n")
        if '"stream": true' in body:
            self.stream()
            return
        told = json.dumps({"path": self.path, "known": known, "length": len(body)}).encode()
        self.send_response(200 if known or self.path == "/health" else 401)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def stream(self) -> None:
        """Pieces with a pause between them."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(PIECES):
            piece = f"data: {number}\n\n".encode()
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()
            time.sleep(PAUSE_SECONDS)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


SEEN.touch()
ThreadingHTTPServer(("127.0.0.1", 18010), Answers).serve_forever()
