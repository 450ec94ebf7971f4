# SPDX-License-Identifier: Apache-2.0
"""Fetches a model's files from a hub: resumed where a run was cut, used only once proven."""

from __future__ import annotations

import contextlib
import email.message
import errno
import fcntl
import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import IO, Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.hub import (
    Digester,
    RemoteFile,
    file_url,
    next_page,
    parse_tree,
    retry_after,
    same_origin,
    tree_url,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.snapshot import LOCK_NAME

PIECE = 1 << 20
ATTEMPTS = 5
MAX_PAGES = 10_000
# Refusals that pass: the hub was slow to take the request, or asks to be asked less often.
TRY_LATER = (408, 429)
NETWORK_ERRORS = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ETIMEDOUT)


class HubError(Exception):
    """What the hub or the disk said, for the operator."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows the hub to its storage, but hands the token to nobody but the hub."""

    def __init__(self, endpoint: str, token: str) -> None:
        self._endpoint = endpoint
        self._token = token

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """The request for the new address."""
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and self._token and same_origin(newurl, self._endpoint):
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        return request


class HubClient:
    """One repository at one revision."""

    def __init__(self, endpoint: str, repository: str, revision: str, token: str = "", timeout: float = 60.0) -> None:
        self.endpoint = endpoint.rstrip("/")
        self.repository = repository
        self.revision = revision
        self._token = token
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_Redirects(self.endpoint, token))
        self.pause: Callable[[float], None] = time.sleep

    def _open(self, url: str, offset: int = 0) -> Any:
        request = urllib.request.Request(url, headers={"User-Agent": "firstlight"})  # noqa: S310 - scheme checked
        if offset:
            request.add_header("Range", f"bytes={offset}-")
        if self._token and same_origin(url, self.endpoint):
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        return self._opener.open(request, timeout=self._timeout)

    def files(self) -> list[RemoteFile]:
        """Every file of the revision."""
        found: list[RemoteFile] = []
        url: str | None = tree_url(self.endpoint, self.repository, self.revision)
        for _ in range(MAX_PAGES):
            if url is None:
                break
            text, headers = self._page(url)
            try:
                found += parse_tree(text)
            except ValueError as error:
                raise HubError(f"{self.endpoint}: {error}") from error
            url = next_page(headers.get("Link"))
        if not found:
            raise HubError(
                f"{self.endpoint} lists no files of {self.repository} at {self.revision}, expected a model: "
                "check repository and revision"
            )
        return found

    def _page(self, url: str) -> tuple[str, email.message.Message]:
        trouble: Exception | None = None
        for attempt in range(ATTEMPTS):
            try:
                with self._open(url) as response:
                    return response.read().decode("utf-8"), response.headers
            except urllib.error.HTTPError as error:
                error.close()
                if error.code < 500 and error.code not in TRY_LATER:
                    raise HubError(self._refused(error.code)) from error
                trouble = error
            except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
                trouble = error
            self._wait(attempt, trouble)
        raise HubError(self._unreachable(trouble)) from trouble

    def _wait(self, attempt: int, trouble: Exception | None) -> None:
        """Pause before the next attempt, as long as the hub asks where it says so."""
        asked: float | None = None
        if isinstance(trouble, urllib.error.HTTPError) and trouble.code in TRY_LATER:
            if attempt + 1 == ATTEMPTS:
                return  # no attempt follows that a minute's wait could help
            asked = retry_after(trouble.headers.get("Retry-After"), time.time())
        self.pause(min(2.0**attempt, 10.0) if asked is None else asked)

    def _refused(self, status: int, path: str = "") -> str:
        what = f"{self.repository} at {self.revision}" + (f", file {path}" if path else "")
        if status in (401, 403):
            return (
                f"{self.endpoint} refuses access to {what} (HTTP {status}): the repository is gated, "
                "private or "
                "misspelt; accept its terms there and give a file with an access token "
                "(model_weights_token_path)"
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
        return (
            f"{what} ({reason}), tried {ATTEMPTS} times: check the endpoint, name resolution, the proxy "
            "and the "
            "certificate authorities of this host; what was fetched is kept and resumed"
        )

    def fetch(self, item: RemoteFile, directory: str) -> None:
        """Bring one file to its place; it appears there only when its size and digest are right."""
        target = os.path.join(directory, item.path)
        make_directories(directory, os.path.dirname(item.path))
        partial = target + ".partial"
        trouble: Exception | None = None
        corrupt = 0
        for attempt in range(ATTEMPTS):
            try:
                digest = self._receive(item, partial)
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 416:
                    _remove(partial)
                elif error.code < 500 and error.code not in TRY_LATER:
                    raise HubError(self._refused(error.code, item.path)) from error
                trouble = error
            except http.client.HTTPException as error:
                trouble = error
            except OSError as error:
                if not _is_network_trouble(error):
                    raise HubError(_disk_trouble(item.path, directory, error)) from error
                trouble = error
            else:
                if digest == item.digest:
                    os.chmod(partial, 0o644)
                    os.replace(partial, target)
                    return
                if digest is not None:
                    _remove(partial)
                    corrupt += 1
                    if corrupt > 1:
                        raise HubError(
                            f"{item.path} came twice with {digest}, expected {item.digest} as "
                            f"{self.endpoint} lists it: "
                            "something on the way changes it; nothing of it was kept"
                        )
                trouble = None
                if attempt + 1 < ATTEMPTS:
                    continue
            self._wait(attempt, trouble)
        raise HubError(self._unreachable(trouble, item.path)) from trouble

    def _receive(self, item: RemoteFile, partial: str) -> str | None:
        """Append what is missing to the partial file; its digest once complete, None when it broke off."""
        digester = Digester(item.digest, item.size)
        have = _digest_partial(partial, digester, item.size)
        if have == item.size:
            if have == 0:
                with open(partial, "wb"):
                    pass
            return digester.result()
        url = file_url(self.endpoint, self.repository, self.revision, item.path)
        with self._open(url, offset=have) as response:
            if have and response.status != 206:
                # The server sent the file from its start.
                digester = Digester(item.digest, item.size)
                have = 0
            with open(partial, "ab" if have else "wb") as stream:
                while piece := response.read(PIECE):
                    have += len(piece)
                    if have > item.size:
                        return f"more than the {item.size} bytes it should have"
                    stream.write(piece)
                    digester.update(piece)
                stream.flush()
                os.fsync(stream.fileno())
        return digester.result() if have == item.size else None


def _digest_partial(partial: str, digester: Digester, size: int) -> int:
    """Take in what an earlier run fetched; more than the file should have is thrown away."""
    try:
        if os.path.getsize(partial) > size:
            _remove(partial)
            return 0
        return _take_in(partial, digester)
    except FileNotFoundError:
        return 0


def _take_in(path: str, digester: Digester) -> int:
    """Digest a whole file; how many bytes it had."""
    have = 0
    with open(path, "rb") as stream:
        while piece := stream.read(PIECE):
            digester.update(piece)
            have += len(piece)
    return have


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _is_network_trouble(error: OSError) -> bool:
    """Whether the way to the hub failed, which another attempt may mend, and not the disk."""
    kinds = (urllib.error.URLError, ConnectionError, TimeoutError, ssl.SSLError)
    return isinstance(error, kinds) or error.errno in NETWORK_ERRORS


def _disk_trouble(path: str, directory: str, error: OSError) -> str:
    return (
        f"{path} cannot be written below {directory} ({error.strerror or error}): check free space and "
        "permissions "
        "there; what was fetched is kept and resumed"
    )


def make_directories(directory: str, below: str) -> None:
    """Make a file's directory, readable for everyone, and never through a link that leads outwards."""
    place = directory
    for part in ["", *[name for name in below.split("/") if name]]:
        place = os.path.join(place, part) if part else place
        if not os.path.isdir(place):
            os.makedirs(place)
            os.chmod(place, 0o755)  # noqa: S103 - weights are no secret, any user may serve them
    inside = os.path.realpath(directory)
    if os.path.commonpath([inside, os.path.realpath(place)]) != inside:
        raise HubError(f"{place} leads outside {directory} through a link: remove the link")


@contextlib.contextmanager
def only_run(directory: str) -> Iterator[None]:
    """Keep every other run out of the directory: one whose operator left may still fetch into it.

    The lock goes with the process that holds it; its file stays, as removing it would let two runs in.
    """
    path = os.path.join(directory, LOCK_NAME)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        # Nobody here can write into it; a complete snapshot there is still as good as any.
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HubError(
                f"another run still fetches into {directory}, expected to be the only one: wait for it to end, "
                f"or end it (`fuser {path}` names it), and run again"
            ) from error
        yield
    finally:
        os.close(descriptor)


def digest_file(path: str, item: RemoteFile) -> str | None:
    """The digest of a file on disk in the kind the hub uses; None when it is not there."""
    digester = Digester(item.digest, item.size)
    try:
        _take_in(path, digester)
    except FileNotFoundError:
        return None
    return digester.result()
