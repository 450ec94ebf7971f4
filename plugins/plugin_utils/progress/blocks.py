# SPDX-License-Identifier: Apache-2.0
"""Render parts of the progress display: waiting hosts, failures grouped over hosts, counters, time per phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.text import clock_time, duration, join_hosts

MOST_HOSTS = 8
"""Maximum number of hosts whose counters are listed individually; in a longer list failures would get lost."""
MOST_IN_TROUBLE = 16

COUNTERS = ("ok", "changed", "unreachable", "failed", "skipped", "rescued", "ignored")


@dataclass(frozen=True)
class Line:
    """One permanent line; `tone` is its meaning, from which the callback derives the colour."""

    text: str
    tone: str = "plain"


@dataclass
class Waiting:
    """A host that runs a task and has not returned yet."""

    host: str
    key: str
    task: str
    since: float
    note: str = ""
    interactive: bool = False
    items: int = 0


@dataclass
class Phase:
    """One play, with its duration and changes."""

    name: str
    key: str
    started: float
    ended: float | None = None
    changed: int = 0
    failed: list[str] = field(default_factory=list)
    stopped: bool = False
    entered: bool = False

    def seconds(self, now: float) -> float:
        """Return the duration of the phase, until now if it is still running."""
        return (self.ended if self.ended is not None else now) - self.started


@dataclass(frozen=True)
class Failure:
    """A failed task or an unreachable host; `remedy` is what to do about this host."""

    host: str
    key: str
    task: str
    message: tuple[str, ...]
    where: str = ""
    unreachable: bool = False
    title: str = ""
    remedy: str = ""

    def group(self) -> tuple[Any, ...]:
        """Return the key by which failures of several hosts are merged into one block."""
        return (self.unreachable, self.key, self.task, self.message, self.where, self.title)


def waiting_groups(waiting: Iterable[Waiting]) -> list[list[Waiting]]:
    """Group hosts by the task they run, longest wait first."""
    groups: dict[str, list[Waiting]] = {}
    for one in waiting:
        groups.setdefault(one.key, []).append(one)
    return sorted(groups.values(), key=lambda group: min(one.since for one in group))


def live_text(phase: Phase, waiting: Iterable[Waiting], now: float) -> str:
    """Render the live line: the phase, and which hosts run which task for how long."""
    parts = []
    for group in waiting_groups(waiting):
        oldest = min(group, key=lambda one: one.since)
        said = notes_of(group)
        note = f", {said}" if said else ""
        hosts = join_hosts([one.host for one in group], 4)
        parts.append(f"{hosts}: {oldest.task} ({int(now - oldest.since)} s{note})")
    return f"{phase.name} {clock_time(phase.seconds(now))}  {'; '.join(parts)}"


def notes_of(group: Sequence[Waiting]) -> str:
    """Join the notes of hosts that run the same task: once if they are equal, else by host."""
    said = [one for one in group if one.note]
    if len({one.note for one in said}) <= 1:
        return said[0].note if said else ""
    return "; ".join(f"{one.host} {one.note}" for one in said[:8])


def still_waiting(phase: Phase, group: Sequence[Waiting], seconds: float) -> Line:
    """Return the log line for hosts that have been running a task for this long."""
    said = notes_of(group)
    note = f" ({said})" if said else ""
    hosts = join_hosts([one.host for one in group], 8)
    text = f"{phase.name}: {group[0].task} on {hosts}{note}"
    return Line(f"  ... still waiting after {int(seconds)} s: {text}", "quiet")


def failure_block(phase: str, group: Sequence[Failure]) -> list[Line]:
    """Render one block for all hosts that failed in the same way."""
    first = group[0]
    hosts = join_hosts([failure.host for failure in group], 16)
    remedies = list(dict.fromkeys(failure.remedy for failure in group if failure.remedy))
    if first.unreachable:
        verb = "does not" if len(group) == 1 else "do not"
        title = f"UNREACHABLE  {hosts} {verb} {first.title or 'answer'}"
    else:
        title = f"FAILED  {hosts}: {first.task}"
    body = [*first.message, *remedies]
    if first.unreachable:
        body.append(f"Task to run: {phase}: {first.task}" if phase else f"Task to run: {first.task}")
    if first.where:
        body.append(f"at {first.where}")
    tone = "unreachable" if first.unreachable else "failed"
    return [Line(""), Line(title, tone), *(Line(f"    {text}".rstrip(), tone) for text in body), Line("")]


def counter_lines(hosts: Mapping[str, Mapping[str, int]]) -> list[Line]:
    """Render `spark0 : ok=7 changed=0 ...` for each host, as in Ansible's own recap."""
    if not hosts:
        return [Line("No host took part.", "warning")]
    name_width = max(len(host) for host in hosts)
    widths = {name: max(len(str(counts.get(name, 0))) for counts in hosts.values()) for name in COUNTERS}
    lines = []
    for host in sorted(hosts):
        counts = hosts[host]
        fields = " ".join(f"{name}={counts.get(name, 0):<{widths[name]}}" for name in COUNTERS)
        if counts.get("unreachable", 0):
            tone = "unreachable"
        elif counts.get("failed", 0):
            tone = "failed"
        else:
            tone = "changed" if counts.get("changed", 0) else "ok"
        lines.append(Line(f"{host:<{name_width}} : {fields}".rstrip(), tone))
    return lines


