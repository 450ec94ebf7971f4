# SPDX-License-Identifier: Apache-2.0
"""CPU shares for nodes: each gets as much as a process beside them, as if it were a machine of its own."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Shares:
    """How a version of cgroups expresses shares."""

    file: str
    of_one: int
    most: int


VERSIONS = (Shares("cpu*/docker/cpu.shares", 1024, 262144), Shares("docker/cpu.weight", 100, 10000))


def share_with(nodes: int, root: Path = CGROUPS) -> None:
    """Give the group of all containers the CPU shares of this many processes.

    An engine has one group for all its containers, and by default a group has the shares of one process: with six busy
    processes on this machine, twelve nodes together would get a seventh of it, and starve. The group is removed with
    its engine. If it cannot be changed, nodes are merely slower.
    """
    for shares in VERSIONS:
        for file in root.glob(shares.file):
            with contextlib.suppress(OSError):
                file.write_text(f"{min(shares.of_one * max(nodes, 1), shares.most)}\n")
