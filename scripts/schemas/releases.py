# SPDX-License-Identifier: Apache-2.0
"""Read files of released packages directly from remote wheels.

An engine's wheel has hundreds of megabytes, but its arguments are in a few files. As a wheel is a zip file, these are
read with HTTP range requests and cached in a directory.
"""

from __future__ import annotations

import base64
import html
import http.client
import io
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

from .document import release

LINK = re.compile(r'<a\s[^>]*href="([^"#]+)[^"]*"[^>]*>([^<]+)</a>', re.IGNORECASE)
FINAL = re.compile(r"\d+(\.\d+)*(\.post\d+)?")
CHUNK = 1 << 18
LOGIN = re.compile(r"(^|://)\S*@")
SCHEMES = ("https", "http", "file")


class ReleasesError(Exception):
    """A release, or a tool to read it, is not available; the message says what to do."""


def configured_index() -> str:
    """Return the package index that pip uses on this machine, or pip's default."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    if asked.returncode == 0 and asked.stdout.strip():
        return asked.stdout.strip()
    default = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    asked = subprocess.run([sys.executable, "-c", default], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise ReleasesError("pip is not available to report its package index: give one with --index URL")
    return asked.stdout.strip()


def without_login(url: str) -> str:
    """Remove user name and password from a URL for a message, even if it is malformed."""
    return LOGIN.sub(r"\1", url)


def _request(url: str, headers: dict[str, str] | None = None, method: str = "GET") -> urllib.request.Request:
    """Build a request with the login moved to a header, as in pip; it is not sent to redirection targets."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ReleasesError(
            f"{without_login(url)} is not the address of a package index: give one that starts with https://"
        )
    login, _, place = parts.netloc.rpartition("@")
    address = urllib.parse.urlunsplit(parts._replace(netloc=place))
    request = urllib.request.Request(address, headers=headers or {}, method=method)  # noqa: S310 the scheme is known
    if login:
        name, _, password = login.partition(":")
        plain = f"{urllib.parse.unquote(name)}:{urllib.parse.unquote(password)}"
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(plain.encode()).decode('ascii')}")
    return request


def open_url(url: str, headers: dict[str, str] | None = None) -> bytes:
    request = _request(url, headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 the scheme is known
            content: bytes = answer.read()
    except (urllib.error.URLError, http.client.HTTPException) as error:
        why = error if isinstance(error, urllib.error.URLError) else type(error).__name__  # others quote the URL
        raise ReleasesError(
            f"{without_login(url)} cannot be read ({why}): give a package index with --index"
        ) from error
    return content


class RemoteFile(io.RawIOBase):
    """A file on a web server, fetched in chunks on demand."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.place = 0
        self.chunks: dict[int, bytes] = {}
        with urllib.request.urlopen(_request(url, method="HEAD"), timeout=120) as answer:  # noqa: S310
            self.size = int(answer.headers["Content-Length"])

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.place, io.SEEK_END: self.size}[whence]
        self.place = start + offset
        return self.place

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self.size, self.place + size)
        content = b""
        while self.place < end:
            number, skip = divmod(self.place, CHUNK)
            if number not in self.chunks:
                last = min(self.size, max(end, (number + 1) * CHUNK)) - 1
                data = open_url(self.url, {"Range": f"bytes={number * CHUNK}-{last}"})
                for index in range(0, len(data), CHUNK):
                    self.chunks[number + index // CHUNK] = data[index : index + CHUNK]
            piece = self.chunks[number][skip : skip + end - self.place]
            if not piece:
                break
            content += piece
            self.place += len(piece)
        return content


class Releases:
    """The final releases of a project that have a wheel."""

    def __init__(self, project: str, *, index: str | None, cache: Path) -> None:
        self.project = project
        self.index = (index or configured_index()).rstrip("/")
        self.cache = cache
        self._wheels: dict[str, str] | None = None

    def wheels(self) -> dict[str, str]:
        """Return version -> URL of one of its wheels, oldest first."""
        if self._wheels is None:
            page = f"{self.index}/{self.project}/"
            found: dict[str, str] = {}
            for target, name in LINK.findall(open_url(page).decode()):
                parts = name.split("-")
                if name.endswith(".whl") and FINAL.fullmatch(parts[1]):
                    found.setdefault(parts[1], urllib.parse.urljoin(page, html.unescape(target)))
            self._wheels = {version: found[version] for version in sorted(found, key=release)}
        return self._wheels

    def read(self, version: str, wanted: re.Pattern[str]) -> dict[str, str]:
        """Return path -> text of a release's Python files with a matching path, downloaded unless cached."""
        directory = self.cache / f"{self.project}-{version}"
        complete = directory / ".complete"
        stamp = wanted.pattern + "\n"
        if not (complete.is_file() and stamp in complete.read_text(encoding="utf-8")):
            for path, content in self._fetch(version, wanted):
                target = directory / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            directory.mkdir(parents=True, exist_ok=True)
            with complete.open("a", encoding="utf-8") as record:
                record.write(stamp)
        paths = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*.py"))
        return {path: (directory / path).read_text(encoding="utf-8") for path in paths if wanted.fullmatch(path)}

    def _fetch(self, version: str, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
        address = self.wheels().get(version)
        if address is None:
            raise ReleasesError(f"{self.project} {version} has no wheel in this index; its newest is {self._newest()}")
        with zipfile.ZipFile(RemoteFile(address)) as wheel:
            for name in wheel.namelist():
                if wanted.fullmatch(name) and ".." not in name:
                    yield name, wheel.read(name)

    def _newest(self) -> str:
        return next(reversed(self.wheels()), "none")
