# SPDX-License-Identifier: Apache-2.0
"""The lab's signed apt repositories: stub packages and real ones that the lab adds.

NVIDIA's and the distribution's own archive are separate repositories with separate keys, as on real machines. Each is
updated in place, content first and the signed index last, so that it can be served during a rebuild.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path

from ..shell import LabError
from .deb import write_deb
from .packages import ARCHIVE, CUDA, DOCKER, LAMBDA, VENDOR, load_packages, sources
from .signing import Keyring, keyring

SUITE = "firstlight"
COMPONENT = "main"
ARCHITECTURES = ("amd64", "arm64")
STATE = ".inputs"


class RepositoryError(LabError):
    """The repository could not be built; the message says what to do."""


FOLDERS = {VENDOR: "apt", CUDA: "apt-cuda", ARCHIVE: "apt-archive", DOCKER: "apt-docker", LAMBDA: "apt-lambda"}
LABELS = {VENDOR: "NVIDIA systems", CUDA: "NVIDIA CUDA", ARCHIVE: "Ubuntu", DOCKER: "Docker CE", LAMBDA: "Lambda"}
"""The labels of the real ones, which preferences may refer to."""


def repository_folder(cache: Path, repository: str, system: str = "") -> Path:
    """Return the directory of a repository; a distribution's archive depends on its release."""
    return cache / "-".join([FOLDERS[repository], *([system] if system else [])])


def build_repository(
    cache: Path,
    say: Callable[[str], None],
    repository: str = VENDOR,
    extra_debs: Sequence[Path] = (),
    system: str = "",
) -> Path:
    """Update a repository in the cache and return it; does nothing if its inputs are unchanged since the last build.

    `key.asc` in the returned folder is the public key for apt's signed-by, `key.gpg` the same in binary form; the
    private key is kept beside the folder. The suites `expired` and `tampered` exist to be rejected.
    """
    target = repository_folder(cache, repository, system)
    key_home = target.with_name(f"{target.name}-key")
    inputs = fingerprint(extra_debs)
    state = target / STATE
    if state.exists() and state.read_text(encoding="ascii") == inputs and (key_home / "pubring.kbx").exists():
        return target
    say(f"apt repository {repository}: writing packages")
    release = target / "dists" / SUITE
    stanzas: dict[str, list[str]] = {architecture: [] for architecture in ARCHITECTURES}
    kept: set[Path] = set()
    for package in load_packages(repository):
        path = target / "pool" / "stub" / package.filename
        content = write_deb(package)
        _replace(path, content)
        kept.add(path)
        stanzas[package.architecture].append(_stanza(package.control(), path.relative_to(target), content))
    with ThreadPoolExecutor(max_workers=4) as pool:
        for path, architecture, stanza in pool.map(lambda source: _add_real(source, target), extra_debs):
            kept.add(path)
            for name in ARCHITECTURES if architecture == "all" else [architecture]:
                stanzas.setdefault(name, []).append(stanza)
    indexes = _indexes(stanzas)
    for name, content in indexes.items():
        _replace(release / name, content)
    say(f"apt repository {repository}: signing {sum(len(listed) for listed in stanzas.values())} entries")
    text = _release(indexes, sorted(stanzas), LABELS[repository]).encode()
    with keyring(key_home) as ring:
        _replace(target / "key.asc", ring.public_key())
        _replace(target / "key.gpg", ring.binary_key())
        _replace(release / "Release", text)
        _replace(release / "Release.gpg", ring.detach_sign(text))
        _replace(release / "InRelease", ring.clear_sign(text))
        for suite, broken in _untrustworthy(text, ring).items():
            _replace(target / "dists" / suite / "InRelease", broken)
    for path in (target / "pool").rglob("*.deb"):
        if path not in kept:
            path.unlink()
    _replace(state, inputs.encode("ascii"))
    return target


def fingerprint(extra_debs: Sequence[Path]) -> str:
    """Return a hash of everything that determines the content of the repository."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    for path in sorted(extra_debs, key=lambda item: item.name):
        if not path.is_file():
            raise RepositoryError(f"{path} is not a file, but was given as a package to add. Give existing .deb files.")
        facts = path.stat()
        digest.update(f"{path.name} {facts.st_size} {facts.st_mtime_ns}".encode())
    return digest.hexdigest()


def _add_real(source: Path, target: Path) -> tuple[Path, str, str]:
    """Add a real package to the pool, as a hard link if the cache allows it."""
    done = subprocess.run(["dpkg-deb", "--field", str(source)], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise RepositoryError(f"{source} is not a usable .deb: {done.stderr.strip()}. Download it again.")
    fields = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line and line[0] != " ")
    path = target / "pool" / "real" / source.name.replace("%3a", ".")
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    try:
        os.link(source, fresh)
    except OSError:
        shutil.copy2(source, fresh)
    fresh.replace(path)
    stanza = _stanza(done.stdout, path.relative_to(target), path.read_bytes())
    return path, fields.get("Architecture", "all"), stanza


def _stanza(control: str, path: Path, content: bytes) -> str:
    """Return a package's index entry: its control file, path, size and hash."""
    return (
        f"{control.rstrip()}\nFilename: {path.as_posix()}\nSize: {len(content)}\n"
        f"SHA256: {hashlib.sha256(content).hexdigest()}\n"
    )


def _indexes(stanzas: dict[str, list[str]]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for architecture, listed in sorted(stanzas.items()):
        name = f"{COMPONENT}/binary-{architecture}/Packages"
        files[name] = ("\n".join(sorted(listed))).encode()
        files[f"{name}.gz"] = gzip.compress(files[name], compresslevel=6, mtime=0)
    return files


def _release(indexes: dict[str, bytes], architectures: Sequence[str], label: str) -> str:
    rows = [
        "Origin: Firstlight lab",
        f"Label: {label}",
        f"Suite: {SUITE}",
        f"Codename: {SUITE}",
        f"Date: {formatdate(usegmt=True)}",
        f"Architectures: {' '.join(architectures)}",
        f"Components: {COMPONENT}",
        "Description: Stand-ins for a lab only",
        "SHA256:",
    ]
    rows += [f" {hashlib.sha256(content).hexdigest()} {len(content):>16} {name}" for name, content in indexes.items()]
    return "\n".join(rows) + "\n"


def _untrustworthy(release: bytes, ring: Keyring) -> dict[str, bytes]:
    """Return suites that apt must reject: one that has expired, and one that was modified in transit."""
    until = f"Valid-Until: {formatdate(86400, usegmt=True)}\n".encode()
    return {
        "expired": ring.clear_sign(until + release),
        "tampered": ring.clear_sign(release).replace(b"Origin: Firstlight lab", b"Origin: Somebody else"),
    }


def _replace(path: Path, content: bytes) -> None:
    """Replace a file atomically; leave it alone if its content is unchanged."""
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)
