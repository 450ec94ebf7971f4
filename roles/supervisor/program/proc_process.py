# SPDX-License-Identifier: Apache-2.0
"""Statistics of the kernel about a process that may be loading a model: /proc/PID/io, /proc/PID/stat and
/proc/PID/cgroup."""

from __future__ import annotations

from collections.abc import Collection

_CHILDREN_USER, _CHILDREN_SYSTEM = 13, 14
"""cutime and cstime, counted from the state behind the program's name (proc_pid_stat(5))."""


def read_bytes(text: str | None) -> int | None:
    """Return the bytes that a process and its reaped children have read; None if the kernel does not report it.

    A mapped file counts when it comes from the disk (`read_bytes`), and a file that is read also when it comes from
    memory (`rchar`). What a system call reads from the disk is in both.
    """
    values = dict(line.partition(":")[::2] for line in (text or "").splitlines())
    found = [int(value) for name in ("rchar", "read_bytes") if (value := values.get(name, "").strip()).isdecimal()]
    return max(found) if found else None


def child_ticks(text: str | None) -> int:
    """Return the processor time of a process's reaped children in clock ticks: compilers are short-lived."""
    fields = (text or "").rpartition(")")[2].split()
    if len(fields) <= _CHILDREN_SYSTEM:
        return 0
    told = (fields[_CHILDREN_USER], fields[_CHILDREN_SYSTEM])
    return sum(int(one) for one in told if one.isdecimal())


def belongs(text: str | None, groups: Collection[str]) -> bool:
    """Whether a process is in one of these control groups, each a container's ID or a unit's name.

    In every layout of the groups, a container's ID is part of the path, and a unit's name is a path component.
    """
    paths = [line.split(":", 2)[2] for line in (text or "").splitlines() if line.count(":") >= 2]
    return any(
        group in path.split("/") or (not group.endswith(".service") and group in path)
        for group in groups
        for path in paths
    )
