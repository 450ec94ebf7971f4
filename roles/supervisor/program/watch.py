# SPDX-License-Identifier: Apache-2.0
"""Measure the progress of one group's engine on one node from the kernel, the journal and the compile cache.

The functions block, so run them in threads. The head evaluates the result, for all nodes together (loading.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import Loading, UnitPlan

from . import units
from .caches import count_files
from .proc_process import belongs, child_ticks, read_bytes
from .units import Seen

COUNT_SECONDS = 30.0
"""The interval for counting the files of the cache."""
MOST_KINDS = 2000
"""The most kinds of lines to remember; an engine that writes more of them has shown enough."""
_VARIES = re.compile(r"\w*\d\w*")
"""Times, numbers and IDs: what varies between two lines of the same kind."""


def kind_of_line(line: str) -> str:
    """Return the line without its variable parts: repetitions are of the same kind."""
    return " ".join(_VARIES.sub("#", line).split())


class Watch:
    """What is known of one start; reset for the next."""

    def __init__(self, host: Host, plan: Sequence[UnitPlan], cache: str, secrets: Callable[[], list[str]]) -> None:
        self._host = host
        self._plan = plan
        self._cache = cache
        self._secrets = secrets
        self._ticks = float(os.sysconf("SC_CLK_TCK") or 100)
        self.forget()

    def forget(self) -> None:
        """Reset: the group has ended, or is up."""
        self._started: dict[str, str] = {}
        self._containers: dict[str, str] = {}
        self._cursors: dict[str, str] = {}
        self._kinds: set[str] = set()
        self._lines = 0
        self._last_line = ""
        self._files = 0
        self._counted = float("-inf")

    def look(self, now: float, seen: Mapping[str, Seen]) -> Loading:
        """Take a measurement."""
        running = [unit for unit in self._plan if unit.unit in seen and seen[unit.unit].report.active]
        told = [self._read_journal(unit.unit, seen[unit.unit].invocation) for unit in running]
        groups = {unit.unit: self._group(unit, seen[unit.unit].invocation) for unit in running}
        processes = _processes(self._host, [group for group in groups.values() if group])
        read = [read_bytes(self._host.read_text(f"/proc/{process}/io")) for process in processes]
        ticks = sum(child_ticks(self._host.read_text(f"/proc/{process}/stat")) for process in processes)
        if self._cache and now - self._counted >= COUNT_SECONDS:
            self._files, self._counted = count_files(self._cache), now
        return Loading(
            # Without byte counts from the kernel the progress is unknown; likewise for a process that has just ended.
            known=bool(running) and all(told) and all(groups.values()) and any(one is not None for one in read),
            bytes_read=sum(one for one in read if one is not None),
            child_seconds=int(ticks / self._ticks),
            cached_files=self._files,
            lines=self._lines,
            last_line=self._last_line,
        )

    def _group(self, unit: UnitPlan, invocation: str) -> str:
        """Return the control group of a unit's processes: its container's ID, or the unit's name."""
        if not unit.container:
            return unit.unit
        if self._started.get(unit.unit) != invocation or not self._containers.get(unit.unit):
            self._started[unit.unit] = invocation
            self._containers[unit.unit] = units.container_id(self._host, unit.container)
        return self._containers[unit.unit]

    def _read_journal(self, unit: str, invocation: str) -> bool:
        """Count new kinds of lines; return whether the journal could be read."""
        found = units.new_lines(self._host, unit, invocation, self._cursors.get(unit, ""), self._secrets())
        if found is None:
            return False
        lines, self._cursors[unit] = found
        for line in lines:
            kind = kind_of_line(line)
            if kind not in self._kinds and len(self._kinds) < MOST_KINDS:
                self._kinds.add(kind)
                self._lines += 1
        self._last_line = lines[-1] if lines else self._last_line
        return True


def _processes(host: Host, groups: Sequence[str]) -> list[str]:
    """Return the processes in these control groups."""
    if not groups:
        return []
    listed = (name for name in host.names("/proc") if name.isdecimal())
    inside = partial(belongs, groups=groups)
    return [process for process in listed if inside(host.read_text(f"/proc/{process}/cgroup"))]