def recap_lines(hosts: Mapping[str, Mapping[str, int]], whole: bool = False, racks: Sequence[Line] = ()) -> list[Line]:
    """Render the counters of a few hosts; for a fleet those of hosts in trouble, and one sentence for the others.

    `racks` has the lines of racks in trouble.
    """
    if whole or len(hosts) <= MOST_HOSTS:
        return [*counter_lines(hosts), *racks]
    trouble = {host: counts for host, counts in hosts.items() if counts.get("unreachable") or counts.get("failed")}
    well = {host: counts for host, counts in hosts.items() if host not in trouble}
    changed = sorted(host for host, counts in well.items() if counts.get("changed"))
    shown = counter_lines(trouble)[:MOST_IN_TROUBLE] if trouble else []
    if len(trouble) > len(shown):
        shown.append(Line(f"... and {len(trouble) - len(shown)} more that failed or did not answer", "failed"))
    part = f"{len(well)} of {len(hosts)} hosts" if trouble else f"All {len(hosts)} hosts"
    text = f"{part} came through: {len(well) - len(changed)} unchanged, {len(changed)} changed"
    if changed:
        text += f" ({join_hosts(changed, 8)})"
    return [*shown, *racks, Line(text, "changed" if changed else "ok")]


def phase_table(phases: Sequence[Phase], now: float, total: float, check_mode: bool) -> list[Line]:
    """Render the time per phase with its share of the total."""
    rows = [("Phase", "Time", "Share", "Would change" if check_mode else "Changed")]
    for phase in phases:
        seconds = phase.seconds(now)
        share = f"{100 * seconds / total:.0f} %" if total > 0 else "-"
        rows.append((phase.name, duration(seconds), share, str(phase.changed)))
    rows.append(("Total", duration(total), "", str(sum(phase.changed for phase in phases))))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [Line(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}") for a, b, c, d in rows]


def slowest_lines(slowest: Mapping[tuple[str, str], tuple[float, str]]) -> list[Line]:
    """Render the three slowest tasks: duration, phase and task, and the slowest host."""
    longest = sorted(slowest.items(), key=lambda entry: -entry[1][0])[:3]
    if not longest:
        return []
    width = max(len(duration(seconds)) for _, (seconds, _) in longest)
    return [
        Line(""),
        Line("Slowest tasks"),
        *(
            Line(f"  {duration(seconds):>{width}}  {phase}: {task} ({host})")
            for (phase, task), (seconds, host) in longest
        ),
    ]
