# SPDX-License-Identifier: Apache-2.0
"""Limits of this machine that many nodes together exceed; their former values are restored when the nodes are gone."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .cache import Cache
from .host import Say

SYSCTL = Path("/proc/sys")


@dataclass(frozen=True)
class Limit:
    """A kernel setting that is shared by all nodes."""

    name: str
    needed: Callable[[int], int]
    """Computes the required value from the number of nodes of all labs."""
    symptom: str
    """What a machine shows if the value is too low."""

    def file(self, root: Path) -> Path:
        return root / self.name.replace(".", "/")


def watchers(nodes: int) -> int:
    """Eight per started node, as many again for logins, linger and containers, and 64 for everything else."""
    return 64 + 16 * nodes


def neighbours(nodes: int) -> int:
    """Every node knows every other one on two rails and the management network, with separate entries."""
    return 256 + 3 * nodes * nodes


# Every systemd watches files, and the kernel counts root's watchers on all nodes together: most machines allow 128. It
# also has one neighbour table for all network namespaces, with room for 1024 entries: beyond that it loses packets.
LIMITS = (
    Limit("fs.inotify.max_user_instances", watchers, "nodes that do not finish starting"),
    Limit("net.ipv4.neigh.default.gc_thresh3", neighbours, "lost packets, and SSH connections that break"),
    Limit("net.ipv4.neigh.default.gc_thresh2", neighbours, "repeated queries for the same addresses"),
)


def nodes_of(records: Iterable[Path]) -> int:
    """Return the total number of nodes in these lab records."""
    return sum(len(json.loads(record.read_text())["nodes"]) for record in records)


def raise_for(cache: Cache, nodes: int, say: Say, root: Path = SYSCTL) -> None:
    """Raise the limits for this many nodes in all labs; if that is not possible, name the likely symptoms."""
    memory = _memory(cache)
    remembered = json.loads(memory.read_text()) if memory.exists() else {}
    for limit in LIMITS:
        file, wanted = limit.file(root), limit.needed(nodes)
        if not file.exists():  # in a container, which sees only part of the kernel's settings
            continue
        current = int(file.read_text())
        if current >= wanted:
            continue
        try:
            file.write_text(f"{wanted}\n")
        except OSError:
            say(
                f"{limit.name} is {current} and this user may not change it; {nodes} nodes need up to {wanted}. The "
                f"symptom of too few: {limit.symptom}. Do: sysctl -w {limit.name}={wanted} as root, or "
                "use fewer nodes."
            )
            continue
        former = remembered.get(limit.name, {}).get("former", current)
        remembered[limit.name] = {"former": former, "raised": wanted}
        memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        memory.write_text(json.dumps(remembered))


def restore(cache: Cache, root: Path = SYSCTL) -> None:
    """Restore the former values after the last lab, except those that were changed since."""
    memory = _memory(cache)
    if not memory.exists():
        return
    for limit in LIMITS:
        remembered = json.loads(memory.read_text()).get(limit.name)
        if remembered and int(limit.file(root).read_text()) == remembered["raised"]:
            limit.file(root).write_text(f"{remembered['former']}\n")
    memory.unlink()
    with contextlib.suppress(OSError):  # the private engine's files are there, too
        memory.parent.rmdir()


def _memory(cache: Cache) -> Path:
    """Return the path of the saved values: beside the engine's socket, it is lost on a reboot, as the raised values
    are.
    """
    return cache.runtime / "limits.json"
