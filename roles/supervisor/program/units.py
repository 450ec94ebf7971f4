# SPDX-License-Identifier: Apache-2.0
"""A group's units and containers on one node: looked at, started and stopped. Functions that block, for threads."""

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
"""How long before its end a line that sounds like a reason, or any line, has something to do with the end."""
REASONS = ("Error", "error:", "ERROR", "No space left")

ON_ITS_WAY = ("activating", "reloading", "refreshing")
GOING = ("deactivating",)

KILLED = ("2", "3")
"""ExecMainCode of a process that a signal ended (CLD_KILLED, CLD_DUMPED)."""


class NotToldError(Exception):
    """systemd or Docker do not say what is there: nobody may conclude that there is nothing."""


@dataclass(frozen=True)
class Seen:
    """A unit as systemd tells it."""

    report: UnitReport
    changed: str
    """When it became what it is: another value is another state."""
    invocation: str = ""
    """Its last start, as the journal knows it; another value is another start."""
    ended: int = 0
    """When what it ran ended, in microseconds since the boot; 0 where that is not known."""


def look(host: Host, units: Sequence[str]) -> dict[str, Seen]:
    """All units in one question. Raises NotToldError."""
    if not units:
        return {}
    result = host.run(["systemctl", "show", f"--property={PROPERTIES}", "--", *units], SHOW_SECONDS)
    blocks = [parse_properties(chunk) for chunk in result.stdout.split("\n\n")]
    known = {name: block for block in blocks for name in (block.get("Id", ""), *block.get("Names", "").split())}
    if not result.ok or any(unit not in known for unit in units):
        raise NotToldError(
            f"systemd does not tell the state of {', '.join(units)} ({result.summary}), expected an answer within "
            f"{SHOW_SECONDS:g} s: see systemctl status, and journalctl -b -u init.scope"
        )
    return {unit: _seen(known[unit]) for unit in units}


def _seen(block: dict[str, str]) -> Seen:
    active = block.get("ActiveState", "")
    # A start that systemd has taken but not begun, as it waits for Docker, is on its way too.
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
    """The end of its main process; for a start that did not come to one, of the unit."""
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
    """What the unit's own processes said shortly before the end that sounds like a reason, else what they said last.

    What somebody said long before was killed has said nothing about it: then there is no line.
    """
    matches = [f"_SYSTEMD_UNIT={unit}", *([f"_SYSTEMD_INVOCATION_ID={invocation}"] if invocation else [])]
    argv = ["journalctl", *matches, f"--lines={LINES}", "--output=json", "--output-fields=MESSAGE", "--no-pager"]
    # What clearing up says of a container that is gone already is no reason for anything.
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
    """What the unit's processes have said behind `cursor`, or just now without one, and the cursor to go on from.

    Without secrets. None where the journal does not tell.
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
    """The id of a container that runs; empty where there is none, or Docker does not tell."""
    result = host.run(["docker", "inspect", "--type=container", "--format={{.Id}}", name], DOCKER_SECONDS)
    found = result.stdout.strip()
    return found if result.ok and is_hexadecimal(found, 64) else ""


def _journal(text: str) -> list[tuple[int, str]]:
    """The entries of a journal in JSON, one a line: microseconds since the boot, and what was said."""
    return [entry for line in said_lines(text) if (entry := _entry(line))]


def _entry(line: str) -> tuple[int, str] | None:
    try:
        entry = json.loads(line)
        said = entry["MESSAGE"]
        # What is not UTF-8 comes as a list of bytes, and what is too long not at all.
        message = said if isinstance(said, str) else bytes(said or b"").decode("utf-8", errors="replace")
        return int(entry["__MONOTONIC_TIMESTAMP"]), message
    except (KeyError, TypeError, ValueError):
        return None


def containers_left(host: Host, names: Sequence[str]) -> list[str]:
    """Which of these containers exist, running or not. Raises NotToldError."""
    if not names:
        return []
    result = host.run(["docker", "ps", "--all", "--format={{.Names}}"], DOCKER_SECONDS)
    if not result.ok:
        raise NotToldError(
            f"Docker does not tell its containers ({result.summary}), expected an answer within {DOCKER_SECONDS:g} s: "
            "see journalctl -u docker.service, then systemctl restart docker.service"
        )
    there = {name for line in result.stdout.split() for name in line.split(",")}
    return [name for name in names if name in there]


def start(host: Host, unit: str) -> str:
    """Ask systemd to start a unit, without waiting for it; what went wrong, or nothing."""
    # A unit that failed often in a short time would be refused: how often it is tried is the supervisor's own business.
    host.run(["systemctl", "reset-failed", "--", unit], START_SECONDS)
    result = host.run(["systemctl", "start", "--no-block", "--", unit], START_SECONDS)
    return "" if result.ok else f"{unit} cannot be started ({result.summary}): see journalctl -u {unit}"


def stop(host: Host, unit: str) -> str:
    """Ask systemd to stop a unit, without waiting for it; what went wrong, or nothing."""
    result = host.run(["systemctl", "stop", "--no-block", "--", unit], START_SECONDS)
    return "" if result.ok else f"{unit} cannot be stopped ({result.summary}): see systemctl status {unit}"


def kill(host: Host, unit: str) -> str:
    """End the processes of a unit that does not stop; what went wrong, or nothing."""
    result = host.run(["systemctl", "kill", "--signal=SIGKILL", "--", unit], START_SECONDS)
    return "" if result.ok else f"{unit} cannot be killed ({result.summary}): see systemctl status {unit}"


def remove(host: Host, container: str) -> str:
    """Take away a container, by its name, running or not; what went wrong, or nothing."""
    result = host.run(["docker", "rm", "--force", "--volumes", container], REMOVE_SECONDS)
    if result.ok or "no such container" in result.stderr.lower() or "already in progress" in result.stderr:
        return ""
    return (
        f"the container {container} cannot be removed ({result.summary}), expected it to be gone: "
        f"docker rm --force {container}, and restart Docker or the node where that hangs"
    )
