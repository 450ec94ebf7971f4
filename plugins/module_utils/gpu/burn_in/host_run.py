# SPDX-License-Identifier: Apache-2.0
"""The burn-in on a target: whether it is due, whether the GPUs are free, the run itself and its record."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.durable import remove_durable, write_durable
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    RAY_UNIT,
    SERVER_UNIT,
    SERVER_UNITS,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.program import program
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.runs import (
    SOURCE,
    check_lines,
    container_arguments,
    evaluate_document,
    read_document,
    recorded,
    valid_for,
    without_uuids,
    workload_arguments,
    wrong_lines,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.check import Check, make_check
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.burn_in import RAN
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.dcgm import COMMAND as DIAGNOSTIC
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected
from ansible_collections.firstlight.cluster.plugins.module_utils.host import RC_NOT_FOUND, RC_TIMEOUT, Host, Result
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.dcgm_diag import parse_dcgm_diag
from ansible_collections.firstlight.cluster.plugins.module_utils.text import said_lines
from ansible_collections.firstlight.cluster.plugins.module_utils.units import unit_state
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import COULD_NOT_CHECK

QUERY = ["nvidia-smi", "--query-gpu=uuid,driver_version", "--format=csv,noheader"]
PROCESSES = ["nvidia-smi", "--query-compute-apps=pid,process_name", "--format=csv,noheader"]
RUNNING = ("active", "activating", "reloading", "deactivating")
SMI_TIMEOUT = 60.0
SYSTEMD_TIMEOUT = 15.0
CLEAN_UP_TIMEOUT = 30.0
DIAGNOSTIC_TIMEOUT = 180.0
"""Seconds for level 1, which takes only a few; a service that has just been started takes longer."""


@dataclass(frozen=True)
class Request:
    """The parameters of a burn-in and its evaluation."""

    expected: Expected
    image: str = ""
    python: str = ""
    engine: str = ""
    """What the result is valid for: an image by its digest, an environment by its lock."""
    device: str = "cuda"
    seconds: float = 5.0
    timeout: float = 300.0
    record: str = ""
    force: bool = False
    accept: tuple[str, ...] = ()


@dataclass
class Outcome:
    """The result of a burn-in, or why it did not run."""

    ran: bool = False
    due: bool = False
    refused: str = ""
    measured: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def accept(host: Host, request: Request, *, look_only: bool = False) -> Outcome:
    """Run the burn-in unless a valid record passes, or only look whether it is due.

    Raises OSError if the record cannot be written.
    """
    uuids, driver, silent = _gpus(host, request.device)
    valid = valid_for(driver, uuids, request.engine or request.image or request.python, request.device)
    record = None if request.force or silent else recorded(host.read_text(request.record), valid)
    if record is not None:
        outcome = _evaluated(Outcome(measured=record["measured"]), request)
        if not outcome.wrong:
            return outcome
    outcome = Outcome(due=True)
    serving = _serving(host)
    outcome.refused = serving or _unknown(host) or silent or _taken(host, request.device)
    if look_only or outcome.refused:
        outcome.checks = [_not_run(outcome.refused)] if outcome.refused else []
        # A cluster that serves is not stopped for a burn-in unless the operator asks for it.
        outcome.wrong = [] if serving and not request.force else wrong_lines(outcome.checks, request.accept)
        return outcome
    document, problems = _run(host, request)
    if document and request.device == "cuda":
        document["dcgm"] = _diagnostic(host)
    outcome = _evaluated(Outcome(ran=bool(document), due=True, measured=without_uuids(document)), request, problems)
    if not document:
        # What passed before is no longer known to hold.
        remove_durable(request.record)
        return outcome
    kept = {
        "valid_for": valid,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "measured": outcome.measured,
        "checks": outcome.checks,
    }
    os.makedirs(os.path.dirname(request.record) or ".", mode=0o755, exist_ok=True)
    write_durable(request.record, json.dumps(kept, indent=1) + "\n", 0o644)
    return outcome


def _gpus(host: Host, device: str) -> tuple[list[str], str | None, str]:
    """Return the GPUs' UUIDs and driver version, and why they are unknown."""
    if device != "cuda":
        return [], None, ""
    result = host.run(QUERY, SMI_TIMEOUT)
    rows = [[cell.strip() for cell in line.split(",")] for line in result.stdout.splitlines() if line.strip()]
    if not result.ok or not rows or any(len(row) != 2 or not row[0].startswith("GPU-") for row in rows):
        return (
            [],
            None,
            f"nvidia-smi does not list the GPUs ({result.summary if not result.ok else result.stdout[:200]})",
        )
    return [row[0] for row in rows], rows[0][1], ""


