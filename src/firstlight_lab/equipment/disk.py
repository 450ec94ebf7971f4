# SPDX-License-Identifier: Apache-2.0
"""Limits how fast a node reads from this machine's disk. Runs as root in a short-lived container of the engine.

The kernel itself does it, for the control groups that the node consists of. What is still in memory is not read from a
disk, and has no limit. Arguments: the id of the node's container, and bytes in a second, 0 for no limit.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
BLOCKS = Path("/sys/dev/block")
BESIDE = "/etc/hostname"
"""A file that Docker keeps where it keeps the nodes' own, whatever is mounted over the rest."""


def disk(beside: str = BESIDE, blocks: Path = BLOCKS) -> str:
    """The number of the disk that a file is on; the kernel limits disks, not their partitions."""
    number = os.stat(beside).st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    if not (blocks / name).exists():
        raise SystemExit(
            f"The files of the nodes are on a file system (device {name}) that is not on one disk, expected one such "
            "as ext4 or xfs: have Docker's data on such a file system, or name a cache there: FIRSTLIGHT_CACHE=/path"
        )
    found = (blocks / name).resolve()
    return (found.parent / "dev").read_text().strip() if (found / "partition").exists() else name


def limits(container: str, of: str, rate: int, groups: Path = GROUPS) -> dict[Path, str]:
    """What to write into which file. In the first version of control groups a limit is one group's own and not also
    that of the groups below it, which are the containers that run on the node.
    """
    first = groups / "blkio"
    if first.is_dir():
        files = first.rglob("blkio.throttle.read_bps_device")
        return {file: f"{of} {rate}" for file in files if container in file.parts}
    return {file: f"{of} rbps={rate or 'max'}" for file in groups.rglob("io.max") if container in file.parent.name}


def main(container: str, rate: str) -> None:
    found = limits(container, disk(), int(rate))
    if not found:
        raise SystemExit(
            f"The node has no control group that can be limited below {GROUPS}: it is off, or the kernel of this "
            "machine was built without CONFIG_BLK_DEV_THROTTLING. Switch it on: firstlight lab power NODE on"
        )
    for file, text in found.items():
        file.write_text(f"{text}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
