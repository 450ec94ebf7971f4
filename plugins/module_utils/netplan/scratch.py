# SPDX-License-Identifier: Apache-2.0
"""Run netplan's generator in scratch directories, and read what it wrote there and what is in force."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping

from ..host import Host
from .generated_units import NETWORK_MANAGER, NETWORKD, Unit, read_units

SOURCES = ("lib/netplan", "etc/netplan", "run/netplan")
"""Where netplan reads from, relative to a root directory; a file hides those of the same name in earlier ones."""

GENERATED = {NETWORKD: "run/systemd/network", NETWORK_MANAGER: "run/NetworkManager/system-connections"}
"""Where the generator writes."""

OWN_UNITS = {
    NETWORKD: (
        "lib/systemd/network",
        "usr/lib/systemd/network",
        "usr/local/lib/systemd/network",
        "etc/systemd/network",
    ),
    NETWORK_MANAGER: ("etc/NetworkManager/system-connections",),
}
"""Where a host has units of its own; a file hides those of the same name in earlier directories."""

GENERATE_LIMIT = 60.0

GENERATORS = ("/usr/libexec/netplan/configure", "/usr/libexec/netplan/generate", "/lib/netplan/generate")
"""The program behind `netplan generate`: since 1.2, before it, and in old releases.

The command itself makes systemd reload its units afterwards (seen in 1.1.2), even with another root directory. That
runs netplan's generator for the host, and edits that were never applied then look as if they were in force.
"""


class GenerateError(Exception):
    """Netplan refuses these files; the message is netplan's."""


def netplan_files(root: str = "/") -> dict[str, bytes]:
    """Return every netplan file of the host by its path below `root`, in the order that netplan reads them.

    Raises OSError if one cannot be read.
    """
    taken: dict[str, tuple[str, bytes]] = {}
    for source in SOURCES:
        for name in _names(os.path.join(root, source), ".yaml"):
            path = os.path.join(source, name)
            with open(os.path.join(root, path), "rb") as stream:
                taken[name] = (path, stream.read())
    return dict(taken[name] for name in sorted(taken))


def generate(host: Host, files: Mapping[str, bytes]) -> list[Unit]:
    """Return the units that netplan generates from these files. Raises GenerateError."""
    with _scratch(files) as scratch:
        program = next(([path] for path in GENERATORS if host.has(path)), ["netplan", "generate"])
        ran = host.run([*program, "--root-dir", scratch], timeout=GENERATE_LIMIT)
        if not ran.ok:
            raise GenerateError((ran.problem or ran.stderr or ran.stdout).replace(scratch, "").strip()[:800])
        return generated_units(scratch)


def generated_units(root: str) -> list[Unit]:
    """Return the units that the generator wrote below a root; with "/" those in force."""
    return [
        unit
        for renderer, directory in GENERATED.items()
        for unit in read_units(_texts(os.path.join(root, directory), "netplan-"), renderer)
    ]


def with_own_units(generated: list[Unit], root: str = "/") -> list[Unit]:
    """Return these units and the host's own ones, in the order of precedence."""
    found: list[Unit] = []
    for renderer, directories in OWN_UNITS.items():
        texts: dict[str, str] = {}
        for directory in directories:
            texts.update(_texts(os.path.join(root, directory), ""))
        own = read_units(texts, renderer)
        # A file in /etc hides one of the same name in /run, even if it is empty.
        found += own + [unit for unit in generated if unit.renderer == renderer and unit.name not in texts]
    return sorted(found, key=lambda unit: (unit.renderer, unit.name))


@contextlib.contextmanager
def _scratch(files: Mapping[str, bytes]) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="firstlight-netplan-") as scratch:
        for source in SOURCES:
            os.makedirs(os.path.join(scratch, source), mode=0o755)
        for path, content in files.items():
            place = os.path.join(scratch, path)
            with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(content)
        yield scratch


def _names(directory: str, ending: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if name.endswith(ending) and not name.startswith("."))
    except OSError:
        return []


def _texts(directory: str, word: str) -> dict[str, str]:
    texts = {}
    for name in _names(directory, ""):
        if word not in name:
            continue
        with contextlib.suppress(OSError), open(os.path.join(directory, name), "rb") as stream:
            texts[name] = stream.read().decode("utf-8", errors="replace")
    return texts