def _serving(host: Host) -> str:
    """Name a unit of ours that is up: it would be slowed down, and would distort the measurement."""
    for unit in (*SERVER_UNITS, RAY_UNIT):
        state = unit_state(host, unit).active
        if state in RUNNING:
            return f"{unit} is {state}"
    return ""


def _unknown(host: Host) -> str:
    """Why it is unknown whether the cluster serves here: if systemd does not answer, units merely seem absent."""
    result = host.run(["systemctl", "show", "--property=ActiveState", "--", SERVER_UNIT], SYSTEMD_TIMEOUT)
    # If the host does not run systemd, none of our units run either.
    without = result.rc == RC_NOT_FOUND or "not been booted with systemd" in result.stderr
    if without or (result.ok and "ActiveState=" in result.stdout):
        return ""
    return f"systemd does not report whether the cluster serves here ({result.summary})"


def _taken(host: Host, device: str) -> str:
    """Name other processes that compute on the GPUs."""
    if device != "cuda":
        return ""
    result = host.run(PROCESSES, SMI_TIMEOUT)
    if not result.ok:
        return f"nvidia-smi does not report the processes on the GPUs ({result.summary})"
    others = [line.strip() for line in result.stdout.splitlines() if line.strip()[:1].isdigit()]
    return f"another process computes on the GPUs: {'; '.join(others[:3])}" if others else ""


def _not_run(why: str) -> Check:
    remedy = "stop the processes on the GPUs, or get nvidia-smi to answer, then run the burn-in again"
    return make_check(RAN, COULD_NOT_CHECK, "free GPUs for a run", why, remedy, source=SOURCE)


def _run(host: Host, request: Request) -> tuple[dict[str, Any], tuple[str, ...]]:
    arguments = workload_arguments(request.device, request.seconds, request.timeout, request.expected.unified)
    # A unique name, so that the leftovers of a killed run never get in the way of the next.
    name = f"firstlight-burn-in-{os.getpid()}"
    if request.python:
        argv = [request.python, *arguments]
    else:
        argv = container_arguments(request.image, name, request.device, arguments)
    result = host.run(argv, request.timeout, stdin=program())
    left = ""
    if result.rc == RC_TIMEOUT and result.problem and not request.python:
        # The container outlives its killed client.
        removed = host.run(["docker", "rm", "--force", name], CLEAN_UP_TIMEOUT)
        left = "" if removed.ok else f"; the container {name} may still be there: {removed.summary}"
    # A program may have reported everything and still be unable to exit, as the driver holds one of its processes.
    document, problems = read_document(result.stdout or result.partial)
    if document and result.problem:
        document["problems"] = [*(document.get("problems") or ()), f"it did not exit: {result.problem}{left}"]
    if document:
        return document, problems
    return {}, (f"{_complaint(result)}{left}" if not result.ok else problems[0],)


def _diagnostic(host: Host) -> dict[str, Any]:
    """Run NVIDIA's diagnostic if it is installed; its own service runs it, on GPUs that are free again."""
    result = host.run(DIAGNOSTIC, DIAGNOSTIC_TIMEOUT)
    if result.rc == RC_NOT_FOUND:
        return {"absent": True}
    if result.problem:
        return {"data": {}, "problems": [result.problem]}
    data, problems = parse_dcgm_diag(result.stdout)
    if not data:
        problems = [result.summary if not result.ok else problems[0]]
    return {"data": {**data, "rc": result.rc} if data else {}, "problems": problems}


def _complaint(result: Result) -> str:
    """Why there is no result. For a Python traceback that is the last line, not the first."""
    lines = said_lines(result.stderr)
    if any(line.startswith("Traceback") for line in lines):
        return f"{result.argv[0]} returned {result.rc}: {lines[-1][:300]}"
    return result.summary


def _evaluated(outcome: Outcome, request: Request, problems: tuple[str, ...] = ()) -> Outcome:
    outcome.checks = evaluate_document(outcome.measured, problems, request.expected)
    outcome.wrong = wrong_lines(outcome.checks, request.accept)
    return outcome


def result_of(outcome: Outcome) -> Mapping[str, Any]:
    """The outcome as a module's result."""
    return {
        # In check mode, whether it would change.
        "changed": outcome.due and not outcome.refused,
        "ran": outcome.ran,
        "due": outcome.due,
        "refused": outcome.refused,
        "measured": outcome.measured,
        "checks": outcome.checks,
        "wrong": outcome.wrong,
        "lines": check_lines(outcome.checks),
    }
