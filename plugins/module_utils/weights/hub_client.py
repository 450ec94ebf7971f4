# SPDX-License-Identifier: Apache-2.0
"""Fetch a model's files from a hub: interrupted downloads are resumed, and files are used only once verified."""

from __future__ import annotations

import email.message
import errno
import hashlib
import http.client
import os
import secrets
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import IO, Any

from ansible_collections.firstlight.cluster.plugins.module_utils.weights.hub import (
    Digester,
    RemoteFile,
    file_url,
    may_follow,
    next_page,
    parse_tree,
    retry_after,
    same_origin,
    tree_url,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.share_program import NONCE, SCHEME, request_mac
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot_store import (
    PARTIAL,
    HubError,
    Meter,
    disk_trouble,
    make_directories,
    put_in_place,
    receive,
    remove,
)

ATTEMPTS = 5
MAX_PAGES = 10_000
LISTING_BYTES = 64 << 20
"""No repository's list is longer: one of 100,000 files has 30 MB."""
# Temporary errors: the hub timed out, or limits the rate of requests.
TRY_LATER = (408, 429)
NETWORK_ERRORS = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ETIMEDOUT)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to the hub's storage, but sends the token only to the hub; a node's are refused."""

    def __init__(self, endpoint: str, token: str, peer: bool) -> None:
        self._endpoint = endpoint
        self._token = token
        self._peer = peer

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the redirected request, or None if the redirect is not allowed, which is then an error."""
        if self._peer or not may_follow(newurl, req.full_url):
            return None
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and self._token and same_origin(newurl, self._endpoint):
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        return request


