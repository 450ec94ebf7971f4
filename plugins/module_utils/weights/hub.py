# SPDX-License-Identifier: Apache-2.0
"""What a model hub says of a repository's files, and what of it is still to be fetched.

Large files are named by the SHA-256 of their bytes (LFS), small ones by Git's own blob hash.
"""

from __future__ import annotations

import email.utils
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

from ..text import is_hexadecimal
from .snapshot import LEFT_OUT

COMMIT_LENGTH = 40
LONGEST_WAIT = 60.0


@dataclass(frozen=True)
class RemoteFile:
    """One file of a repository; `digest` is "sha256:..." or "git:...", empty where the source has left the file out."""

    path: str
    size: int
    digest: str
    sha256: str = ""
    """Also known of a small file when it comes from a node that proved it; a hub says it of large ones only."""

    @property
    def known_sha256(self) -> str:
        """The SHA-256 as far as the source tells it."""
        kind, _, digits = self.digest.partition(":")
        return digits if kind == "sha256" else self.sha256


def check_request(endpoint: str, repository: str, revision: str, plain: bool = False) -> None:
    """Refuse what could not be pinned or would leave the hub's address space.

    `plain` is whether what comes is compared with a digest from elsewhere, so that anybody may see and answer it.
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"endpoint is {endpoint!r}, expected https://HOST")
    if parts.scheme == "http" and not plain:
        raise ValueError(
            f"endpoint is {endpoint!r}, expected https://HOST: over http anybody on the way says what is right; "
            "use https, or pin the model's files (contents of its catalog entry; docs/weights.md)"
        )
    if repository.count("/") != 1 or any(part in ("", ".", "..") for part in repository.split("/")):
        raise ValueError(f"repository is {repository!r}, expected ORGANISATION/NAME")
    if not is_hexadecimal(revision, COMMIT_LENGTH):
        raise ValueError(
            f"revision is {revision!r}, expected a commit of 40 hexadecimal digits: a branch can move tomorrow"
        )


def tree_url(endpoint: str, repository: str, revision: str) -> str:
    """Where the hub lists every file of a revision."""
    return f"{endpoint.rstrip('/')}/api/models/{quote(repository)}/tree/{quote(revision)}?recursive=true"


def file_url(endpoint: str, repository: str, revision: str, path: str) -> str:
    """Where the hub hands out a file of a revision."""
    return f"{endpoint.rstrip('/')}/{quote(repository)}/resolve/{quote(revision)}/{quote(path)}"


def same_origin(url: str, endpoint: str) -> bool:
    """Whether a secret meant for the endpoint may go to this address."""
    one, other = urlsplit(url), urlsplit(endpoint)
    return (one.scheme, one.netloc) == (other.scheme, other.netloc)


def may_follow(url: str, base: str) -> bool:
    """Whether a page may lead there: to the web, and not out of TLS."""
    scheme = urlsplit(url).scheme
    return scheme == "https" or (scheme == "http" and urlsplit(base).scheme == "http")


def next_page(link: str | None, base: str) -> str | None:
    """The address in a Link header with rel="next": large repositories are listed in pages.

    `base` is the page that had it. Raises ValueError when it leads to anything but a web page, or out of TLS: the list
    says what is proven, and a file of this host is none.
    """
    for entry in (link or "").split(","):
        address, *parameters = (part.strip() for part in entry.split(";"))
        if 'rel="next"' in parameters or "rel=next" in parameters:
            found = urljoin(base, address.removeprefix("<").removesuffix(">"))
            if not may_follow(found, base):
                raise ValueError(f"the hub's file list goes on at {found!r}, expected an address of the hub: refused")
            return found
    return None


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds to wait as a Retry-After header asks, never more than a minute; None when it does not say."""
    value = (value or "").strip()
    try:
        if value.isascii() and value.isdecimal():
            seconds = float(value)
        else:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), LONGEST_WAIT)


def check_path(path: str) -> str:
    """A file's path below the snapshot; one that would leave it is refused, whatever the hub says."""
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or "\x00" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"the hub lists a file {path!r}, expected a path below the repository: refused")
    if parts[0].startswith(".firstlight-"):
        raise ValueError(f"the hub lists a file {path!r}, a name kept for Firstlight's own record: refused")
    return path


