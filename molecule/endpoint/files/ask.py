#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A client for nodes that have none: curl's options, as far as they are needed, and paths sent as they are written."""

from __future__ import annotations

import argparse
import http.client
import ssl
import sys
from pathlib import Path
from urllib.parse import urlsplit

PIECE = 1 << 16


def main() -> None:
    """Ask once, and print what came."""
    parser = argparse.ArgumentParser()
    for name in ("silent", "path-as-is", "include"):
        parser.add_argument(f"--{name}", action="store_true")
    for name in ("max-time", "cacert", "request", "data", "data-binary", "output", "write-out", "resolve"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--header", action="append", default=[])
    parser.add_argument("url")
    given = parser.parse_args()
    place, _, path = given.url.partition("://")[2].partition("/")
    parts = urlsplit(given.url[: len(given.url) - len(path)])
    body = b""
    if given.data is not None:
        body = given.data.encode()
    elif given.data_binary is not None:
        body = Path(given.data_binary[1:]).read_bytes()
    headers = dict(line(one) for one in given.header)
    address = given.resolve.rpartition(":")[2] if given.resolve else parts.hostname
    connection = http.client.HTTPConnection(address, parts.port, timeout=float(given.max_time or 30))
    connection.connect()
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=given.cacert)
        connection.sock = context.wrap_socket(connection.sock, server_hostname=parts.hostname)
    connection.putrequest(given.request or ("POST" if body else "GET"), f"/{path}", skip_host=True)
    connection.putheader("Host", place)
    for name, value in headers.items():
        connection.putheader(name, value)
    if body:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders()
    # Whoever says that it expects an answer first sends nothing before there is one.
    sent = 0
    if "Expect" not in headers:
        connection.send(body)
        sent = len(body)
    answer = connection.getresponse()
    text = answer.read().decode()
    if given.include:
        text = "".join(f"{name}: {value}\n" for name, value in answer.getheaders()) + text
    if not given.output:
        sys.stdout.write(text)
    told = (given.write_out or "").replace("%{http_code}", str(answer.status))
    sys.stdout.write(told.replace("%{size_upload}", str(sent)))


def line(text: str) -> tuple[str, str]:
    """A header's name and value, perhaps out of a file."""
    name, _, value = (Path(text[1:]).read_text() if text.startswith("@") else text).strip().partition(": ")
    return name, value


main()
