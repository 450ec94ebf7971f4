# SPDX-License-Identifier: Apache-2.0
"""Stands in for programs with metrics: pages of the same shape on loopback, with counters that grow at every look."""

from __future__ import annotations

import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COUNTS = re.compile(r"^(\S*(?:_total|_count|_sum|_bucket)(?:\{.*\})?) (\S+)$")


class Page(BaseHTTPRequestHandler):
    """One page."""

    text = ""
    looks = 0

    def do_GET(self) -> None:
        """Serve the page, as it would be after some more work."""
        type(self).looks += 1
        lines = [self._grown(line) for line in self.text.splitlines()]
        body = "".join(f"{line}\n" for line in lines).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _grown(self, line: str) -> str:
        found = COUNTS.match(line)
        return f"{found[1]} {float(found[2]) * self.looks}" if found else line

    def log_message(self, *_: object) -> None:
        """Say nothing."""


for argument in sys.argv[1:]:
    port, _, path = argument.partition("=")
    handler = type("Shaped", (Page,), {"text": Path(path).read_text(encoding="utf-8")})
    threading.Thread(target=ThreadingHTTPServer(("127.0.0.1", int(port)), handler).serve_forever).start()
