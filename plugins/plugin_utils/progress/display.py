# SPDX-License-Identifier: Apache-2.0
"""The state machine behind the progress callback.

Nothing here imports Ansible, prints, or reads a clock of its own: events go in with the caller's clock, lines come out.
The callback plugin only translates Ansible's events into these calls and writes the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.blocks import (
    MOST_HOSTS,
    Failure,
    Line,
    Phase,
    Waiting,
    failure_block,
    live_text,
    phase_table,
    recap_lines,
    slowest_lines,
    still_waiting,
    waiting_groups,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.fleet import (
    MOST_COLUMNS,
    Gathered,
    host_lines,
    rack_lines,
    reason_of,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.text import (
    clean_name,
    duration,
    fit,
    join_hosts,
)

# Identical failures of several hosts arrive at almost the same time; they are held this long to be reported once.
GATHER_SECONDS = 2.0

SPINNER_UNICODE = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINNER_ASCII = "|/-\\"


class Progress:
    """The state of one run. Methods return the lines to print."""

    def __init__(self, clock: Callable[[], float], verbosity: int = 0) -> None:
        self.clock = clock
        self.verbosity = verbosity
        self.started = clock()
        self.check_mode = False
        self.phases: list[Phase] = []
        self.waiting: dict[str, Waiting] = {}
        self.host_width = 0
        self._order: dict[str, int] = {}
        self._total_phases = 0
        self._passed_over = 0
        self._pending: list[tuple[float, Failure]] = []
        self._last_failure: dict[str, tuple[str, Failure]] = {}
        self._names: dict[str, str] = {}
        self._beats: dict[str, float] = {}
        self._slowest: dict[tuple[str, str], tuple[float, str]] = {}
        self._racks: Mapping[str, Sequence[str]] = {}
        self._spoke_for: set[str] = set()
        self._all_hosts_required = False
        self._gathered = Gathered()

    # -- the course of a run --

    def begin(self, total_phases: int = 0, check_mode: bool = False) -> list[Line]:
        """Start a playbook. Several playbooks of one command form one run, as in Ansible's own counters."""
        if not self.phases:
            self.started = self.clock()
        self._total_phases = len(self.phases) + self._passed_over + total_phases
        self.check_mode = check_mode
        if check_mode:
            return [Line("Check mode: nothing is changed, the lines show what a real run would change.", "heading")]
        return []

    def know_racks(self, racks: Mapping[str, Sequence[str]]) -> None:
        """Set the hosts of each rack; a single rack is ignored."""
        self._racks = racks if len(racks) > 1 else {}

    def start_phase(self, name: str, key: str) -> list[Line]:
        """Start a play; a further batch (`serial`) of the same play continues its phase."""
        if self.phases and self.phases[-1].key == key and self.phases[-1].ended is None:
            return []
        if self._all_hosts_required:
            # Ansible still iterates over the remaining plays, without running any task.
            return self.pass_over()
        lines = self.end_phase()
        phase = Phase(clean_name(name) or "Unnamed phase", key, self.clock())
        self.phases.append(phase)
        number = len(self.phases) + self._passed_over
        notes = [f"{number}/{self._total_phases}"] if self._total_phases > 1 else []
        notes += ["check mode"] if self.check_mode else []
        suffix = f"  ({', '.join(notes)})" if notes else ""
        return [*lines, Line(f"==> {phase.name}{suffix}", "heading")]

    def pass_over(self) -> list[Line]:
        """Skip a play without work: it is counted but not shown."""
        self._passed_over += 1
        return self.end_phase()

    def end_phase(self) -> list[Line]:
        """End the current phase: tasks still waited for will not return any more."""
        if not self.phases or self.phases[-1].ended is not None:
            return []
        lines = [*self._gathered.tell(len(self._order)), *self.flush_failures()]
        self.waiting.clear()
        self._beats.clear()
        phase = self.phases[-1]
        phase.ended = self.clock()
        if self._all_hosts_required:
            return lines
        if not phase.entered and any(earlier.failed for earlier in self.phases):
            return [*lines, Line(f"    {phase.name} was not run: no host could continue", "skipped")]
        changed = f"{phase.changed} {'would change' if self.check_mode else 'changed'}"
        spent = duration(phase.seconds(phase.ended))
        if phase.failed:
            failed = join_hosts(sorted(phase.failed, key=self._place), 8)
            return [
                *lines,
                Line(f"    {phase.name} ended after {spent}, {changed}, failed on {failed}", "failed"),
            ]
        return [*lines, Line(f"    {phase.name} done in {spent}, {changed}", "quiet")]

    def nobody_left(self) -> list[Line]:
        """Report that no host can continue; Ansible may call this repeatedly."""
        if not self.phases or self.phases[-1].stopped:
            return []
        self.phases[-1].stopped = True
        return [*self.flush_failures(), Line("    No host can continue: the run stops here.", "failed")]

    def announce_task(self, key: str, name: str) -> list[Line]:
        """Note a task that is about to start; at this point its name is templated."""
        self._names[key] = clean_name(name)
        lines = self._gathered.tell(len(self._order))
        return [*lines, *self.flush_failures()] if not self.waiting else lines

    def start_task(self, host: str, key: str, name: str, interactive: bool = False) -> None:
        """Note that a host starts a task."""
        task = self._names.setdefault(key, clean_name(name))
        if self.phases:
            self.phases[-1].entered = True
        self._order.setdefault(host, len(self._order))
        self.host_width = min(max(self.host_width, len(host)), 24)
        self.waiting[host] = Waiting(host, key, task, self.clock(), interactive=interactive)

    def retry(self, host: str, attempts: int, retries: int) -> None:
        """Note that a task with `until` will be retried."""
        if host in self.waiting:
            self.waiting[host].note = f"try {attempts + 1} of {max(retries, attempts + 1)}"

    def item_done(self, host: str) -> None:
        """Note that one item of a loop is done."""
        if host in self.waiting:
            waiting = self.waiting[host]
            waiting.items += 1
            waiting.note = f"{waiting.items} item{'s' if waiting.items > 1 else ''} done"

    def note(self, notes: Mapping[str, str]) -> None:
        """Set the progress notes that tasks wrote for their hosts."""
        for host, words in notes.items():
            if host in self.waiting:
                self.waiting[host].note = fit(clean_name(words), MOST_COLUMNS)

    def interactive(self) -> bool:
        """Return whether a prompt is open, over which nothing may be drawn."""
        return any(waiting.interactive for waiting in self.waiting.values())

    # -- results --

    def ok(self, host: str, key: str, task: str, label: str = "") -> list[Line]:
        """Report a task that changed nothing on a host."""
        return self._answered(host, key, task, label, "ok", "ok", self.verbosity > 0)

    def skipped(self, host: str, key: str, task: str, label: str = "") -> list[Line]:
        """Report a task that was skipped on a host."""
        return self._answered(host, key, task, label, "skipped", "skipped", self.verbosity > 0)

    def changed(
        self, host: str, key: str, task: str, label: str = "", detail: str = "", would: bool = False
    ) -> list[Line]:
        """Report a task that changed a host (or, in check mode, would have)."""
        if self.phases:
            self.phases[-1].changed += 1
        word = "would change" if would else "changed"
        return self._answered(host, key, task, label, word, "changed", True, detail)

    def said(self, host: str, key: str, task: str, message: Sequence[str], label: str = "") -> list[Line]:
        """Report the message of a debug task."""
        shown = self._host(label or host)
        self._finish(host, key, task)
        if self._is_fleet():
            self._gathered.hold(label or host, message, "plain")
            return self._due_failures()
        return [*self._due_failures(), *(Line(f"  {shown}  {text}".rstrip()) for text in message)]

    def ignored(self, failure: Failure, changed: bool = False) -> list[Line]:
        """Report a failure that the playbook ignores as a line, not a block. It may still have changed a host."""
        if changed and self.phases:
            self.phases[-1].changed += 1
        self._finish(failure.host, failure.key, failure.task)
        reason = failure.message[0] if failure.message else ""
        text = f"  {self._host(failure.host)}  failed, ignored  {failure.task}: {reason}"
        return [*self._due_failures(), Line(text.rstrip(": "), "warning")]

    def failed(self, failure: Failure) -> list[Line]:
        """Record a failed task or an unreachable host, to be reported when all hosts have returned the task."""
        self._finish(failure.host, failure.key, failure.task)
        if self.phases:
            if failure.host not in self.phases[-1].failed:
                self.phases[-1].failed.append(failure.host)
            self._last_failure[failure.host] = (self.phases[-1].name, failure)
        self._pending.append((self.clock(), failure))
        return self._due_failures()

    def all_hosts_required(self, failure: Failure) -> list[Line]:
        """Report that hosts are out and why; the host whose task fails for it does not count as failed itself."""
        self._finish(failure.host, failure.key, failure.task)
        self._spoke_for.add(failure.host)
        self._all_hosts_required = self.phases[-1].stopped = True
        reasons = self._reasons()
        out = {host: {"failed": int(host in reasons)} for hosts in self._racks.values() for host in hosts}
        told = rack_lines(self._racks, out, reasons) if self._racks else host_lines(reasons)
        title = [Line(""), Line("STOPPED  before what needs every host", "failed")]
        said = [Line(text, "failed") for text in failure.message]
        body = [Line(f"    {line.text}".rstrip(), line.tone) for line in [*told, *said]]
        return [*self.flush_failures(), *title, *body]

    def _reasons(self) -> dict[str, str]:
        failures = sorted(self._last_failure.items(), key=lambda item: self._place(item[0]))
        return {host: reason_of(phase, failure) for host, (phase, failure) in failures}

    def flush_failures(self) -> list[Line]:
        """Report the failures held back, in one block for hosts with the same failure."""
        groups: dict[tuple[Any, ...], list[Failure]] = {}
        for _, failure in self._pending:
            groups.setdefault(failure.group(), []).append(failure)
        self._pending.clear()
        for group in groups.values():
            group.sort(key=lambda failure: self._place(failure.host))
        phase = self.phases[-1].name if self.phases else ""
        return [line for group in groups.values() for line in failure_block(phase, group)]

    def tick(self) -> list[Line]:
        """Return failures that have become due by time alone."""
        if self._pending and self.clock() - self._pending[0][0] >= GATHER_SECONDS:
            return self.flush_failures()
        return []

    def _answered(
        self,
        host: str,
        key: str,
        task: str,
        label: str,
        word: str,
        tone: str,
        show: bool,
        detail: str = "",
    ) -> list[Line]:
        name = self._finish(host, key, task)
        suffix = f" ({detail})" if detail else ""
        if show and self._is_fleet():
            self._gathered.hold(label or host, [f"{word}  {name}{suffix}"], tone)
            return self._due_failures()
        lines = [Line(f"  {self._host(label or host)}  {word}  {name}{suffix}", tone)] if show else []
        return [*lines, *self._due_failures()]

    def _finish(self, host: str, key: str, task: str) -> str:
        """Stop waiting for a host, record the duration, and return the task's name."""
        name = clean_name(task) or self._names.get(key, "")
        waiting = self.waiting.pop(host, None)
        if waiting is not None and self.phases:
            seconds = self.clock() - waiting.since
            entry = (self.phases[-1].name, name)
            if seconds >= self._slowest.get(entry, (0.0, ""))[0]:
                self._slowest[entry] = (seconds, host)
        return name

    def _due_failures(self) -> list[Line]:
        """Return failures whose task no host is still running."""
        if not self._pending:
            return []
        running = {waiting.key for waiting in self.waiting.values()}
        if any(failure.key in running for _, failure in self._pending):
            return []
        return self.flush_failures()

    def _is_fleet(self) -> bool:
        """Return whether there are so many hosts that equal lines are merged; -v reports each host."""
        return len(self._order) > MOST_HOSTS and self.verbosity == 0

    def _place(self, host: str) -> int:
        """Return the sort key that lists hosts in the order they started, not in the order of their results."""
        return self._order.get(host, len(self._order))

    def _host(self, label: str) -> str:
        return label.ljust(self.host_width)

    # -- what is waited for --

    def status(self, width: int, frame: int = 0, spinner: str = SPINNER_ASCII) -> str:
        """Return the live line of at most `width` columns; empty if no host is waited for."""
        if not self.waiting or not self.phases or self.interactive():
            return ""
        mark = spinner[frame % len(spinner)]
        return fit(f"{mark} {live_text(self.phases[-1], self.waiting.values(), self.clock())}", width)

    def heartbeat(self, interval: float) -> list[Line]:
        """Return the lines for a log in place of the live line: one per running task and interval."""
        if interval <= 0 or not self.phases or self.interactive():
            return []
        now = self.clock()
        lines = []
        groups = waiting_groups(self.waiting.values())
        self._beats = {group[0].key: self._beats.get(group[0].key, 0.0) for group in groups}
        for group in groups:
            oldest = min(waiting.since for waiting in group)
            if now - max(oldest, self._beats[group[0].key]) >= interval:
                self._beats[group[0].key] = now
                lines.append(still_waiting(self.phases[-1], group, now - oldest))
        return lines

    # -- the end --

    def recap(self, hosts: Mapping[str, Mapping[str, int]]) -> list[Line]:
        """Return the closing report: hosts or a summary of a fleet, time per phase, slowest tasks, failures."""
        lines = self.end_phase()
        hosts = {host: self._own_counts(host, counts) for host, counts in hosts.items()}
        racks = rack_lines(self._racks, hosts, self._reasons())
        total = self.clock() - self.started
        suffix = "  (check mode: nothing was changed)" if self.check_mode else ""
        lines += [Line(""), Line(f"==> Recap{suffix}", "heading"), *recap_lines(hosts, self.verbosity > 0, racks)]
        lines += [Line(""), *phase_table(self.phases, self.clock(), total, self.check_mode)]
        lines += slowest_lines(self._slowest)
        return [*lines, *self._verdict(hosts)]

    def _own_counts(self, host: str, counts: Mapping[str, int]) -> Mapping[str, int]:
        """Return a host's counters without the failure of the task that reports other hosts as out."""
        return {**counts, "failed": counts.get("failed", 0) - 1} if host in self._spoke_for else counts

    def _verdict(self, hosts: Mapping[str, Mapping[str, int]]) -> list[Line]:
        """Repeat where the run failed, as the block may have scrolled away. Rescued failures do not count."""
        places: dict[tuple[str, str], list[str]] = {}
        for host, (phase, failure) in self._last_failure.items():
            counts = hosts.get(host, {})
            if counts.get("failed", 0) or counts.get("unreachable", 0):
                places.setdefault((phase, failure.task), []).append(host)
        lines = [
            Line(f"Failed in {phase}: {task} on {join_hosts(sorted(names, key=self._place), 8)}", "failed")
            for (phase, task), names in places.items()
        ]
        return [Line(""), *lines] if lines else []

    def timings(self, hosts: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
        """Return the same numbers in machine-readable form."""
        now = self.clock()
        return {
            "phases": [
                {"name": phase.name, "seconds": round(phase.seconds(now), 3), "changed": phase.changed}
                for phase in self.phases
            ],
            "total_seconds": round(now - self.started, 3),
            "check_mode": self.check_mode,
            "hosts": {host: dict(counts) for host, counts in sorted(hosts.items())},
            "reasons": {
                host: reason
                for host, reason in self._reasons().items()
                if hosts.get(host, {}).get("failed") or hosts.get(host, {}).get("unreachable")
            },
        }
