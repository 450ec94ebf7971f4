# SPDX-License-Identifier: Apache-2.0
"""A virtual environment as data: its names, its marker and its packages."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .lock import normal_name

STORE = ".firstlight"
"""The directory of the environments, beside the link."""
MARKER = ".firstlight.json"
"""Written last: an environment without it is incomplete."""
SAMPLE = 16
"""The number of files per package that an observation checks; for the engine it checks all."""

_RECORD_LINE = re.compile(r'^(?:"(?P<quoted>[^"]+)"|(?P<path>[^,"]+)),(?:sha256=(?P<digest>[^,]*))?,(?P<size>\d*)$')


def identity(lock_digest: str, python: str) -> str:
    """Return the identity of an environment, derived from its lock and its Python."""
    return hashlib.sha256(f"{lock_digest} {python}".encode()).hexdigest()[:16]


def store_of(directory: str) -> str:
    """Return the store of the environments behind a link."""
    return posixpath.join(posixpath.dirname(directory), STORE)


def environment_names(directory: str, key: str) -> tuple[str, str]:
    """Return the two possible names of an environment; the second is used if the first is in use but was modified."""
    name = posixpath.basename(directory)
    return f"{name}-{key}", f"{name}-{key}r"


def is_environment(directory: str, entry: str) -> bool:
    """Whether an entry of the store is an environment of this link."""
    name = re.escape(posixpath.basename(directory))
    return re.fullmatch(rf"{name}-[0-9a-f]{{16}}r?", entry) is not None


def check_directory(directory: str) -> str:
    """Return the link's path; raises ValueError if it is invalid."""
    path = directory.rstrip("/")
    name = posixpath.basename(path)
    if not path.startswith("/") or posixpath.normpath(path) != path or path.count("/") < 2 or name.startswith("."):
        raise ValueError(
            f"engine_venv_directory is {directory!r}, expected an absolute path below a directory of its own, such as "
            "/opt/venvs/vllm"
        )
    if any(character in path for character in "\n\t ,'\"\\$%"):
        raise ValueError(f"engine_venv_directory is {directory!r}, expected a path without blanks, commas and quotes")
    return path


@dataclass(frozen=True)
class Marker:
    """The record of an installation, written when it was finished."""

    lock: str
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions as in the packages' metadata, which may be spelled differently from the lock."""
    watched: Sequence[str] = ()
    """Packages whose every file is checked by an observation."""

    def text(self) -> str:
        """Return the content of the marker file."""
        document = {
            "lock": self.lock,
            "python": self.python,
            "packages": dict(sorted(self.packages.items())),
            "watched": sorted(self.watched),
        }
        return json.dumps(document, indent=1) + "\n"


def parse_marker(text: str | None) -> Marker | None:
    """Parse a marker; None if there is none or it is unreadable."""
    if not text:
        return None
    try:
        document = json.loads(text)
        return Marker(
            lock=str(document["lock"]),
            python=str(document["python"]),
            packages={str(name): str(version) for name, version in document["packages"].items()},
            watched=[str(name) for name in document["watched"]],
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def parse_metadata(text: str) -> tuple[str, str] | None:
    """Parse name and version from a package's METADATA."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            break
        name, separator, value = line.partition(":")
        if separator and name in ("Name", "Version"):
            values.setdefault(name, value.strip())
    if not values.get("Name") or not values.get("Version"):
        return None
    return normal_name(values["Name"]), values["Version"]


def package_differences(recorded: Mapping[str, str], have: Mapping[str, str]) -> dict[str, dict[str, str | None]]:
    """Return packages that are missing, extra, or in another version: {name: {expected, observed}}.

    `recorded` is what was there right after the installation, spelled as it is spelled now.
    """
    return {
        name: {"expected": recorded.get(name), "observed": have.get(name)}
        for name in sorted({*recorded, *have})
        if recorded.get(name) != have.get(name)
    }


@dataclass(frozen=True)
class Recorded:
    """One file in a package's RECORD."""

    path: str
    size: int
    digest: str = ""


def sample(record: str, most: int | None = SAMPLE) -> list[Recorded]:
    """Return a fixed sample of a package's files, spread over its RECORD; all of them without a limit.

    Compiled files are left out: they are made on the host.
    """
    lines = [line for line in record.splitlines() if ".pyc," not in line and not line.endswith(",,")]
    if most is not None and len(lines) > most:
        step = len(lines) / most
        lines = [lines[int(index * step)] for index in range(most)]
    found = []
    for line in lines:
        match = _RECORD_LINE.match(line)
        if match and match["size"]:
            found.append(Recorded(match["quoted"] or match["path"], int(match["size"]), match["digest"] or ""))
    return found


def parse_capabilities(text: str) -> list[tuple[int, int]]:
    """Parse `nvidia-smi --query-gpu=compute_cap --format=csv,noheader`: one line per GPU; other lines are ignored."""
    found = []
    for line in text.splitlines():
        major, _, minor = line.strip().partition(".")
        if major.isdecimal() and minor.isdecimal():
            found.append((int(major), int(minor)))
    return found


def capability(text: str) -> tuple[int, int]:
    """Parse a compute capability from a variable."""
    found = parse_capabilities(text)
    if len(found) != 1:
        raise ValueError(
            f'engine_venv_compute_capability is {text!r}, expected MAJOR.MINOR such as "9.0", or "" for no check'
        )
    return found[0]


def check_index(index: str) -> str:
    """Validate the index's address; one with a password is refused, as every user of a host can read arguments."""
    if not index:
        return ""
    scheme, separator, rest = index.partition("://")
    if "@" in rest.partition("/")[0]:
        place = rest.rpartition("@")[2]
        raise ValueError(
            f"engine_venv_index has a user or password in it ({scheme}://****@{place}), expected an address without: "
            "every user of the host can read a command line; keep them in root's ~/.netrc or in /etc/pip.conf"
        )
    if not separator or scheme not in ("http", "https", "file"):
        raise ValueError(
            f"engine_venv_index is {index!r}, expected the address of a simple index, https://HOST/simple/"
        )
    return index


def observed_environment(marker: Marker | None, packages: Mapping[str, str], changed: Sequence[str]) -> dict[str, Any]:
    """Return the observation of an environment."""
    return {
        "exists": True,
        "finished": marker is not None,
        "lock": marker.lock if marker else None,
        "python": marker.python if marker else None,
        "packages": dict(sorted(packages.items())),
        "differing": package_differences(marker.packages, packages) if marker else {},
        "changed": list(changed),
    }


ABSENT: dict[str, Any] = {
    "exists": False,
    "finished": False,
    "lock": None,
    "python": None,
    "packages": {},
    "differing": {},
    "changed": [],
}