class HubClient:
    """One repository at one revision, on a hub or on another node that shares it (`peer`).

    A hub is trusted because of its certificate. Another node has none: `listing` is the digest of its list, which the
    controller has got from that node, and the token is not sent but signs each request.
    """

    def __init__(
        self,
        endpoint: str,
        repository: str,
        revision: str,
        token: str = "",
        timeout: float = 60.0,
        peer: bool = False,
        listing: str = "",
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        self.repository = repository
        self.revision = revision
        self.meter = Meter()
        self._token = token
        self._timeout = timeout
        self._peer = peer
        self._listing = listing
        # Nodes of the same fabric are never behind a proxy.
        direct = [urllib.request.ProxyHandler({})] if peer else []
        self._opener = urllib.request.build_opener(_Redirects(self.endpoint, token, peer), *direct)
        self.pause: Callable[[float], None] = time.sleep

    def _open(self, url: str, offset: int = 0, method: str = "GET") -> Any:
        request = urllib.request.Request(  # noqa: S310 - scheme checked
            url, headers={"User-Agent": "firstlight"}, method=method
        )
        wanted = f"bytes={offset}-" if offset else ""
        if wanted:
            request.add_header("Range", wanted)
        if self._peer:
            nonce = secrets.token_hex(NONCE // 2)
            mac = request_mac(self._token, "GET", request.selector, wanted, nonce)
            request.add_header("Authorization", f"{SCHEME} {nonce} {mac}")
        elif self._token and same_origin(url, self.endpoint):
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        return self._opener.open(request, timeout=self._timeout)

    def check_access(self, path: str = "config.json") -> bool:
        """Raise HubError if access to a file of the revision is refused; the list of files is public even then.

        Returns False if the hub gives no clear answer: only `fetch` retries, a mere check does not.
        """
        url = file_url(self.endpoint, self.repository, self.revision, path)
        try:
            self._open(url, method="HEAD").close()
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < 500 and error.code not in TRY_LATER:
                raise HubError(self._refused(error.code)) from error
            return False
        except (OSError, http.client.HTTPException):
            return False
        return True

    def files(self) -> list[RemoteFile]:
        """Return every file of the revision."""
        found: list[RemoteFile] = []
        url: str | None = tree_url(self.endpoint, self.repository, self.revision)
        room, pages = LISTING_BYTES, 0
        while url is not None:
            data, headers = self._page(url, room)
            room, pages = room - len(data), pages + 1
            if room < 0 or pages > MAX_PAGES:
                raise HubError(
                    f"{self.endpoint} lists {self.repository} without end, expected less than {LISTING_BYTES} "
                    "bytes: check the endpoint; nothing was fetched"
                )
            self._check_listing(data)
            try:
                found += parse_tree(data.decode("utf-8"))
                url = None if self._peer else next_page(headers.get("Link"), url)
            except ValueError as error:
                raise HubError(f"{self.endpoint}: {error}") from error
        if not found:
            raise HubError(
                f"{self.endpoint} lists no files of {self.repository} at {self.revision}, expected a model: "
                "check repository and revision"
            )
        return found

    def _check_listing(self, data: bytes) -> None:
        """Raise HubError unless the list is the expected one, as something else may answer at the address."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        if self._peer and digest != self._listing:
            raise HubError(
                f"{self.endpoint} lists files with the digest {digest}, expected {self._listing or 'none'} as that "
                "node itself reported to the controller: something else answers at its address, or another run shares "
                "from there; nothing was fetched. Find out what does, and run again"
            )

    def _page(self, url: str, room: int) -> tuple[bytes, email.message.Message]:
        trouble: Exception | None = None
        for attempt in range(ATTEMPTS):
            try:
                with self._open(url) as response:
                    data: bytes = response.read(room + 1)
                    if response.length and len(data) <= room:
                        raise http.client.IncompleteRead(data, response.length)
                    return data, response.headers
            except urllib.error.HTTPError as error:
                error.close()
                if error.code < 500 and error.code not in TRY_LATER:
                    raise HubError(self._refused(error.code)) from error
                trouble = error
            except (OSError, http.client.HTTPException) as error:
                trouble = error
            self._wait(attempt, trouble)
        raise HubError(self._unreachable(trouble)) from trouble

    def _wait(self, attempt: int, trouble: Exception | None) -> None:
        """Pause before the next attempt, for as long as the hub requests."""
        asked: float | None = None
        if isinstance(trouble, urllib.error.HTTPError) and trouble.code in TRY_LATER:
            if attempt + 1 == ATTEMPTS:
                return  # no attempt follows, so waiting a minute is pointless
            asked = retry_after(trouble.headers.get("Retry-After"), time.time())
        self.pause(min(2.0**attempt, 10.0) if asked is None else asked)

    def _refused(self, status: int, path: str = "") -> str:
        what = f"{self.repository} at {self.revision}" + (f", file {path}" if path else "")
        if self._peer:
            return _peer_refused(self.endpoint, what, path, status)
        if status in (401, 403):
            return (
                f"{self.endpoint} refuses access to {what} (HTTP {status}): the repository is gated, "
                "private or misspelt"
                + (", or the access token may not read it" if self._token else "")
                + "; accept its terms there, and give an access token of the same account "
                "(model_weights_token_path or model_weights_token, docs/weights.md)"
            )
        if status == 404:
            return (
                f"{self.endpoint} does not know {what} (HTTP 404): check model_weights_repository and "
                "model_weights_revision, the commit as the hub shows it under the model's history"
            )
        return f"{self.endpoint} answered HTTP {status} for {what}, expected 200: try again, or check the endpoint"

    def _unreachable(self, trouble: Exception | None, path: str = "") -> str:
        reason = getattr(trouble, "reason", None) or trouble
        what = f"{self.endpoint}" + (f" broke off at {path}" if path else " does not answer")
        if self._peer:
            return (
                f"{what} ({reason}), tried {ATTEMPTS} times: the node that shares went away, or the fabric to it; see "
                "`journalctl -u firstlight-share` there and run again; what was fetched is kept and resumed"
            )
        return (
            f"{what} ({reason}), tried {ATTEMPTS} times: check the endpoint, name resolution, the proxy "
            "and the "
            "certificate authorities of this host; what was fetched is kept and resumed"
        )

    def fetch(self, item: RemoteFile, directory: str) -> None:
        """Download a file to its destination, where it appears only once its size and digest are verified."""
        target = os.path.join(directory, item.path)
        make_directories(directory, os.path.dirname(item.path))
        partial = target + PARTIAL
        trouble: Exception | None = None
        corrupt = failures = counted = 0
        # A connection may break any number of times as long as each one transfers something.
        while failures < ATTEMPTS:
            before = _size(partial)
            self.meter.add(-counted)
            digester, trouble = self._attempt(item, partial, directory)
            if digester is not None and digester.matches(item):
                put_in_place(partial, target)
                return
            if digester is not None or isinstance(trouble, ValueError):
                found = digester.result() if digester is not None else trouble
                corrupt += 1
                self._throw_away(partial)
                if corrupt > 1:
                    raise HubError(
                        f"{item.path} came twice with {found}, expected {item.digest} as {self.endpoint} lists it: "
                        "something on the way changes it; nothing of it was kept"
                    )
            # The next attempt reads, and counts, the partial file again.
            counted = _size(partial)
            failures = 0 if counted > before else failures + 1
            if trouble is not None and failures < ATTEMPTS:
                self._wait(max(failures - 1, 0), trouble)
        raise HubError(self._unreachable(trouble, item.path)) from trouble

    def _attempt(self, item: RemoteFile, partial: str, directory: str) -> tuple[Digester | None, Exception | None]:
        """Fetch what is missing; return the digest of a complete file, or else the error that a retry may resolve."""
        try:
            digester = self._receive(item, partial)
            if digester is None:
                return None, ConnectionError("the connection ended before the end of the file")
            return digester, None
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416:
                self._throw_away(partial)
            elif error.code < 500 and error.code not in TRY_LATER:
                raise HubError(self._refused(error.code, item.path)) from error
            return None, error
        except OSError as error:
            if not _is_network_trouble(error):
                raise HubError(disk_trouble(item.path, directory, error)) from error
            return None, error
        except (http.client.HTTPException, ValueError) as error:
            return None, error

    def _receive(self, item: RemoteFile, partial: str) -> Digester | None:
        return receive(item, partial, lambda have: self._stream(item, have), self.meter)

    def _stream(self, item: RemoteFile, have: int) -> tuple[IO[bytes], int]:
        """Open the file from offset `have`, or from its start if the server does not support ranges."""
        response = self._open(file_url(self.endpoint, self.repository, self.revision, item.path), offset=have)
        return response, have if have and response.status == 206 else 0

    def _throw_away(self, partial: str) -> None:
        self.meter.add(-_size(partial))
        remove(partial)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _peer_refused(endpoint: str, what: str, path: str, status: int) -> str:
    """Explain why another node refuses a request."""
    if status in (401, 403):
        return (
            f"{endpoint} rejects this run's token for {what} (HTTP {status}): another run shares from there; "
            "let it end, and run again"
        )
    if status == 409:
        return (
            f"{endpoint} no longer has {path or what} as it was verified there (HTTP 409): something changed the file "
            "on that node; run again, which verifies and repairs it there first"
        )
    return f"{endpoint} answered HTTP {status} for {what}, expected a node that shares exactly that: run again"


def _is_network_trouble(error: OSError) -> bool:
    """Whether the network failed, which a retry may resolve, and not the disk."""
    kinds = (urllib.error.URLError, ConnectionError, TimeoutError, ssl.SSLError)
    return isinstance(error, kinds) or error.errno in NETWORK_ERRORS
