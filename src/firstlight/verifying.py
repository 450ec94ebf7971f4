# SPDX-License-Identifier: Apache-2.0
"""Query all hosts of a cluster in parallel, each over one connection, and compare them on the controller."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import secrets
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import Record, lines, wrong
from ansible_collections.firstlight.cluster.plugins.plugin_utils.verification import (
    connectivity_arguments,
    evaluated_fabric,
    fabric_of,
    has_fabric,
    host_records,
    suspects,
    topology_lines,
)

from .connection import Connection
from .remote_program import archive

AT_ONCE = 64
OBSERVE, HISTORY = "observe.observation.observe_host", "observe.change_log.read_changes"
CONNECTIVITY, COMPLETE = "fabric.connectivity.run.run_tests", "serving.completion_gate.complete"
COMPLETION_SECONDS = 30
"""Timeout of a completion; a slower server is left to site.yml, which waits for it."""

Plans = Mapping[str, Mapping[str, Any]]
Answers = dict[str, dict[str, Any]]


@dataclass
class Verified:
    """The findings of the queried hosts, in their order."""

    results: dict[str, dict[str, Any]]
    """In the format that module observe returns."""
    records: dict[str, list[Record]]
    fabric: dict[str, Any] = field(default_factory=dict)
    """In the format of filter fabric_matrix; empty without a fabric."""

    @property
    def all_records(self) -> list[Record]:
        return [record for found in self.records.values() for record in found]

    @property
    def is_right(self) -> bool:
        return not wrong(self.all_records)

    def lines(self) -> Iterator[tuple[str, list[str]]]:
        """Yield what verify.yml prints for each host, in the same order."""
        if self.fabric:
            yield next(iter(self.records)), [*self.fabric["lines"], *self.fabric["diagnoses"]]
        for host, result in self.results.items():
            table = topology_lines(result)
            if table:
                yield host, table
        for host, found in self.records.items():
            yield host, lines(found)


def verify(
    plans: Plans, head: str, connections: Sequence[Connection], *, roles: Collection[str] = (), paths: bool = True
) -> Verified:
    """Observe every host and, with `paths`, test those between them; hosts that differ are asked for their change log.

    With `roles`, only the desired state of these is compared.
    """
    # Convert to plain JSON values, which is what a playbook's tasks pass on.
    plans = {one.host: json.loads(json.dumps(plans[one.host])) for one in connections}
    run = str(secrets.randbelow(10**12))
    for function in (OBSERVE, CONNECTIVITY):
        archive(function.rpartition(".")[0])  # build it before the first fork, once for all hosts
    tested = {host: paths and has_fabric(plan) for host, plan in plans.items()}
    answers = at_once(connections, lambda one: _look(one, plans[one.host], run if tested[one.host] else None))
    results = {host: _result(answer, "observation") for host, answer in answers.items()}
    peers = {head: results.get(head, {}).get("observation") or {}}
    records = {host: host_records(plans[host], host, results[host], peers, roles=roles) for host in plans}
    bad = [host for host in plans if wrong(records[host])]
    asked = {host: suspects(plans[host], results[host], records[host], roles) for host in bad}
    doubtful = [one for one in connections if asked.get(one.host)]
    for host, answer in at_once(doubtful, lambda one: one.ask(HISTORY, _history(asked[one.host]))).items():
        if "answer" in answer:
            records[host] = host_records(plans[host], host, results[host], peers, answer["answer"], roles)
    fabric: dict[str, Any] = {}
    if any(tested.values()):
        fabrics = {host: fabric_of(plan, results[host].get("observation")) for host, plan in plans.items()}
        reports = {host: answer.get("report") for host, answer in answers.items() if "observation" in results[host]}
        fabric = evaluated_fabric(fabrics, reports)
        for host in reports:
            records[host] += fabric["records"].get(host) or []
    return Verified(results, records, fabric)


def _look(connection: Connection, plan: Mapping[str, Any], run: str | None) -> dict[str, Any]:
    """Observe one host and, with `run`, test its fabric paths once its ports are known."""
    found = connection.ask(OBSERVE, {"desired_by_role": plan["observe"]})
    if "answer" in found and run is not None:
        arguments = connectivity_arguments(connection.host, fabric_of(plan, found["answer"]), run)
        found["report"] = _result(connection.ask(CONNECTIVITY, {"params": arguments}), "report") if arguments else None
    return found


def complete(connection: Connection, questions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the `answer` of the server on this host, for several questions the last one; otherwise the `problem`."""

    def ask(asked: Connection) -> dict[str, Any]:
        found: dict[str, Any] = {"problem": "nothing is served"}
        for question in questions:
            found = asked.ask(COMPLETE, {"params": {**question, "timeout": COMPLETION_SECONDS}})
            if "answer" not in found:
                break
        return found

    return at_once([connection], ask)[connection.host]


def _history(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"packages": {}, "paths": [], "units": [], "sysctl": [], "fwupd": False, **asked, "timeout": 10}


def _result(answer: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Convert an answer to a module's result."""
    return {name: answer["answer"]} if "answer" in answer else {"msg": str(answer.get("problem") or "")}


def at_once(connections: Sequence[Connection], work: Callable[[Connection], dict[str, Any]]) -> Answers:
    """Return the answer of every host, in order. Each has its own process, which is killed at the host's timeout."""
    waiting = list(reversed(connections))
    running: dict[Any, _Task] = {}
    found: Answers = {}
    try:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                task = _Task(waiting.pop(), work)
                running[task.pipe] = task
            soonest = min(task.deadline for task in running.values())
            ready: Collection[Any] = wait(list(running), max(0.0, soonest - time.monotonic()))
            over = [pipe for pipe, task in running.items() if pipe in ready or task.deadline <= time.monotonic()]
            for pipe in over:
                task = running.pop(pipe)
                found[task.connection.host] = task.answer(in_time=pipe in ready)
    finally:
        for task in running.values():
            task.end()
    return {one.host: found[one.host] for one in connections}


class _Task:
    """A process that queries one host: Ansible's connections block, and a host may never answer."""

    def __init__(self, connection: Connection, work: Callable[[Connection], dict[str, Any]]) -> None:
        self.connection = connection
        self.deadline = time.monotonic() + connection.seconds
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe(duplex=False)
        self._process = context.Process(target=_ask, args=(connection, work, other), daemon=True)
        self._process.start()
        other.close()

    def answer(self, *, in_time: bool) -> dict[str, Any]:
        try:
            if not in_time:
                return {"problem": f"Timed out after {self.connection.seconds} second(s)."}
            answer: dict[str, Any] = json.loads(self.pipe.recv_bytes())
            return answer
        except (EOFError, OSError):
            return {"problem": "the process that queried it ended without an answer"}
        finally:
            self.end()

    def end(self) -> None:
        """Kill the process, and the ssh it waits for."""
        self.pipe.close()
        if self._process.is_alive():
            self._process.join(0.05)
        if self._process.is_alive() and self._process.pid:
            with contextlib.suppress(ProcessLookupError):  # it has not called setsid yet
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
        self._process.join()


def _ask(connection: Connection, work: Callable[[Connection], dict[str, Any]], pipe: Pipe) -> None:
    os.setsid()  # as in Ansible's workers: keeps ssh from prompting on the terminal
    pipe.send_bytes(json.dumps(work(connection)).encode())
