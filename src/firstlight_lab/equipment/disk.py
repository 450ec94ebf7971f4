# SPDX-License-Identifier: Apache-2.0
"""Limit a node's read rate from this machine's disk. Runs as root in a short-lived container of the engine.

The kernel enforces the limit, for the control groups of the node. Reads from the page cache do not touch the disk and
are not limited. Arguments: the id of the node's container, and bytes per second, 0 for no limit.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
BLOCKS = Path("/sys/dev/block")
BESIDE = "/etc/hostname"
"""A file that Docker keeps on the same file system as the nodes' files, even if other paths are mounted over."""


def disk(beside: str = BESIDE, blocks: Path = BLOCKS) -> str:
    """Return the device number of the disk that holds a file; the kernel limits disks, not their partitions."""
    number = os.stat(beside).st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    if not (blocks / name).exists():
        raise SystemExit(
            f"The files of the nodes are on a file system (device {name}) that is not on one disk, expected one such "
            "as ext4 or xfs: move Docker's data to such a file system, or set a cache there: FIRSTLIGHT_CACHE=/path"
        )
    found = (blocks / name).resolve()
    return (found.parent / "dev").read_text().strip() if (found / "partition").exists() else name


def limits(container: str, of: str, rate: int, groups: Path = GROUPS) -> dict[Path, str]:
    """Return what to write into which file.

    In cgroup v1, a limit applies to a single group and not to those below it, which are the containers on the node.
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
