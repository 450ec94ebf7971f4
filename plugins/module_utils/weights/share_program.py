# SPDX-License-Identifier: Apache-2.0
"""Serve verified directories to other nodes through the API of a model hub: the program that runs on the node.

It is copied to the node as a single file and run by systemd for the duration of a distribution, so it needs nothing but
Python. It serves only files that the record of a directory lists, only while they are unchanged since their
verification, and only to clients with the token of this run. The token itself is never sent: each request is signed
with it.
"""

from __future__ import annotations

import contextlib
import hmac
import io
import json
import os
import socket
import stat
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

PATIENCE = 60.0
"""Seconds without progress after which a connection is closed, so that it does not hold its slot forever."""
HEADER_SECONDS = 10.0
HEADER_BYTES = 16 << 10
"""The limit for the whole header of a request, however slowly it arrives."""
STRANGERS = 16
STRANGERS_OF_ONE = 8
"""The most connections of unplanned addresses, in total and per address. They use no slots of planned addresses."""
LEAST = 8
"""The connections that each planned address may have in any case."""
LINES = 5
"""Log lines per minute that one planned address, or all others together, can cause."""
REQUESTS = 1 << 18
"""How many nonces are remembered to prevent replays; after this number of requests, all further ones are refused."""
SCHEME = "Firstlight"
NONCE = 32
"""The length of the nonce of each request."""


def request_mac(token: str, method: str, target: str, wanted: str, nonce: str) -> str:
    """Return the MAC that proves possession of the token; `wanted` is the requested Range."""
    return hmac.new(token.encode(), f"{method}\n{target}\n{wanted}\n{nonce}".encode(), "sha256").hexdigest()


@dataclass(frozen=True)
class Shared:
    """One directory: its files by path, and their list in the format of a hub."""

    directory: str
    files: dict[str, dict[str, Any]]
    listing: bytes


@dataclass(frozen=True)
class Settings:
    """What to serve, where, to whom, and over how many connections."""

    address: str
    port: int
    token: str
    shared: dict[str, Shared]
    connections: int
    idle: float
    peers: frozenset[str] = frozenset()
    """Addresses of the planned nodes; if empty, every address is planned."""


def take_settings(path: str) -> Settings:
    """Read the settings, including the token, and delete the file, which is no longer needed."""
    with open(path, encoding="utf-8") as stream:
        found = json.load(stream)
    os.unlink(path)
    shared = {
        f"{entry['repository']}@{entry['revision']}": Shared(
            entry["directory"], entry["files"], entry["listing"].encode()
        )
        for entry in found["shared"]
    }
    return Settings(
        found["address"],
        found["port"],
        found["token"],
        shared,
        found["connections"],
        float(found["idle"]),
        frozenset(found["peers"]),
    )


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Parse a Range header into the first byte and the one after the last; None if it requests no range.

    Raises ValueError if the range is not satisfiable.
    """
    kind, _, wanted = (header or "").strip().partition("=")
    first, dash, last = wanted.strip().partition("-")
    if kind != "bytes" or not dash or not first.isascii() or not first.isdecimal():
        return None
    if last and not (last.isascii() and last.isdecimal()):
        return None
    start, end = int(first), min(int(last) + 1, size) if last else size
    if start >= size or start >= end:
        raise ValueError(f"bytes {start}- of {size}")
    return start, end


class _Header(io.RawIOBase):
    """Reads the header of a request with one deadline for all of it, not one for each byte."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._end = time.monotonic() + HEADER_SECONDS
        self._room = HEADER_BYTES

    def readable(self) -> bool:
        """Required of a stream."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has arrived, within the limits of time and size."""
        seconds = self._end - time.monotonic()
        if seconds <= 0 or not self._room:
            raise TimeoutError(f"no whole request in {HEADER_SECONDS:g} s and {HEADER_BYTES} bytes")
        self._connection.settimeout(seconds)
        try:
            count = self._connection.recv_into(memoryview(buffer)[: self._room])
        finally:
            self._connection.settimeout(PATIENCE)
        self._room -= count
        return count


