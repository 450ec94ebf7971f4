# SPDX-License-Identifier: Apache-2.0
"""What the kernel tells of a process that may be loading a model: /proc/PID/io, /proc/PID/stat and /proc/PID/cgroup."""

from __future__ import annotations

from collections.abc import Collection

_CHILDREN_USER, _CHILDREN_SYSTEM = 13, 14
"""cutime and cstime, counted from the state behind the program's name (proc_pid_stat(5))."""


def read_bytes(text: str | None) -> int | None:
    """Bytes that a process and the children it waited for have read; None where the kernel does not tell.

    A file that is mapped counts where it comes from the disk (`read_bytes`), one that is read also where it comes out
    of memory (`rchar`). What is read from the disk by a system call is in both.
    """
    values = dict(line.partition(":")[::2] for line in (text or "").splitlines())
    found = [int(value) for name in ("rchar", "read_bytes") if (value := values.get(name, "").strip()).isdecimal()]
    return max(found) if found else None


def child_ticks(text: str | None) -> int:
    """Processor time of the children that a process has waited for, in clock ticks: compilers come and go."""
    fields = (text or "").rpartition(")")[2].split()
    if len(fields) <= _CHILDREN_SYSTEM:
        return 0
    told = (fields[_CHILDREN_USER], fields[_CHILDREN_SYSTEM])
    return sum(int(one) for one in told if one.isdecimal())


def belongs(text: str | None, groups: Collection[str]) -> bool:
    """Whether a process is in one of these control groups: a container's id, or the name of a unit.

    However the groups are laid out, a container's id is a part of its path, and a unit's name a step of its own.
    """
    paths = [line.split(":", 2)[2] for line in (text or "").splitlines() if line.count(":") >= 2]
    return any(
        group in path.split("/") or (not group.endswith(".service") and group in path)
        for group in groups
        for path in paths
    )
