# SPDX-License-Identifier: Apache-2.0
"""Serves the page, and nothing else, to those who may read it."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..core.metrics.settings import Settings, is_allowed

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_AT_ONCE = 8
REQUEST_SECONDS = 5.0
_MOST_STRANGERS = 64


class Server(ThreadingHTTPServer):
    """Listens on one address. More than a few at once are turned away, whoever they are."""

    daemon_threads = True
    request_queue_size = 16

    def __init__(self, settings: Settings, page: Callable[[], str | None], say: Callable[[str], None]) -> None:
        self.settings, self.page, self.say = settings, page, say
        self._room = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._strangers: set[str] = set()
        if ipaddress.ip_address(settings.listen).version == 6:
            self.address_family = socket.AF_INET6
        super().__init__((settings.listen, settings.port), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked is gone; the next one is not."""

    def stranger(self, address: str) -> None:
        """Say once who asked and may not."""
        if address not in self._strangers and len(self._strangers) < _MOST_STRANGERS:
            self._strangers.add(address)
            self.say(f"{address} may not read: it is none of the monitoring hosts")


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    timeout = REQUEST_SECONDS
    server_version, sys_version = "firstlight", ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        peer = str(self.client_address[0])
        if not is_allowed(peer, self.server.settings.readers):
            self.server.stranger(peer)
            status, text = 403, "this address may not read here: name it in monitoring_hosts\n"
        elif self.path != "/metrics":
            status, text = 404, "there is /metrics, and nothing else\n"
        else:
            page = self.server.page() if with_body else ""
            status, text = (503, "the page before is still being made\n") if page is None else (200, page)
        body = text.encode("utf-8")
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE if status == 200 else "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Every scrape in the journal would be all that is in it."""
