# SPDX-License-Identifier: Apache-2.0
"""The lock of a virtual environment: every package at one exact version, every file by its hash, no address.

A lock is what `uv pip compile --generate-hashes` writes for one platform. Comments at its top say what it is for:
`# python: 3.12`, `# architecture: x86_64`, and how much is downloaded, `# wheels-bytes: 5300000000`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..text import is_hexadecimal
from ..versions import version_key

MAKE_ONE = "generate it with `uv pip compile --generate-hashes` (docs/venv.md)"

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(\[[^\]]*\])?\s*==\s*(?P<version>[A-Za-z0-9.!+_-]+)$")
_REMARK = re.compile(r"^#\s*(?P<name>python|architecture|wheels-bytes):\s*(?P<value>\S+)\s*$")


class LockError(ValueError):
    """A lock that cannot be used, with what to do."""


@dataclass(frozen=True)
class Lock:
    """A parsed lock."""

    digest: str
    packages: Mapping[str, str]
    """Version by normalised name."""
    hashes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    python: str = ""
    architecture: str = ""
    wheels_bytes: int = 0


def normal_name(name: str) -> str:
    """Normalise a package name as indexes do: case and kind of dash do not matter."""
    return re.sub(r"[-_.]+", "-", name).lower()


def same_version(pinned: str, have: str) -> bool:
    """Whether a pin accepts a version: one without a local part accepts any (2.9.0 accepts 2.9.0+cu130)."""
    want = version_key(pinned)
    return pinned == have or ("+" not in pinned and want is not None and want == version_key(have))


def parse_lock(text: str, name: str = "the lock") -> Lock:
    """Parse a lock; raises LockError at the first line without a pin or a hash, or that does not belong in a lock."""
    packages: dict[str, str] = {}
    hashes: dict[str, tuple[str, ...]] = {}
    remarks: dict[str, str] = {}
    for number, line in _logical_lines(text):
        where = f"{name}, line {number}"
        if line.startswith("#"):
            remark = _REMARK.match(line)
            if remark:
                remarks.setdefault(remark["name"], remark["value"])
            continue
        package, version, found = _requirement(line, where)
        if package in packages:
            raise LockError(f"{where}: {package} is pinned twice, expected once: {MAKE_ONE}")
        packages[package], hashes[package] = version, found
    if not packages:
        raise LockError(f"{name} has no package in it, expected NAME==VERSION --hash=sha256:...: {MAKE_ONE}")
    size = remarks.get("wheels-bytes", "0")
    return Lock(
        digest=hashlib.sha256(text.encode()).hexdigest(),
        packages=packages,
        hashes=hashes,
        python=remarks.get("python", ""),
        architecture=remarks.get("architecture", ""),
        wheels_bytes=int(size) if size.isdecimal() else 0,
    )


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Join continuation lines; each result has the number of its first line."""
    found: list[tuple[int, str]] = []
    start, gathered = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not gathered:
            start = number
        if not line.startswith("#"):
            line = line.partition(" #")[0].rstrip()
        if line.endswith("\\") and not line.startswith("#"):
            gathered += line[:-1] + " "
            continue
        whole = (gathered + line).strip()
        gathered = ""
        if whole:
            found.append((start, whole))
    if gathered.strip():
        found.append((start, gathered.strip()))
    return found


def _requirement(line: str, where: str) -> tuple[str, str, tuple[str, ...]]:
    said, *options = [part.strip() for part in line.split("--hash=")]
    if "://" in line or " @ " in said:
        raise LockError(
            f"{where}: {_shown(line)!r} has an address; a lock has none, so that any mirror works: write "
            "NAME==VERSION, and set engine_venv_index to where packages come from"
        )
    if said.startswith("-"):
        raise LockError(
            f"{where}: {_shown(said)!r} is an option; a lock has only pins and hashes, packages come from "
            "engine_venv_index: remove the line"
        )
    if ";" in said:
        raise LockError(
            f"{where}: {_shown(said)!r} has a condition; a lock is for one platform and installs all of it: "
            "generate it with --python-platform and without --universal"
        )
    pin = _PIN.match(said)
    if pin is None:
        raise LockError(f"{where}: {_shown(said)!r} is not pinned, expected NAME==VERSION: {MAKE_ONE}")
    if not options:
        raise LockError(f"{where}: {said} has no hash, expected --hash=sha256:... for each of its files: {MAKE_ONE}")
    digests = []
    for option in options:
        kind, _, digest = option.partition(":")
        if kind != "sha256" or not is_hexadecimal(digest, 64):
            raise LockError(f"{where}: {said} has the hash {option!r}, expected sha256: and 64 digits: {MAKE_ONE}")
        digests.append(digest)
    return normal_name(pin["name"]), pin["version"], tuple(digests)


def _shown(text: str) -> str:
    """Shorten a piece of a line for a message."""
    cleaned = without_passwords(text)
    return cleaned if len(cleaned) <= 100 else cleaned[:97] + "..."


def without_passwords(text: str) -> str:
    """Mask what precedes an @ in an address: it may be a password."""
    return re.sub(r"(://)[^/\s]*@", r"\1****@", text)


def check_requires(lock: Lock, requires: Mapping[str, str], name: str = "the lock") -> None:
    """Refuse a lock that pins another version of a required package."""
    for package, version in sorted(requires.items()):
        have = lock.packages.get(normal_name(package))
        if have is None or not same_version(str(version), have):
            raise LockError(
                f"{name} pins {package} {have or 'not at all'}, expected {version}: use the lock of that release, or "
                "correct engine_venv_requires"
            )
