# SPDX-License-Identifier: Apache-2.0
"""Processor time for nodes: each has as much as a program beside them, as if it were a machine of its own."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Shares:
    """How a version of the kernel's control groups says it."""

    file: str
    of_one: int
    most: int


VERSIONS = (Shares("cpu*/docker/cpu.shares", 1024, 262144), Shares("docker/cpu.weight", 100, 10000))


def share_with(nodes: int, root: Path = CGROUPS) -> None:
    """Give the group of all containers the shares of so many programs.

    An engine has one group for all of its containers, and a group has by itself the shares of one program: with six
    programs at work on this machine, twelve nodes together would have a seventh of it, and starve. The group ends with
    its engine. Where it cannot be changed, nodes are slower and all else is the same.
    """
    for shares in VERSIONS:
        for file in root.glob(shares.file):
            with contextlib.suppress(OSError):
                file.write_text(f"{min(shares.of_one * max(nodes, 1), shares.most)}\n")