def parse_tree(text: str) -> list[RemoteFile]:
    """The files of one page of a tree listing."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the hub's file list is not JSON ({text[:80]!r}): check the endpoint") from error
    if not isinstance(entries, list):
        raise ValueError(f"the hub's file list is a {type(entries).__name__}, expected a list: check the endpoint")
    return [
        _remote_file(entry) for entry in entries if not (isinstance(entry, dict) and entry.get("type") == "directory")
    ]


def _remote_file(entry: object) -> RemoteFile:
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        raise ValueError(f"the hub lists {str(entry)[:120]}, expected a file with path, size and oid")
    path = check_path(entry["path"])
    if entry.get("type") == LEFT_OUT:
        return RemoteFile(path, _size_of(entry), "")
    lfs = entry.get("lfs")
    if isinstance(lfs, dict):
        oid, size, kind, length = lfs.get("oid"), lfs.get("size", entry.get("size")), "sha256", 64
    else:
        oid, size, kind, length = entry.get("oid"), entry.get("size"), "git", 40
    oid = str(oid).removeprefix("sha256:")
    if not isinstance(size, int) or size < 0 or not is_hexadecimal(oid, length):
        raise ValueError(
            f"the hub lists {path} with size {size!r} and {kind} {oid!r}, expected a size and {length} digits"
        )
    sha256 = str(entry.get("sha256") or "")
    if sha256 and not is_hexadecimal(sha256, 64):
        raise ValueError(f"the hub lists {path} with sha256 {sha256!r}, expected 64 digits")
    return RemoteFile(path=path, size=size, digest=f"{kind}:{oid}", sha256=sha256)


def _size_of(entry: Mapping[str, object]) -> int:
    size = entry.get("size")
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"the hub lists {entry['path']} with size {size!r}, expected a size")
    return size


class Digester:
    """Computes the digest a file must have, piece by piece, and its SHA-256 beside it."""

    def __init__(self, digest: str, size: int) -> None:
        kind = digest.partition(":")[0]
        self._kind = kind
        self._sha256 = hashlib.sha256()
        if kind == "sha256":
            self._hash = self._sha256
        elif kind == "git":
            # Git names a file by the SHA-1 of a header and its bytes; this is naming, not security.
            self._hash = hashlib.sha1(f"blob {size}\x00".encode(), usedforsecurity=False)
        else:
            raise ValueError(f"digest is {digest!r}, expected sha256:... or git:...")

    def update(self, piece: bytes | memoryview) -> None:
        """Take more bytes in."""
        self._hash.update(piece)
        if self._hash is not self._sha256:
            self._sha256.update(piece)

    def result(self) -> str:
        """The digest so far, with its kind."""
        return f"{self._kind}:{self._hash.hexdigest()}"

    def sha256(self) -> str:
        """The SHA-256 so far, as 64 digits."""
        return self._sha256.hexdigest()

    def proves(self, item: RemoteFile) -> bool:
        """Whether these are the bytes of that file."""
        return self.result() == item.digest and item.sha256 in ("", self.sha256())


def to_fetch(
    files: Iterable[RemoteFile],
    present: Mapping[str, tuple[int, int]],
    record: Mapping[str, Mapping[str, object]],
) -> tuple[list[RemoteFile], list[RemoteFile]]:
    """Split into (to fetch, to verify first).

    `present` gives size and modification time of what is on disk. A file of another size is fetched; one that
    the record proves (same digest, size and time as when it was verified) is left alone; any other is hashed.
    """
    fetch: list[RemoteFile] = []
    verify: list[RemoteFile] = []
    for item in files:
        have = present.get(item.path)
        if have is None or have[0] != item.size:
            fetch.append(item)
            continue
        proven = record.get(item.path) or {}
        known = (proven.get("digest"), proven.get("size"), proven.get("mtime_ns"))
        if known != (item.digest, have[0], have[1]):
            verify.append(item)
    return fetch, verify


def total(files: Iterable[RemoteFile]) -> int:
    """Bytes of all these files."""
    return sum(item.size for item in files)


def plan_lines(files: Iterable[RemoteFile]) -> str:
    """What would be fetched, for a diff: one line a file."""
    return "".join(f"{item.path} {item.size} bytes {item.digest}\n" for item in sorted(files, key=lambda one: one.path))
