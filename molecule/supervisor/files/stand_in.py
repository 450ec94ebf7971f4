# SPDX-License-Identifier: Apache-2.0
"""Stands in for a server: answers a chat completion to whoever has the key, unless /run/stand-in-broken is there.

/run/stand-in-start.json makes its start take time, in which it speaks, reads its weights or does nothing.
"""

from __future__ import annotations

import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KEY = Path("/etc/firstlight/stand-in.env").read_text(encoding="utf-8").strip().partition("=")[2]
ANSWER = {
    "choices": [{"message": {"content": "Hello."}}],
    "usage": {"completion_tokens": 1},
    "system_fingerprint": "stand-in-tp2-0",
}


class Answers(BaseHTTPRequestHandler):
    """One question, one answer."""

    def do_POST(self) -> None:
        """Ask for a completion."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        known = self.headers.get("Authorization") == f"Bearer {KEY}"
        broken = Path("/run/stand-in-broken").exists()
        body = b"it is broken" if broken else json.dumps(ANSWER).encode()
        self.send_response(500 if broken else 200 if known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


START = Path("/run/stand-in-start.json")
WEIGHTS = Path("/var/lib/stand-in-weights")
if START.exists():
    start = json.loads(START.read_text(encoding="utf-8"))
    for second in range(start["seconds"]):
        if start["speaks"]:
            print("Loading", "layer " * second, flush=True)  # a count alone would be the same line again
        time.sleep(1)
    for _ in range(start["reads"]):
        with WEIGHTS.open("rb") as weights:
            os.posix_fadvise(weights.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # from the disk, as after a boot
            while weights.read(1 << 20):
                pass
ThreadingHTTPServer(("127.0.0.1", 18000), Answers).serve_forever()
