# SPDX-License-Identifier: Apache-2.0
"""Whether a starting group still makes progress: a pure function of the reports, evaluated on each tick of the head.

A model of several hundred gigabytes takes many minutes to load, and its kernels may take as long to compile the first
time. The elapsed time alone cannot distinguish that from a hang. But what a working engine does and a hanging one does
not can be measured on every node: bytes read, memory allocated, compilers run, files added to the compile cache, and
log lines of a new kind. As long as any of these changes on any node, the group is starting; if none has changed for a
while, it hangs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    Advance,
    GroupPlan,
    NodeReport,
    Started,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.text import gigabytes

Reports = Mapping[str, NodeReport]

READ_STEP = 256 << 20
"""The increase that counts as reading: an idle Ray node reads less than that from /proc in a quarter of an hour."""
MEMORY_STEP = 256 << 20
CHILD_STEP = 5
"""Seconds of processor time."""


@dataclass
class Mark:
    """The values of a node at their last change, each tracked separately.

    Values that fall, as when a process ends, are followed down.
    """

    read: int
    children: int
    files: int
    lines: int
    free: int


class Progress:
    """The progress of one start, reset at each of its stages."""

    def __init__(self) -> None:
        self.at = 0.0
        """When anything changed last."""
        self.words = ""
        """What that change was."""
        self.read_at = 0.0
        """When bytes were read last."""
        self._began = 0.0
        self._marks: dict[str, Mark] = {}
        self._reports: Reports = {}

    def begin(self, now: float) -> None:
        self.at = self.read_at = self._began = now
        self.words, self._marks, self._reports = "it was started", {}, {}

    def take(self, now: float, reports: Reports) -> None:
        """Evaluate the current reports of the nodes."""
        self._reports = reports
        for node, report in reports.items():
            moved = self._moved(now, node, report) if report.loading.known else ""
            if moved:
                self.at, self.words = now, f"{moved} on {node}"

    def hangs(self, now: float, plan: GroupPlan) -> bool:
        """Whether nothing has changed for too long, although every node is able to report changes."""
        told = all(node in self._reports and self._reports[node].loading.known for node in plan.nodes)
        return told and now - self.at > plan.timing.progress_timeout

    def advance(self, since: float, plan: GroupPlan) -> Advance | None:
        """Summarise the progress for people; None while no node can report it."""
        if not self._marks:
            return None
        return Advance(
            bytes_read=self._read,
            expected_bytes=plan.weights_bytes * len(plan.nodes),
            progress_at=self.at,
            words=self.words,
            limit_at=since + plan.timing.start_timeout,
            last_line=self._said(plan)[1],
        )

    def started(self, now: float, since: float) -> Started:
        """Summarise a completed start."""
        return Started(now - since, self._read, max(0.0, self.read_at - since))

    def last_seen(self, now: float, plan: GroupPlan) -> str:
        """Describe a failed start for its error message: how far it got, when, and the last log line."""
        if not self._marks:
            return ""
        expected = f" of {gigabytes(plan.weights_bytes * len(plan.nodes))}" if plan.weights_bytes else ""
        told = (
            f"the last progress was {now - self.at:.0f} s ago, {self.at - self._began:.0f} s after the start "
            f"({self.words}); {gigabytes(self._read)}{expected} were read"
        )
        node, line = self._said(plan)
        return f'{told}; the last line on {node}: "{line}"' if line else told

    @property
    def _read(self) -> int:
        return sum(report.loading.bytes_read for report in self._reports.values())

    def _said(self, plan: GroupPlan) -> tuple[str, str]:
        """Return the last log line and its node, preferably from the head, where the server logs."""
        for node in sorted(self._reports, key=lambda name: (name != plan.head, name)):
            line = self._reports[node].loading.last_line
            if line:
                return node, line
        return "", ""

    def _moved(self, now: float, node: str, report: NodeReport) -> str:
        """Describe what has changed on a node; empty if nothing has."""
        seen = report.loading
        mark = self._marks.get(node)
        if mark is None:
            self._marks[node] = Mark(
                seen.bytes_read, seen.child_seconds, seen.cached_files, seen.lines, report.memory_free
            )
            return "the first reading"
        moved = ""
        if seen.lines != mark.lines:
            moved = "a new log line" if seen.lines > mark.lines else moved
            mark.lines = seen.lines
        if seen.cached_files != mark.files:
            moved = "a kernel was compiled" if seen.cached_files > mark.files else moved
            mark.files = seen.cached_files
        if seen.child_seconds >= mark.children + CHILD_STEP:
            moved, mark.children = "a compiler ran", seen.child_seconds
        mark.children = min(mark.children, seen.child_seconds)
        # Memory use fluctuates; only a new minimum of free memory is progress, so that this cannot go on forever.
        if 0 < report.memory_free <= mark.free - MEMORY_STEP:
            moved, mark.free = "memory was allocated", report.memory_free
        mark.free = mark.free or report.memory_free
        if seen.bytes_read >= mark.read + READ_STEP:
            moved, mark.read, self.read_at = "bytes were read", seen.bytes_read, now
        mark.read = min(mark.read, seen.bytes_read)
        return moved
