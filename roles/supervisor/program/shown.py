# SPDX-License-Identifier: Apache-2.0
"""The state for everybody to read: plain data for the file in /run, and one line for systemd. It contains no
secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import GroupConfig
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    Advance,
    Decision,
    NodeReport,
    Probe,
    Started,
)

from .state_files import moment


@dataclass(frozen=True)
class Clocks:
    """The current moment by the monotonic clock used for decisions, and by the wall clock."""

    now: float
    wall: float

    def at(self, moment_of_clock: float | None) -> str | None:
        """Convert a time of the monotonic clock to text."""
        return None if moment_of_clock is None else moment(self.wall + moment_of_clock - self.now)


@dataclass(frozen=True)
class HeadView:
    """What the head knows of a group."""

    decision: Decision | None
    since: float
    probe: Probe | None = None
    answered_at: float | None = None
    load: Mapping[str, Any] = field(default_factory=dict)
    history: Sequence[tuple[float, str]] = ()


def head_part(
    group: GroupConfig, view: HeadView, nodes: Mapping[str, tuple[float, NodeReport]], clocks: Clocks
) -> dict[str, Any]:
    """Render a group on its head's node."""
    decision = view.decision
    return {
        "phase": decision.phase if decision else "gathering",
        "why": decision.why if decision else "",
        "since": clocks.at(view.since),
        "epoch": decision.order.epoch if decision else "",
        "attempts": decision.attempts if decision else 0,
        "next_start": clocks.at(decision.next_start) if decision else None,
        "forgotten_at": clocks.at(decision.forgotten_at) if decision else None,
        "missing": dict(decision.missing) if decision else {},
        "nodes": {name: _node(ago, report) for name, (ago, report) in sorted(nodes.items())},
        "probe": {
            "answered_at": clocks.at(view.answered_at),
            "seconds": round(view.probe.seconds, 3) if view.probe else None,
            "words": view.probe.words if view.probe else "",
            "model": group.question.model,
        },
        "load": dict(view.load),
        "loading": _advance(decision.advance, clocks) if decision else None,
        "started": _started(decision.started) if decision else None,
        "history": [{"at": clocks.at(at), "event": event} for at, event in view.history],
    }


def _advance(advance: Advance | None, clocks: Clocks) -> dict[str, Any] | None:
    """Render the progress of a start."""
    if advance is None:
        return None
    return {
        "bytes_read": advance.bytes_read,
        "expected_bytes": advance.expected_bytes,
        "progress_at": clocks.at(advance.progress_at),
        "progress": advance.words,
        "limit_at": clocks.at(advance.limit_at),
        "last_line": advance.last_line,
    }


def _started(started: Started | None) -> dict[str, Any] | None:
    """Render the result of the last start."""
    if started is None:
        return None
    return {
        "seconds": round(started.seconds, 1),
        "bytes_read": started.bytes_read,
        "read_seconds": round(started.read_seconds, 1),
    }


def node_part(phase: str, why: str, since: float, epoch: str, own: NodeReport | None, clocks: Clocks) -> dict[str, Any]:
    """Render a group on another node: what its head last reported, and the node's own units."""
    return {
        "phase": phase or "unknown",
        "why": why,
        "since": clocks.at(since),
        "epoch": epoch,
        "attempts": 0,
        "next_start": None,
        "forgotten_at": None,
        "missing": {},
        "nodes": {own.node: _node(0.0, own)} if own else {},
        "probe": {"answered_at": None, "seconds": None, "words": "", "model": ""},
        "load": {},
        "loading": None,
        "started": None,
        "history": [],
    }


def _node(ago: float, report: NodeReport) -> dict[str, Any]:
    units = {
        name: f"{unit.words}: {unit.last_line}" if unit.last_line else unit.words for name, unit in report.units.items()
    }
    return {
        "heard_seconds": round(ago, 1),
        "units": units,
        "ready": report.ready,
        "problems": list(report.problems),
        "drained": report.drained,
        "memory_free": report.memory_free,
        "bytes_read": report.loading.bytes_read if report.loading.known else None,
    }


def past(document: Mapping[str, Any], group: str, clocks: Clocks) -> list[tuple[float, str]]:
    """Restore the history written by an earlier supervisor of this boot, in our clock; empty if it is unreadable."""
    groups = document.get("groups")
    shown = groups.get(group) if isinstance(groups, Mapping) else None
    entries = shown.get("history") if isinstance(shown, Mapping) else None
    events = entries if isinstance(entries, list) else []
    return [event for entry in events if (event := _event(entry, clocks))]


def _event(entry: Any, clocks: Clocks) -> tuple[float, str] | None:
    try:
        at = datetime.fromisoformat(entry["at"]).timestamp()
        return clocks.now + at - clocks.wall, str(entry["event"])
    except (KeyError, TypeError, ValueError):
        return None


def status_line(phases: Mapping[str, tuple[str, str]], problem: str) -> str:
    """Render a line for `systemctl status`: every group's phase, and the reason if it does not serve."""
    lines = [
        f"{name} is {phase}" + (f": {why}" if why and phase != "serving" else "")
        for name, (phase, why) in phases.items()
    ]
    return "; ".join([*lines, *([problem] if problem else [])])
