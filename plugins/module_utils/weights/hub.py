# SPDX-License-Identifier: Apache-2.0
"""What a model hub lists of a repository's files, and what of that is still to be fetched.

Large files are identified by the SHA-256 of their content (LFS), small ones by Git's blob hash.
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
    """One file of a repository; `digest` is "sha256:..." or "git:...", empty if the source left the file out."""

    path: str
    size: int
    digest: str
    sha256: str = ""
    """Also known for a small file that comes from a node which has verified it; a hub has it for large files only."""

    @property
    def known_sha256(self) -> str:
        """The SHA-256 if the source provides it, or else empty."""
        kind, _, digits = self.digest.partition(":")
        return digits if kind == "sha256" else self.sha256


def check_request(endpoint: str, repository: str, revision: str, plain: bool = False) -> None:
    """Raise ValueError for a request that is not pinned or would leave the hub's address space.

    `plain` allows http, for content that is compared with a digest from elsewhere, so that it does not matter who sees
    or answers the request.
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"endpoint is {endpoint!r}, expected https://HOST")
    if parts.scheme == "http" and not plain:
        raise ValueError(
            f"endpoint is {endpoint!r}, expected https://HOST: over http anyone on the path can alter the file list; "
            "use https, or pin the model's files (contents of its catalog entry; docs/weights.md)"
        )
    if repository.count("/") != 1 or any(part in ("", ".", "..") for part in repository.split("/")):
        raise ValueError(f"repository is {repository!r}, expected ORGANISATION/NAME")
    if not is_hexadecimal(revision, COMMIT_LENGTH):
        raise ValueError(
            f"revision is {revision!r}, expected a commit of 40 hexadecimal digits: a branch can move tomorrow"
        )


def tree_url(endpoint: str, repository: str, revision: str) -> str:
    """Return the URL of the list of all files of a revision."""
    return f"{endpoint.rstrip('/')}/api/models/{quote(repository)}/tree/{quote(revision)}?recursive=true"


def file_url(endpoint: str, repository: str, revision: str, path: str) -> str:
    """Return the URL of a file of a revision."""
    return f"{endpoint.rstrip('/')}/{quote(repository)}/resolve/{quote(revision)}/{quote(path)}"


def same_origin(url: str, endpoint: str) -> bool:
    """Whether a secret for the endpoint may be sent to this URL."""
    one, other = urlsplit(url), urlsplit(endpoint)
    return (one.scheme, one.netloc) == (other.scheme, other.netloc)


def may_follow(url: str, base: str) -> bool:
    """Whether a page may refer to this URL: only to http or https, and never from https to http."""
    scheme = urlsplit(url).scheme
    return scheme == "https" or (scheme == "http" and urlsplit(base).scheme == "http")


def next_page(link: str | None, base: str) -> str | None:
    """Return the URL with rel="next" in a Link header, as large repositories are listed in pages.

    `base` is the URL of the page. Raises ValueError if the next URL is not http or https, or leaves TLS: verification
    relies on the list, so it must not come from a file of this host.
    """
    for entry in (link or "").split(","):
        address, *parameters = (part.strip() for part in entry.split(";"))
        if 'rel="next"' in parameters or "rel=next" in parameters:
            found = urljoin(base, address.removeprefix("<").removesuffix(">"))
            if not may_follow(found, base):
                raise ValueError(f"the hub's file list continues at {found!r}, expected an address of the hub: refused")
            return found
    return None


def retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds to wait according to a Retry-After header, at most a minute; None if it has none."""
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
    """Return a file's path; raises ValueError if it would leave the snapshot, whatever the hub lists."""
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or "\x00" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"the hub lists a file {path!r}, expected a path below the repository: refused")
    if parts[0].startswith(".firstlight-"):
        raise ValueError(f"the hub lists a file {path!r}, a name reserved for Firstlight's own record: refused")
    return path


def parse_tree(text: str) -> list[RemoteFile]:
    """Parse the files of one page of a tree listing."""
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
    """Computes a file's digest incrementally, along with its SHA-256."""

    def __init__(self, digest: str, size: int) -> None:
        kind = digest.partition(":")[0]
        self._kind = kind
        self._sha256 = hashlib.sha256()
        if kind == "sha256":
            self._hash = self._sha256
        elif kind == "git":
            # Git identifies a file by the SHA-1 of a header and its content; this is an identifier, not security.
            self._hash = hashlib.sha1(f"blob {size}\x00".encode(), usedforsecurity=False)
        else:
            raise ValueError(f"digest is {digest!r}, expected sha256:... or git:...")

    def update(self, piece: bytes | memoryview) -> None:
        """Add more bytes."""
        self._hash.update(piece)
        if self._hash is not self._sha256:
            self._sha256.update(piece)

    def result(self) -> str:
        """Return the digest so far, with its kind."""
        return f"{self._kind}:{self._hash.hexdigest()}"

    def sha256(self) -> str:
        """Return the SHA-256 so far, as 64 digits."""
        return self._sha256.hexdigest()

    def matches(self, item: RemoteFile) -> bool:
        """Whether the bytes so far are exactly those of that file."""
        return self.result() == item.digest and item.sha256 in ("", self.sha256())


def to_fetch(
    files: Iterable[RemoteFile],
    present: Mapping[str, tuple[int, int]],
    record: Mapping[str, Mapping[str, object]],
) -> tuple[list[RemoteFile], list[RemoteFile]]:
    """Split into (to fetch, to verify first).

    `present` maps the files on disk to size and modification time. A file of another size is fetched; one that matches
    the record (same digest, size and time as when it was verified) is left alone; any other is hashed.
    """
    fetch: list[RemoteFile] = []
    verify: list[RemoteFile] = []
    for item in files:
        have = present.get(item.path)
        if have is None or have[0] != item.size:
            fetch.append(item)
            continue
        verified = record.get(item.path) or {}
        known = (verified.get("digest"), verified.get("size"), verified.get("mtime_ns"))
        if known != (item.digest, have[0], have[1]):
            verify.append(item)
    return fetch, verify


def total(files: Iterable[RemoteFile]) -> int:
    """Return the total size of these files in bytes."""
    return sum(item.size for item in files)


def plan_lines(files: Iterable[RemoteFile]) -> str:
    """Render what would be fetched as a diff, one line per file."""
    return "".join(f"{item.path} {item.size} bytes {item.digest}\n" for item in sorted(files, key=lambda one: one.path))