class Answer(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    timeout = PATIENCE
    server_version = "firstlight-share"
    sys_version = ""

    def setup(self) -> None:
        """Read with a deadline."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Header(self.connection))

    def do_GET(self) -> None:
        """Send a list or a file."""
        self._answer()

    def do_HEAD(self) -> None:
        """Send only the headers."""
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class calls it by
        """Do not log requests: there are thousands. Only errors are logged."""

    def log_error(self, format: str, *args: Any) -> None:  # noqa: A002 - see above
        """Log an error, subject to the rate limit."""
        self.server.say(self.client_address[0], format % args)

    def _answer(self) -> None:
        if not self._may():
            self._refuse(HTTPStatus.UNAUTHORIZED)
            return
        with self.server.serving():
            self._serve([unquote(part) for part in urlsplit(self.path).path.split("/")[1:]])

    def _serve(self, parts: list[str]) -> None:
        if len(parts) == 6 and parts[:2] == ["api", "models"] and parts[4] == "tree":
            self._list(f"{parts[2]}/{parts[3]}@{parts[5]}")
        elif len(parts) >= 5 and parts[2] == "resolve":
            self._file(f"{parts[0]}/{parts[1]}@{parts[3]}", "/".join(parts[4:]))
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def _may(self) -> bool:
        kind, _, given = (self.headers.get("Authorization") or "").partition(" ")
        nonce, _, mac = given.partition(" ")
        wanted = self.headers.get("Range") or ""
        expected = request_mac(self.server.settings.token, self.command, self.path, wanted, nonce)
        same = hmac.compare_digest(mac.encode("utf-8", "replace"), expected.encode())
        return same and kind == SCHEME and len(nonce) == NONCE and self.server.is_new(nonce)

    def _refuse(self, status: HTTPStatus, extra: tuple[str, str] | None = None) -> None:
        self.send_response(status)
        if extra:
            self.send_header(*extra)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _list(self, key: str) -> None:
        shared = self.server.settings.shared.get(key)
        if shared is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(shared.listing)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(shared.listing)

    def _file(self, key: str, path: str) -> None:
        shared = self.server.settings.shared.get(key)
        entry = shared.files.get(path) if shared is not None else None
        if shared is None or entry is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        try:
            stream = open(os.path.join(shared.directory, path), "rb")  # noqa: SIM115 - closed below
        except OSError as error:
            self.log_error("%s cannot be read: %s", path, error.strerror)
            self._refuse(HTTPStatus.CONFLICT)
            return
        with stream:
            found = os.fstat(stream.fileno())
            is_verified = (found.st_size, found.st_mtime_ns) == (entry["size"], entry["mtime_ns"])
            if not stat.S_ISREG(found.st_mode) or not is_verified:
                self.log_error("%s changed since it was verified", path)
                self._refuse(HTTPStatus.CONFLICT)
                return
            self._send(stream, found.st_size)

    def _send(self, stream: Any, size: int) -> None:
        try:
            wanted = byte_range(self.headers.get("Range"), size)
        except ValueError:
            self._refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, ("Content-Range", f"bytes */{size}"))
            return
        start, end = wanted or (0, size)
        self.send_response(HTTPStatus.PARTIAL_CONTENT if wanted else HTTPStatus.OK)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        if self.command == "GET" and end > start:
            try:
                self.connection.sendfile(stream, offset=start, count=end - start)
            except (ConnectionError, TimeoutError):
                # The client disconnected or stalled: it resumes where it was.
                self.close_connection = True


class Server(ThreadingHTTPServer):
    """Serves a limited number of connections of planned nodes at a time; more of them wait in the kernel's queue.

    Connections are admitted by address before a byte is read: each planned address has a quota, and unplanned addresses
    share a few slots of their own.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._places = threading.BoundedSemaphore(settings.connections)
        # Twice what each node is told to use (plugin_utils/fan_out.py), as a connection that has just ended still
        # counts.
        self._quota = max(LEAST, 2 * settings.connections // (len(settings.peers) or 4))
        self._held: dict[str, int] = {}
        self._served = 0
        self._seen: set[str] = set()
        self._told: dict[str, tuple[int, int]] = {}
        self._counting = threading.Lock()
        self._last = time.monotonic()
        if ":" in settings.address:
            self.address_family = socket.AF_INET6
        super().__init__((settings.address, settings.port), Answer)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Admit the connection, wait for a slot, then serve it in a thread."""
        address = client_address[0]
        if not self._enter(address):
            self.say(address, "has reached its limit of connections: refused another one")
            self.shutdown_request(request)
            return
        if self._is_planned(address):
            self._places.acquire()
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            # No thread could be started, so nothing else would release the slot.
            self._leave(address)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve the connection, and release its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave(client_address[0])

    def _is_planned(self, address: str) -> bool:
        return not self.settings.peers or address in self.settings.peers

    def _enter(self, address: str) -> bool:
        with self._counting:
            held = self._held.get(address, 0)
            if self._is_planned(address):
                may = held < self._quota
            else:
                strangers = sum(count for one, count in self._held.items() if not self._is_planned(one))
                may = held < STRANGERS_OF_ONE and strangers < STRANGERS
            if may:
                self._held[address] = held + 1
            return may

    def _leave(self, address: str) -> None:
        with self._counting:
            self._held[address] -= 1
            if not self._held[address]:
                del self._held[address]
        if self._is_planned(address):
            self._places.release()

    def is_new(self, nonce: str) -> bool:
        """Whether this nonce is used for the first time: a recorded request is not accepted again."""
        with self._counting:
            if nonce in self._seen or len(self._seen) >= REQUESTS:
                return False
            self._seen.add(nonce)
            return True

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Mark the server as not idle; only requests with a valid token get here."""
        with self._counting:
            self._served += 1
        try:
            yield
        finally:
            with self._counting:
                self._served -= 1
                self._last = time.monotonic()

    def say(self, address: str, words: str) -> None:
        """Log a line, unless its address has reached the limit for this minute."""
        about = address if address in self.settings.peers else ""
        minute = int(time.monotonic() // 60)
        with self._counting:
            since, lines = self._told.get(about, (minute, 0))
            lines = lines if since == minute else 0
            self._told[about] = (minute, lines + 1)
        if lines < LINES:
            line = "".join(one if one.isprintable() else "?" for one in f"{address}: {words}"[:300])
            sys.stderr.write(f"{line}\n")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a broken connection without a traceback."""
        self.say(client_address[0], repr(sys.exc_info()[1]))

    def service_actions(self) -> None:
        """Shut down after being idle for long: whoever started this has forgotten it, or died."""
        with self._counting:
            is_idle = not self._served and time.monotonic() - self._last >= self.settings.idle
        if is_idle:
            sys.stderr.write(f"no client for {self.settings.idle:g} s: stopped\n")
            threading.Thread(target=self.shutdown, daemon=True).start()


def tell_systemd(words: str) -> None:
    """Notify systemd if it expects that."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect("\0" + address[1:] if address.startswith("@") else address)
        channel.sendall(words.encode())


def main() -> None:
    """Serve until stopped, or idle for too long."""
    settings = take_settings(sys.argv[1])
    try:
        server = Server(settings)
    except OSError as error:
        sys.stderr.write(f"cannot listen on {settings.address} port {settings.port}: {error.strerror}\n")
        sys.exit(1)
    with server:
        tell_systemd("READY=1")
        server.serve_forever(poll_interval=0.5)


if __name__ == "__main__":
    main()
