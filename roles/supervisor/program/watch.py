# SPDX-License-Identifier: Apache-2.0
"""How far the engine of one group is on one node: read from the kernel, the journal and the cache of what it compiles.

Functions that block, for threads. What it means is evaluated by the head, for all nodes together (loading.py).
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
"""How often the files of the cache are counted."""
MOST_KINDS = 2000
"""Kinds of lines that are remembered; an engine that writes more of them has said enough."""
_VARIES = re.compile(r"\w*\d\w*")
"""Times, numbers, ids: what differs between two lines that say the same."""


def kind_of_line(line: str) -> str:
    """The line without what changes from one time to the next: one that is repeated is of the same kind."""
    return " ".join(_VARIES.sub("#", line).split())


class Watch:
    """What is known of one start; begun anew with the next."""

    def __init__(self, host: Host, plan: Sequence[UnitPlan], cache: str, secrets: Callable[[], list[str]]) -> None:
        self._host = host
        self._plan = plan
        self._cache = cache
        self._secrets = secrets
        self._ticks = float(os.sysconf("SC_CLK_TCK") or 100)
        self.forget()

    def forget(self) -> None:
        """The group has ended, or is up."""
        self._started: dict[str, str] = {}
        self._containers: dict[str, str] = {}
        self._cursors: dict[str, str] = {}
        self._kinds: set[str] = set()
        self._lines = 0
        self._last_line = ""
        self._files = 0
        self._counted = float("-inf")

    def look(self, now: float, seen: Mapping[str, Seen]) -> Loading:
        """The reading of this moment."""
        running = [unit for unit in self._plan if unit.unit in seen and seen[unit.unit].report.active]
        told = [self._read_journal(unit.unit, seen[unit.unit].invocation) for unit in running]
        groups = {unit.unit: self._group(unit, seen[unit.unit].invocation) for unit in running}
        processes = _processes(self._host, [group for group in groups.values() if group])
        read = [read_bytes(self._host.read_text(f"/proc/{process}/io")) for process in processes]
        ticks = sum(child_ticks(self._host.read_text(f"/proc/{process}/stat")) for process in processes)
        if self._cache and now - self._counted >= COUNT_SECONDS:
            self._files, self._counted = count_files(self._cache), now
        return Loading(
            # A kernel that counts no bytes tells nothing of a load. A process that has just ended tells nothing either.
            known=bool(running) and all(told) and all(groups.values()) and any(one is not None for one in read),
            bytes_read=sum(one for one in read if one is not None),
            child_seconds=int(ticks / self._ticks),
            cached_files=self._files,
            lines=self._lines,
            last_line=self._last_line,
        )

    def _group(self, unit: UnitPlan, invocation: str) -> str:
        """By what a process of the unit is known: its container, which Docker is asked for once, or the unit itself."""
        if not unit.container:
            return unit.unit
        if self._started.get(unit.unit) != invocation or not self._containers.get(unit.unit):
            self._started[unit.unit] = invocation
            self._containers[unit.unit] = units.container_id(self._host, unit.container)
        return self._containers[unit.unit]

    def _read_journal(self, unit: str, invocation: str) -> bool:
        """Count the lines that are new; whether the journal tells."""
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
    """The processes of these control groups."""
    if not groups:
        return []
    listed = (name for name in host.names("/proc") if name.isdecimal())
    inside = partial(belongs, groups=groups)
    return [process for process in listed if inside(host.read_text(f"/proc/{process}/cgroup"))]
