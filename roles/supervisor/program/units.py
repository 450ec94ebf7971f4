# SPDX-License-Identifier: Apache-2.0
"""Inspect, start and stop a group's units and containers on one node. The functions block, so run them in threads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.systemd import parse_properties
from ansible_collections.firstlight.cluster.plugins.module_utils.redact_secrets import without_secrets
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import UnitReport
from ansible_collections.firstlight.cluster.plugins.module_utils.systemd import redact
from ansible_collections.firstlight.cluster.plugins.module_utils.text import is_hexadecimal, said_lines

PROPERTIES = (
    "Id,Names,LoadState,ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,ExecMainExitTimestampMonotonic,"
    "InactiveExitTimestampMonotonic,StateChangeTimestampMonotonic,Job,InvocationID"
)
SHOW_SECONDS = 15.0
DOCKER_SECONDS = 15.0
JOURNAL_SECONDS = 10.0
START_SECONDS = 30.0
REMOVE_SECONDS = 60.0
LINES = 40
LONGEST_LINE = 400
REASON_SECONDS, WORD_SECONDS = 60.0, 10.0
"""How long before the end of a unit a line that looks like a reason, or any line, counts as related to it."""
REASONS = ("Error", "error:", "ERROR", "No space left")

ON_ITS_WAY = ("activating", "reloading", "refreshing")
GOING = ("deactivating",)

KILLED = ("2", "3")
"""ExecMainCode of a process that a signal ended (CLD_KILLED, CLD_DUMPED)."""


class NotToldError(Exception):
    """systemd or Docker did not answer, which does not mean that nothing is there."""


@dataclass(frozen=True)
class Seen:
    """The state of a unit as systemd reports it."""

    report: UnitReport
    changed: str
    """When the unit entered its state; another value is another state."""
    invocation: str = ""
    """The invocation ID of its last start in the journal; another value is another start."""
    ended: int = 0
    """When its process ended, in microseconds since boot; 0 if unknown."""


def look(host: Host, units: Sequence[str]) -> dict[str, Seen]:
    """Query all units at once. Raises NotToldError."""
    if not units:
        return {}
    result = host.run(["systemctl", "show", f"--property={PROPERTIES}", "--", *units], SHOW_SECONDS)
    blocks = [parse_properties(chunk) for chunk in result.stdout.split("\n\n")]
    known = {name: block for block in blocks for name in (block.get("Id", ""), *block.get("Names", "").split())}
    if not result.ok or any(unit not in known for unit in units):
        raise NotToldError(
            f"systemd did not report the state of {', '.join(units)} ({result.summary}), expected an answer within "
            f"{SHOW_SECONDS:g} s: see systemctl status, and journalctl -b -u init.scope"
        )
    return {unit: _seen(known[unit]) for unit in units}


def _seen(block: dict[str, str]) -> Seen:
    active = block.get("ActiveState", "")
    # A start that is queued in systemd, such as one that waits for Docker, counts as starting too.
    queued = active in ("inactive", "failed") and block.get("Job", "0") not in ("", "0")
    report = UnitReport(
        active=queued or active in ("active", *ON_ITS_WAY),
        running=active == "active",
        failed=active == "failed" and not queued,
        stopping=active in GOING,
        words="waiting for its start" if queued else _words(block),
    )
    changed = block.get("StateChangeTimestampMonotonic", "")
    return Seen(report, changed, block.get("InvocationID", ""), _ended(block))


def _ended(block: dict[str, str]) -> int:
    """Return when the main process ended or, for a start that never had one, the unit."""
    began, process, unit = (
        int(moment) if (moment := block.get(f"{name}TimestampMonotonic", "")).isdecimal() else 0
        for name in ("InactiveExit", "ExecMainExit", "StateChange")
    )
    return process if process > began else unit


def _words(block: dict[str, str]) -> str:
    load, active, sub = block.get("LoadState", ""), block.get("ActiveState", ""), block.get("SubState", "")
    if load not in ("loaded", ""):
        return load
    if active == "active":
        return sub or active
    if active not in ("failed", "inactive"):
        return f"{active} ({sub})"
    code, status, result = block.get("ExecMainCode", "0"), block.get("ExecMainStatus", "0"), block.get("Result", "")
    if result in ("oom-kill", "timeout", "watchdog", "start-limit-hit", "exec-condition"):
        return f"{active} ({result})"
    if code in KILLED:
        return f"{active} (signal {status})"
    if code != "0":
        return f"{active} (exit status {status})"
    return f"{active} ({result})" if result not in ("success", "") else active


def last_line(host: Host, unit: str, invocation: str, ended: int, secrets: Sequence[str]) -> str:
    """Return the last line before the unit's end that looks like a reason, or else the last line.

    A line from long before the end is unrelated to it: then nothing is returned.
    """
    matches = [f"_SYSTEMD_UNIT={unit}", *([f"_SYSTEMD_INVOCATION_ID={invocation}"] if invocation else [])]
    argv = ["journalctl", *matches, f"--lines={LINES}", "--output=json", "--output-fields=MESSAGE", "--no-pager"]
    # The cleanup's complaint about a container that is already gone is no reason.
    cleared = ("No such container", unit.removesuffix(".service"))
    lines = [
        (at, line)
        for at, text in _journal(host.run([*argv, "--quiet"], JOURNAL_SECONDS).stdout)
        for line in said_lines(text)
        if cleared[0] not in line and line != cleared[1]
    ]
    reasons = [line for line in lines if any(word in line[1] for word in REASONS)]
    for candidates, seconds in ((reasons, REASON_SECONDS), (lines, WORD_SECONDS)):
        near = [line for at, line in candidates if not ended or at >= ended - seconds * 1e6]
        if near:
            return without_secrets(redact([near[-1]], secrets)[0])[:LONGEST_LINE]
    return ""


def new_lines(
    host: Host, unit: str, invocation: str, cursor: str, secrets: Sequence[str]
) -> tuple[list[str], str] | None:
    """Return the unit's log lines after `cursor`, or the latest ones without it, and the cursor to continue from.

    The lines are free of secrets. None if the journal cannot be read.
    """
    matches = [f"_SYSTEMD_UNIT={unit}", *([f"_SYSTEMD_INVOCATION_ID={invocation}"] if invocation else [])]
    argv = ["journalctl", *matches, f"--lines={LINES}", "--output=json", "--output-fields=MESSAGE", "--no-pager"]
    result = host.run([*argv, *([f"--after-cursor={cursor}"] if cursor else []), "--quiet"], JOURNAL_SECONDS)
    if not result.ok:
        return None
    found = said_lines(result.stdout)
    lines = [line for entry in map(_entry, found) if entry for line in said_lines(entry[1])]
    last = next((told for line in reversed(found) if (told := _cursor(line))), cursor)
    return [without_secrets(line)[:LONGEST_LINE] for line in redact(lines, secrets)], last


def _cursor(line: str) -> str:
    try:
        return str(json.loads(line)["__CURSOR"])
    except (KeyError, TypeError, ValueError):
        return ""


def container_id(host: Host, name: str) -> str:
    """Return the ID of a container; empty if there is none, or Docker does not answer."""
    result = host.run(["docker", "inspect", "--type=container", "--format={{.Id}}", name], DOCKER_SECONDS)
    found = result.stdout.strip()
    return found if result.ok and is_hexadecimal(found, 64) else ""


def _journal(text: str) -> list[tuple[int, str]]:
    """Parse a journal in JSON, one entry per line: microseconds since boot, and the message."""
    return [entry for line in said_lines(text) if (entry := _entry(line))]


def _entry(line: str) -> tuple[int, str] | None:
    try:
        entry = json.loads(line)
        said = entry["MESSAGE"]
        # Messages that are not UTF-8 are lists of bytes, and ones that are too long are null.
        message = said if isinstance(said, str) else bytes(said or b"").decode("utf-8", errors="replace")
        return int(entry["__MONOTONIC_TIMESTAMP"]), message
    except (KeyError, TypeError, ValueError):
        return None


def containers_left(host: Host, names: Sequence[str]) -> list[str]:
    """Return which of these containers exist, running or not. Raises NotToldError."""
    if not names:
        return []
    result = host.run(["docker", "ps", "--all", "--format={{.Names}}"], DOCKER_SECONDS)
    if not result.ok:
        raise NotToldError(
            f"Docker did not list its containers ({result.summary}), expected an answer within {DOCKER_SECONDS:g} s: "
            "see journalctl -u docker.service, then systemctl restart docker.service"
        )
    there = {name for line in result.stdout.split() for name in line.split(",")}
    return [name for name in names if name in there]


def start(host: Host, unit: str) -> str:
    """Ask systemd to start a unit, without waiting for it; return an error message, or an empty string."""
    # systemd would refuse a unit that failed often in a short time: the supervisor does the limiting itself.
    host.run(["systemctl", "reset-failed", "--", unit], START_SECONDS)
    result = host.run(["systemctl", "start", "--no-block", "--", unit], START_SECONDS)
    return "" if result.ok else f"{unit} cannot be started ({result.summary}): see journalctl -u {unit}"


def stop(host: Host, unit: str) -> str:
    """Ask systemd to stop a unit, without waiting for it; return an error message, or an empty string."""
    result = host.run(["systemctl", "stop", "--no-block", "--", unit], START_SECONDS)
    return "" if result.ok else f"{unit} cannot be stopped ({result.summary}): see systemctl status {unit}"


def kill(host: Host, unit: str) -> str:
    """Kill the processes of a unit that does not stop; return an error message, or an empty string."""
    result = host.run(["systemctl", "kill", "--signal=SIGKILL", "--", unit], START_SECONDS)
    return "" if result.ok else f"{unit} cannot be killed ({result.summary}): see systemctl status {unit}"


def remove(host: Host, container: str) -> str:
    """Remove a container by name, running or not; return an error message, or an empty string."""
    result = host.run(["docker", "rm", "--force", "--volumes", container], REMOVE_SECONDS)
    if result.ok or "no such container" in result.stderr.lower() or "already in progress" in result.stderr:
        return ""
    return (
        f"the container {container} cannot be removed ({result.summary}), expected it to be gone: "
        f"docker rm --force {container}, and restart Docker or the node where that hangs"
    )
