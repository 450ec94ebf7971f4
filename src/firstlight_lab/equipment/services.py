# SPDX-License-Identifier: Apache-2.0
"""The lab's services node: apt repository (http), image registry, model hub and wheel index (https).

The hub answers the two calls of the Hugging Face hub that a download needs: the file list of a revision, and a file of
a revision with range requests.
"""

from __future__ import annotations

import functools
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HUB = Path("/srv/hub")
# While this file exists, the apt repository breaks off every connection, starting with one that names the file's text.
APT_GONE = Path("/run/apt-gone")
APT = Path("/srv/apt")
REPOSITORIES = ("apt.lab.example", "nvidia.lab.example", "cuda.lab.example", "lambda.lab.example")
REGISTRY_CONFIG = """\
version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: /srv/registry}
  maintenance: {readonly: {enabled: true}}
http:
  addr: ":443"
  tls: {certificate: /etc/lab-pki/services.crt, key: /etc/lab-pki/services.key}
"""


GATED = "-gated"
HUB_TOKEN = "lab-hub-token"  # noqa: S105 - of the lab alone


class HubHandler(BaseHTTPRequestHandler):
    """Serves the file list and the files of a revision.

    Every repository also exists with the suffix `-gated`: its files require the token, with 401 for a missing and 403
    for a different one. The list is open, as on a real hub.
    """

    protocol_version = "HTTP/1.1"
    tree = re.compile(r"^/api/models/([\w.-]+/[\w.-]+)/tree/([0-9a-f]{40})$")
    resolve = re.compile(r"^/([\w.-]+/[\w.-]+)/resolve/([0-9a-f]{40})/(.+)$")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        if match := self.tree.match(path):
            self._send(HUB / match[1].removesuffix(GATED) / match[2] / "tree.json", "application/json")
        elif match := self.resolve.match(path):
            sent = self.headers.get("Authorization")
            if match[1].endswith(GATED) and sent != f"Bearer {HUB_TOKEN}":
                self.send_error(403 if sent else 401)
                return
            root = HUB / match[1].removesuffix(GATED) / match[2]
            file = (root / match[3]).resolve()
            self._send(file if file.is_relative_to(root.resolve()) else root / "\0", "application/octet-stream")
        else:
            self.send_error(404)

    def _send(self, file: Path, content_type: str) -> None:
        if "\0" in str(file) or not file.is_file():
            self.send_error(404, "Revision or entry not found")
            return
        size = file.stat().st_size
        first = 0
        if match := re.match(r"^bytes=(\d+)-$", self.headers.get("Range", "")):
            first = int(match[1])
            if first >= size:
                self.send_error(416)
                return
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{size - 1}/{size}")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(size - first))
        self.end_headers()
        if self.command == "HEAD":
            return
        with file.open("rb") as handle:
            handle.seek(first)
            shutil.copyfileobj(handle, self.wfile, 1 << 20)

    def log_message(self, *words: object) -> None:
        """Log nothing: the nodes' own reports say what was downloaded."""


class AptHandler(SimpleHTTPRequestHandler):
    """Serves the apt repositories by host name; they can vanish during a download."""

    def do_GET(self) -> None:
        name = self.headers.get("Host", "").partition(":")[0]
        if name not in REPOSITORIES:
            self.send_error(404, "No repository of this name")
            return
        self.directory = str(APT / name)
        trigger = APT_GONE.read_text().strip() if APT_GONE.exists() else None
        if trigger is None or trigger not in self.path:
            super().do_GET()
            return
        APT_GONE.write_text("")  # breaks off every further request, too
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *words: object) -> None:
        """Log nothing, like the hub."""


class WheelHandler(SimpleHTTPRequestHandler):
    """Serves the wheel index: a directory per package, with a page that lists its files and their hashes."""

    def log_message(self, *words: object) -> None:
        """Log nothing, like the hub."""


def main() -> None:
    config = Path("/run/registry.yml")
    config.write_text(REGISTRY_CONFIG)
    registry = subprocess.Popen(["docker-registry", "serve", str(config)])
    apt = ThreadingHTTPServer(("", 80), AptHandler)
    hub = ThreadingHTTPServer(("", 8443), HubHandler)
    wheels = ThreadingHTTPServer(("", 8444), functools.partial(WheelHandler, directory="/srv/wheels"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/etc/lab-pki/services.crt", "/etc/lab-pki/services.key")
    for server in (hub, wheels):
        server.socket = context.wrap_socket(server.socket, server_side=True)
    for server in (apt, hub, wheels):
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def end(*_: object) -> None:
        registry.terminate()

    signal.signal(signal.SIGTERM, end)
    sys.exit(0 if registry.wait() in (0, -15) else 1)


if __name__ == "__main__":
    main()
