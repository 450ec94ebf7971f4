# SPDX-License-Identifier: Apache-2.0
"""Serves the page, and nothing else, to the addresses that may read it."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.connection_slots import LOOPBACK, Places

from .settings import Settings, is_allowed

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
AT_ONCE = 4
"""Concurrent requests of one permitted address: whatever one address does, the others are answered."""
REQUEST_SECONDS = 5.0
"""Seconds for a whole request, however it is split; and for a whole answer."""
LINGER_SECONDS = 1.0
"""Seconds that a stranger has to read why it is rejected."""
_MOST_STRANGERS = 64
_MOST_LINGERING = 16
_FORBIDDEN = (
    b"HTTP/1.0 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"
    b"this address may not read the metrics: add it to monitoring_hosts\n"
)


class Server(ThreadingHTTPServer):
    """Listens on one address. Strangers are rejected before any byte is read from them, and cost no thread."""

    daemon_threads = True
    request_queue_size = 16

    def __init__(self, settings: Settings, page: Callable[[], str | None], say: Callable[[str], None]) -> None:
        self.settings, self.page, self.say = settings, page, say
        self._places = Places({*settings.readers, LOOPBACK}, AT_ONCE)
        self._asking: dict[Any, float] = {}
        self._lingering: deque[tuple[float, Any]] = deque()
        self._strangers: set[str] = set()
        if ipaddress.ip_address(settings.listen).version == 6:
            self.address_family = socket.AF_INET6
        super().__init__((settings.listen, settings.port), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        peer = str(client_address[0])
        if not is_allowed(peer, self.settings.readers):
            self._turn_away(request, peer)
        elif not self._places.take(peer):
            self.shutdown_request(request)
        else:
            self._asking[request] = time.monotonic() + REQUEST_SECONDS
            try:
                super().process_request(request, client_address)
            except RuntimeError:  # no thread could be started, so nothing else releases the place
                self._leave(request, peer)
                raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave(request, str(client_address[0]))

    def _leave(self, request: Any, peer: str) -> None:
        self.asked(request)
        self._places.give_back(peer)

    def asked(self, request: Any) -> None:
        """Mark the request as fully read."""
        self._asking.pop(request, None)

    def service_actions(self) -> None:
        """Drop connections whose time is over; called at least twice a second."""
        now = time.monotonic()
        for request, end in list(self._asking.items()):
            if end <= now:
                self.asked(request)
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)  # its thread ends and closes it
        while self._lingering and (self._lingering[0][0] <= now or len(self._lingering) > _MOST_LINGERING):
            self._lingering.popleft()[1].close()

    def _turn_away(self, request: Any, peer: str) -> None:
        """Send the reason without reading anything; closing at once would lose it for a client still sending."""
        with contextlib.suppress(OSError):
            request.setblocking(False)
            request.send(_FORBIDDEN)
            request.shutdown(socket.SHUT_WR)
        self._lingering.append((time.monotonic() + LINGER_SECONDS, request))
        if peer not in self._strangers and len(self._strangers) < _MOST_STRANGERS:
            self._strangers.add(peer)
            self.say(f"{peer} may not read the metrics: it is not one of the monitoring hosts")

    def server_close(self) -> None:
        super().server_close()
        while self._lingering:
            self._lingering.popleft()[1].close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: the client is gone, and others are not affected."""


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
        self.server.asked(self.connection)
        if self.path != "/metrics":
            status, text = 404, "not found: only /metrics exists\n"
        else:
            page = self.server.page() if with_body else ""
            status, text = (503, "the previous page is still being generated\n") if page is None else (200, page)
        body = text.encode("utf-8")
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE if status == 200 else "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing: the journal would consist of scrapes only."""
