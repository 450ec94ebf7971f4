# SPDX-License-Identifier: Apache-2.0
"""What the progress callback knows and how it says it: a state machine and its rendering.

Nothing here imports Ansible, prints, or reads a clock of its own: events go in with the caller's clock, lines
come out. The callback plugin only translates Ansible's events into these calls and writes the lines.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

# Identical failures of several hosts arrive within moments of each other; held this long, they are told once.
GATHER_SECONDS = 2.0

HIDDEN_MESSAGE = "The message is hidden because this task handles a secret (no_log)."

COUNTERS = ("ok", "changed", "unreachable", "failed", "skipped", "rescued", "ignored")

SPINNER_UNICODE = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINNER_ASCII = "|/-\\"

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_REASON_PREFIX = re.compile(
    r"^(?:(?:task failed|connection failed|failed to connect to the host via [\w.]+|"
    r"data could not be sent to remote host \"[^\"]*\"[^:]*)\s*:\s*)+",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Line:
    """One permanent line; `tone` says what it means, the callback decides its colour."""

    text: str
    tone: str = "plain"


@dataclass
class Waiting:
    """A host that has been given a task and has not answered yet."""

    host: str
    key: str
    task: str
    since: float
    note: str = ""
    interactive: bool = False
    items: int = 0


@dataclass
class Phase:
    """One play: what it took and what it changed."""

    name: str
    key: str
    started: float
    ended: float | None = None
    changed: int = 0
    failed: list[str] = field(default_factory=list)
    stopped: bool = False
    entered: bool = False

    def seconds(self, now: float) -> float:
        """Time spent in this phase, up to now while it is still running."""
        return (self.ended if self.ended is not None else now) - self.started


@dataclass(frozen=True)
class Failure:
    """A task that failed, or a host that did not answer; `remedy` is what to do about this host."""

    host: str
    key: str
    task: str
    message: tuple[str, ...]
    where: str = ""
    unreachable: bool = False
    title: str = ""
    remedy: str = ""

    def group(self) -> tuple[Any, ...]:
        """Hosts with an equal group are told in one block."""
        return (self.unreachable, self.key, self.task, self.message, self.where, self.title)


class Progress:
    """The state of one run. Every method that may have something to say returns the lines to print."""

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
        self._pending: list[tuple[float, Failure]] = []
        self._last_failure: dict[str, tuple[str, Failure]] = {}
        self._names: dict[str, str] = {}
        self._beats: dict[str, float] = {}
        self._slowest: dict[tuple[str, str], tuple[float, str]] = {}

    # -- the course of a run --

    def begin(self, total_phases: int = 0, check_mode: bool = False) -> list[Line]:
        """A playbook starts. Several playbooks of one command are one run, as in Ansible's own counters."""
        if not self.phases:
            self.started = self.clock()
        self._total_phases = len(self.phases) + total_phases
        self.check_mode = check_mode
        if check_mode:
            return [Line("Check mode: nothing is changed, the lines say what a real run would change.", "heading")]
        return []

    def start_phase(self, name: str, key: str) -> list[Line]:
        """A play starts; a further batch (`serial`) of the same play continues its phase."""
        if self.phases and self.phases[-1].key == key and self.phases[-1].ended is None:
            return []
        lines = self.end_phase()
        phase = Phase(clean_name(name) or "Unnamed phase", key, self.clock())
        self.phases.append(phase)
        notes = [f"{len(self.phases)}/{self._total_phases}"] if self._total_phases > 1 else []
        notes += ["check mode"] if self.check_mode else []
        suffix = f"  ({', '.join(notes)})" if notes else ""
        return [*lines, Line(f"==> {phase.name}{suffix}", "heading")]

    def end_phase(self) -> list[Line]:
        """The current phase is over: whatever was still waited for cannot answer any more."""
        if not self.phases or self.phases[-1].ended is not None:
            return []
        lines = self.flush_failures()
        self.waiting.clear()
        self._beats.clear()
        phase = self.phases[-1]
        phase.ended = self.clock()
        if not phase.entered and any(earlier.failed for earlier in self.phases):
            return [*lines, Line(f"    {phase.name} was not run: no host could go on", "skipped")]
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
        """No host can go on; Ansible may say so more than once."""
        if not self.phases or self.phases[-1].stopped:
            return []
        self.phases[-1].stopped = True
        return [*self.flush_failures(), Line("    No host can go on: the run stops here.", "failed")]

    def announce_task(self, key: str, name: str) -> list[Line]:
        """A task is about to be given to hosts; its name is at its best here (templated)."""
        self._names[key] = clean_name(name)
        return self.flush_failures() if not self.waiting else []

    def start_task(self, host: str, key: str, name: str, interactive: bool = False) -> None:
        """A host has been given a task."""
        task = self._names.setdefault(key, clean_name(name))
        if self.phases:
            self.phases[-1].entered = True
        self._order.setdefault(host, len(self._order))
        self.host_width = min(max(self.host_width, len(host)), 24)
        self.waiting[host] = Waiting(host, key, task, self.clock(), interactive=interactive)

    def retry(self, host: str, attempts: int, retries: int) -> None:
        """A task with `until` did not succeed yet and will be tried again."""
        if host in self.waiting:
            self.waiting[host].note = f"try {attempts + 1} of {max(retries, attempts + 1)}"

    def item_done(self, host: str) -> None:
        """One item of a loop is done."""
        if host in self.waiting:
            waiting = self.waiting[host]
            waiting.items += 1
            waiting.note = f"{waiting.items} item{'s' if waiting.items > 1 else ''} done"

    def interactive(self) -> bool:
        """Whether somebody is being asked something: nothing may be drawn over the question."""
        return any(waiting.interactive for waiting in self.waiting.values())

    # -- results --

    def ok(self, host: str, key: str, task: str, label: str = "") -> list[Line]:
        """A host had nothing to change."""
        return self._answered(host, key, task, label, "ok", "ok", self.verbosity > 0)

    def skipped(self, host: str, key: str, task: str, label: str = "") -> list[Line]:
        """A task did not apply to a host."""
        return self._answered(host, key, task, label, "skipped", "skipped", self.verbosity > 0)

    def changed(
        self, host: str, key: str, task: str, label: str = "", detail: str = "", would: bool = False
    ) -> list[Line]:
        """A task changed a host (or, in check mode, would have)."""
        if self.phases:
            self.phases[-1].changed += 1
        word = "would change" if would else "changed"
        return self._answered(host, key, task, label, word, "changed", True, detail)

    def said(self, host: str, key: str, task: str, message: Sequence[str], label: str = "") -> list[Line]:
        """A debug task has something to say to the operator."""
        shown = self._host(label or host)
        self._finish(host, key, task)
        return [*self._due_failures(), *(Line(f"  {shown}  {text}".rstrip()) for text in message)]

    def ignored(self, failure: Failure, changed: bool = False) -> list[Line]:
        """A failure the playbook tolerates: worth a line, not a block. It may still have changed a host."""
        if changed and self.phases:
            self.phases[-1].changed += 1
        self._finish(failure.host, failure.key, failure.task)
        reason = failure.message[0] if failure.message else ""
        text = f"  {self._host(failure.host)}  failed, ignored  {failure.task}: {reason}"
        return [*self._due_failures(), Line(text.rstrip(": "), "warning")]

    def failed(self, failure: Failure) -> list[Line]:
        """A task failed on a host, or the host did not answer; told when all hosts have answered the task."""
        self._finish(failure.host, failure.key, failure.task)
        if self.phases:
            if failure.host not in self.phases[-1].failed:
                self.phases[-1].failed.append(failure.host)
            self._last_failure[failure.host] = (self.phases[-1].name, failure)
        self._pending.append((self.clock(), failure))
        return self._due_failures()

    def flush_failures(self) -> list[Line]:
        """Tell the failures that were held back, one block for the hosts that say the same."""
        groups: dict[tuple[Any, ...], list[Failure]] = {}
        for _, failure in self._pending:
            groups.setdefault(failure.group(), []).append(failure)
        self._pending.clear()
        for group in groups.values():
            group.sort(key=lambda failure: self._place(failure.host))
        phase = self.phases[-1].name if self.phases else ""
        return [line for group in groups.values() for line in failure_block(phase, group)]

    def tick(self) -> list[Line]:
        """What has become due by the passing of time alone."""
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
        lines = [Line(f"  {self._host(label or host)}  {word}  {name}{suffix}", tone)] if show else []
        return [*lines, *self._due_failures()]

    def _finish(self, host: str, key: str, task: str) -> str:
        """The host answered: stop waiting for it, remember how long it took, give the task's name."""
        name = clean_name(task) or self._names.get(key, "")
        waiting = self.waiting.pop(host, None)
        if waiting is not None and self.phases:
            seconds = self.clock() - waiting.since
            entry = (self.phases[-1].name, name)
            if seconds >= self._slowest.get(entry, (0.0, ""))[0]:
                self._slowest[entry] = (seconds, host)
        return name

    def _due_failures(self) -> list[Line]:
        """Failures whose task nobody is still running."""
        if not self._pending:
            return []
        running = {waiting.key for waiting in self.waiting.values()}
        if any(failure.key in running for _, failure in self._pending):
            return []
        return self.flush_failures()

    def _place(self, host: str) -> int:
        """Hosts are told in inventory order, not in the order their answers happened to come in."""
        return self._order.get(host, len(self._order))

    def _host(self, label: str) -> str:
        return label.ljust(self.host_width)

    # -- what is waited for --

    def _groups(self) -> list[list[Waiting]]:
        """Hosts that wait for the same task, longest wait first."""
        groups: dict[str, list[Waiting]] = {}
        for waiting in self.waiting.values():
            groups.setdefault(waiting.key, []).append(waiting)
        return sorted(groups.values(), key=lambda group: min(waiting.since for waiting in group))

    def status(self, width: int, frame: int = 0, spinner: str = SPINNER_ASCII) -> str:
        """The live line, at most `width` columns; empty when nothing is waited for."""
        if not self.waiting or not self.phases or self.interactive():
            return ""
        now = self.clock()
        phase = self.phases[-1]
        parts = []
        for group in self._groups():
            oldest = min(group, key=lambda waiting: waiting.since)
            note = next((f", {waiting.note}" for waiting in group if waiting.note), "")
            hosts = join_hosts([waiting.host for waiting in group], 4)
            parts.append(f"{hosts}: {oldest.task} ({int(now - oldest.since)} s{note})")
        head = f"{spinner[frame % len(spinner)]} {phase.name} {clock_time(phase.seconds(now))}"
        return fit(f"{head}  {'; '.join(parts)}", width)

    def heartbeat(self, interval: float) -> list[Line]:
        """The lines a log gets instead of the live line: one per waited-for task and interval."""
        if interval <= 0 or not self.phases or self.interactive():
            return []
        now = self.clock()
        lines = []
        groups = self._groups()
        self._beats = {group[0].key: self._beats.get(group[0].key, 0.0) for group in groups}
        for group in groups:
            oldest = min(waiting.since for waiting in group)
            if now - max(oldest, self._beats[group[0].key]) < interval:
                continue
            self._beats[group[0].key] = now
            note = next((f" ({waiting.note})" for waiting in group if waiting.note), "")
            hosts = join_hosts([waiting.host for waiting in group], 8)
            text = f"{self.phases[-1].name}: {group[0].task} on {hosts}{note}"
            lines.append(Line(f"  ... still waiting after {int(now - oldest)} s: {text}", "quiet"))
        return lines

    # -- the end --

    def recap(self, hosts: Mapping[str, Mapping[str, int]]) -> list[Line]:
        """The closing report: counters per host, time per phase, slowest tasks, what failed."""
        lines = self.end_phase()
        total = self.clock() - self.started
        suffix = "  (check mode: nothing was changed)" if self.check_mode else ""
        lines += [Line(""), Line(f"==> Recap{suffix}", "heading"), *counter_lines(hosts)]
        lines += [Line(""), *self._phase_table(total)]
        slowest = sorted(self._slowest.items(), key=lambda entry: -entry[1][0])[:3]
        if slowest:
            lines += [Line(""), Line("Slowest tasks")]
            width = max(len(duration(seconds)) for _, (seconds, _) in slowest)
            for (phase, task), (seconds, host) in slowest:
                lines.append(Line(f"  {duration(seconds):>{width}}  {phase}: {task} ({host})"))
        return [*lines, *self._verdict(hosts)]

    def _phase_table(self, total: float) -> list[Line]:
        """Time per phase with its share of the whole."""
        rows = [("Phase", "Time", "Share", "Would change" if self.check_mode else "Changed")]
        for phase in self.phases:
            seconds = phase.seconds(self.clock())
            share = f"{100 * seconds / total:.0f} %" if total > 0 else "-"
            rows.append((phase.name, duration(seconds), share, str(phase.changed)))
        rows.append(("Total", duration(total), "", str(sum(phase.changed for phase in self.phases))))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        return [Line(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}") for a, b, c, d in rows]

    def _verdict(self, hosts: Mapping[str, Mapping[str, int]]) -> list[Line]:
        """Repeat where it stopped: the block may have scrolled away. Rescued failures are no failures."""
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
        """The same numbers for programs."""
        now = self.clock()
        return {
            "phases": [
                {"name": phase.name, "seconds": round(phase.seconds(now), 3), "changed": phase.changed}
                for phase in self.phases
            ],
            "total_seconds": round(now - self.started, 3),
            "check_mode": self.check_mode,
            "hosts": {host: dict(counts) for host, counts in sorted(hosts.items())},
        }


# -- rendering --


def failure_block(phase: str, group: Sequence[Failure]) -> list[Line]:
    """One readable block for all hosts that failed in the same way."""
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
        body.append(f"It was to do: {phase}: {first.task}" if phase else f"It was to do: {first.task}")
    if first.where:
        body.append(f"at {first.where}")
    tone = "unreachable" if first.unreachable else "failed"
    return [Line(""), Line(title, tone), *(Line(f"    {text}".rstrip(), tone) for text in body), Line("")]


def counter_lines(hosts: Mapping[str, Mapping[str, int]]) -> list[Line]:
    """`spark0 : ok=7 changed=0 ...` for each host, as everybody who reads Ansible output looks for it."""
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


def message_lines(result: Mapping[str, Any], verbose: bool = False) -> list[str]:
    """What a failed result may say to people: its message, never its arguments, nothing when censored.

    The output of a command (which the module has no words for) is added only when asked for with -v.
    """
    if "censored" in result or result.get("_ansible_no_log"):
        return [HIDDEN_MESSAGE]
    items = failed_items(result)
    lines = items or text_lines(result.get("msg"))
    rc = result.get("rc")
    if isinstance(rc, int) and rc != 0 and len(lines) <= 1 and "non-zero return code" in "".join(lines):
        hint = "" if verbose else "; run again with -v to see its output"
        lines = [f"The command ended with code {rc}{hint}."]
    if verbose:
        for stream in ("stderr", "stdout"):
            lines += [f"{stream}: {text}" for text in text_lines(result.get(stream))[-40:]]
    return lines or ["The module gave no message; run again with -vvv to see what it did."]


def failed_items(result: Mapping[str, Any]) -> list[str]:
    """For a loop: one paragraph for each item that failed, with its label."""
    results = result.get("results")
    if not isinstance(results, list):
        return []
    lines: list[str] = []
    for number, item in enumerate(results, start=1):
        if not isinstance(item, Mapping) or not (item.get("failed") or item.get("unreachable")):
            continue
        first, *rest = message_lines(item)
        lines += [f"{item_label(item, number)}: {first}", *(f"  {text}" for text in rest)]
    return lines


def item_label(item: Mapping[str, Any], number: int) -> str:
    """The item's name; a structure may hold anything, secrets too, and is only counted."""
    if "censored" in item or item.get("_ansible_no_log"):
        return f"item {number}"
    label = item.get("_ansible_item_label", item.get(str(item.get("ansible_loop_var", "item"))))
    if isinstance(label, str | int | float) and str(label).strip():
        return fit(clean_name(str(label)), 80)
    return f"item {number}"


def changed_items(result: Mapping[str, Any]) -> str:
    """For a loop: how many of its items changed something."""
    results = result.get("results")
    if not isinstance(results, list) or not results:
        return ""
    changed = sum(1 for item in results if isinstance(item, Mapping) and item.get("changed"))
    return f"{changed} of {len(results)} items"


def text_lines(value: Any) -> list[str]:
    """A message of any shape as clean lines: no escape codes, no control characters, no empty ends."""
    if value is None or value == "":
        return []
    if isinstance(value, list | tuple):
        return [line for entry in value for line in text_lines(entry)]
    if not isinstance(value, str):
        value = json.dumps(value, indent=2, sort_keys=True, default=str, ensure_ascii=False)
    return [line.rstrip() for line in clean(value).strip("\n").split("\n")]


def unreachable_reason(message: Sequence[str]) -> tuple[str, ...]:
    """What ssh said, without the layers Ansible wraps around it."""
    lines = [_REASON_PREFIX.sub("", line).strip() for line in message]
    return tuple(f"Reason: {line}" if number == 0 else line for number, line in enumerate(filter(None, lines)))


def unreachable_check(reason: Sequence[str]) -> str:
    """What to look at first, by what ssh said: a host that refuses us is neither off nor unplugged."""
    text = " ".join(reason).lower()
    if "permission denied" in text or "too many authentication failures" in text:
        return "check that this user and key may log in there"
    if "host key verification failed" in text or "host identification has changed" in text:
        return "compare the host's key with known_hosts (a reinstalled host has a new one)"
    if "could not resolve" in text or "name or service not known" in text:
        return "check its address (ansible_host) in the inventory"
    return "check its power and cable"


def ssh_command(host: str, variables: Mapping[str, Any]) -> str:
    """The command that tries by hand what Ansible tried: same address, user, key, port and configuration."""
    argv = ["ssh"]
    for option, value in pairwise(shlex.split(str(variables.get("ansible_ssh_common_args") or ""))):
        if option == "-F":
            argv += ["-F", value]
    key = variables.get("ansible_ssh_private_key_file") or variables.get("ansible_private_key_file")
    if key:
        argv += ["-i", str(key)]
    port = variables.get("ansible_port")
    if port and str(port) != "22":
        argv += ["-p", str(port)]
    user = variables.get("ansible_user")
    address = str(variables.get("ansible_host") or host)
    argv.append(f"{user}@{address}" if user else address)
    return shlex.join(argv)


def join_hosts(hosts: Iterable[str], limit: int) -> str:
    """`spark0, spark1 and 6 more`."""
    names = list(hosts)
    if len(names) <= limit:
        return ", ".join(names)
    return f"{', '.join(names[:limit])} and {len(names) - limit} more"


def duration(seconds: float) -> str:
    """`12.3 s`, `3 min 05 s`, `1 h 02 min`."""
    if seconds < 59.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def clock_time(seconds: float) -> str:
    """`00:42`, `1:02:03`."""
    whole = max(int(seconds), 0)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes:02d}:{whole % 60:02d}"


def clean(text: str) -> str:
    """Text that cannot move the cursor or colour the terminal; line ends and tabs stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))).expandtabs(4)


def clean_name(text: str) -> str:
    """A name on one line."""
    return " ".join(clean(text).split())


def fit(text: str, width: int) -> str:
    """Cut to so many columns; wide characters count twice, combining ones not at all."""
    if sum(map(_columns, text)) <= width:
        return text
    room = width - 3
    kept = []
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "..."[: max(width, 0)]


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
