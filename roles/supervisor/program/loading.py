# SPDX-License-Identifier: Apache-2.0
"""Whether a group that starts still makes progress: pure, asked with every look of the head.

A model of several hundred gigabytes takes many minutes to load, and the kernels for it take as long to compile the
first time. From the clock alone nobody can tell that from a hang. What a working engine moves, and a hanging one does
not, can be counted on every node: bytes that are read, memory that is taken, compilers that have run, files among
what was compiled, and lines of a kind that was not written before. As long as anything moves on any node, the group
starts; when nothing has moved for a while, it hangs.
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
"""Bytes that count as reading: an idle Ray node reads less than that from /proc in a quarter of an hour."""
MEMORY_STEP = 256 << 20
CHILD_STEP = 5
"""Seconds of processor time."""


@dataclass
class Mark:
    """What a node had when it last moved, each by itself. What falls, as a process ends, is followed downwards."""

    read: int
    children: int
    files: int
    lines: int
    free: int


class Progress:
    """Of one start, and begun anew with every stage of it."""

    def __init__(self) -> None:
        self.at = 0.0
        """When something moved last."""
        self.words = ""
        """What that was."""
        self.read_at = 0.0
        """When bytes moved last."""
        self._began = 0.0
        self._marks: dict[str, Mark] = {}
        self._reports: Reports = {}

    def begin(self, now: float) -> None:
        self.at = self.read_at = self._began = now
        self.words, self._marks, self._reports = "it was started", {}, {}

    def take(self, now: float, reports: Reports) -> None:
        """What the nodes say at this moment."""
        self._reports = reports
        for node, report in reports.items():
            moved = self._moved(now, node, report) if report.loading.known else ""
            if moved:
                self.at, self.words = now, f"{moved} on {node}"

    def hangs(self, now: float, plan: GroupPlan) -> bool:
        """Whether nothing has moved for too long, and every node could tell if it had."""
        told = all(node in self._reports and self._reports[node].loading.known for node in plan.nodes)
        return told and now - self.at > plan.timing.progress_timeout

    def advance(self, since: float, plan: GroupPlan) -> Advance | None:
        """For people; None while no node can tell."""
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
        """The start as a whole, at its end."""
        return Started(now - since, self._read, max(0.0, self.read_at - since))

    def last_seen(self, now: float, plan: GroupPlan) -> str:
        """What is known of a start that is given up, for its error: how far it came, when, and the last line."""
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
        """The last line, the head's first: that is where the server speaks."""
        for node in sorted(self._reports, key=lambda name: (name != plan.head, name)):
            line = self._reports[node].loading.last_line
            if line:
                return node, line
        return "", ""

    def _moved(self, now: float, node: str, report: NodeReport) -> str:
        """What has moved on a node, in words; nothing where all stands still."""
        seen = report.loading
        mark = self._marks.get(node)
        if mark is None:
            self._marks[node] = Mark(
                seen.bytes_read, seen.child_seconds, seen.cached_files, seen.lines, report.memory_free
            )
            return "the first look"
        moved = ""
        if seen.lines != mark.lines:
            moved = "a new line" if seen.lines > mark.lines else moved
            mark.lines = seen.lines
        if seen.cached_files != mark.files:
            moved = "a kernel was compiled" if seen.cached_files > mark.files else moved
            mark.files = seen.cached_files
        if seen.child_seconds >= mark.children + CHILD_STEP:
            moved, mark.children = "a compiler ran", seen.child_seconds
        mark.children = min(mark.children, seen.child_seconds)
        # Memory comes and goes; only less than ever is progress, so that this ends by itself.
        if 0 < report.memory_free <= mark.free - MEMORY_STEP:
            moved, mark.free = "memory was taken", report.memory_free
        mark.free = mark.free or report.memory_free
        if seen.bytes_read >= mark.read + READ_STEP:
            moved, mark.read, self.read_at = "bytes were read", seen.bytes_read, now
        mark.read = min(mark.read, seen.bytes_read)
        return moved
