# SPDX-License-Identifier: Apache-2.0
"""Queries a target's tools about its GPUs: all at once, each with its own time limit.

A GPU that hangs also hangs whatever queries it, sometimes for good. So every command is a process of its own that is
abandoned after a while, without delaying the answers of the others.
"""

from __future__ import annotations

import http.client
import os
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..driver.driver_probe import PROC_VERSION, SYS_VERSION
from ..engine_container import RAY_CONTAINER, RAY_UNIT, SERVER_UNITS
from ..host import RC_CANNOT_RUN, RC_NOT_FOUND, RC_TIMEOUT, Host, Result
from .bus_probe import driver_gpus, loaded_modules, pci_listing

FABRIC_MANAGER_UNIT = "nvidia-fabricmanager.service"
FABRIC_MANAGER_LOG = "var/log/fabricmanager.log"
UNIT_PROPERTIES = "Id,LoadState,ActiveState,SubState,UnitFileState,Result,MainPID,ExecMainStatus"

QUERY_FIELDS = (
    "index",
    "name",
    "uuid",
    "pci.bus_id",
    "driver_version",
    "vbios_version",
    "inforom.img",
    "compute_cap",
    "memory.total",
    "memory.used",
    "persistence_mode",
    "compute_mode",
    "mig.mode.current",
    "mig.mode.pending",
    "ecc.mode.current",
    "ecc.mode.pending",
    "ecc.errors.uncorrected.volatile.total",
    "ecc.errors.uncorrected.aggregate.total",
    "power.draw",
    "power.limit",
    "power.default_limit",
    "temperature.gpu",
    "clocks_event_reasons.active",
    "pcie.link.gen.current",
    "pcie.link.gen.max",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "fabric.state",
    "fabric.status",
    "gpu_recovery_action",
)
"""Fields queried with `nvidia-smi --query-gpu`; those that a driver does not know are dropped from the query."""

_NOT_A_FIELD = re.compile(r'[Ff]ield "?([\w.]+)"? is not a valid field')
_MOST = 4 * 1024 * 1024
"""The most characters kept of one answer. Logs, which may be endless, keep their end, other texts their start."""
_GRACE = 2.0
"""Seconds beyond its time limit after which a command is abandoned."""


@dataclass(frozen=True)
class Answer:
    """The output of one command, or the contents of one file."""

    name: str
    """The name of its question; several questions may share a kind."""
    kind: str
    """The kind that the text is parsed as."""
    command: str
    rc: int
    seconds: float
    text: str
    problem: str = ""
    """Why there is no answer; empty if there is one, even one that is a complaint."""

    @property
    def silent(self) -> bool:
        """Whether it timed out."""
        return self.rc == RC_TIMEOUT and bool(self.problem)

    @property
    def absent(self) -> bool:
        """Whether the tool is not installed, which for most tools says nothing about the hardware."""
        return self.rc == RC_NOT_FOUND and bool(self.problem)

    @property
    def of_driver(self) -> bool:
        """Whether it came from nvidia-smi, which is part of the driver and waits for the GPUs."""
        return self.command.partition(" ")[0] == "nvidia-smi"


Asked = tuple[str, int, str, str]
"""The command line, its return code, its output, and why there is none."""


@dataclass(frozen=True)
class Target:
    """The host to query, the seconds a command may take, and the root of its files."""

    host: Host
    timeout: float
    root: str = "/"

    def run(self, argv: Sequence[str], timeout: float | None = None) -> Asked:
        """Run a command and return its answer."""
        return _told(self.host.run(argv, self.timeout if timeout is None else timeout))


Ask = Callable[[Target], Asked]


@dataclass(frozen=True)
class Question:
    """One command or file: the name of its answer, the kind of text, and how to obtain it."""

    name: str
    kind: str
    ask: Ask


def _command(*argv: str) -> Ask:
    return lambda target: target.run(argv)


def _told(result: Result) -> Asked:
    command = " ".join(result.argv)
    if result.rc == RC_NOT_FOUND and result.problem:
        # As a shell prints it, and so as captures contain it.
        return command, result.rc, f"{result.argv[0]}: command not found\n", result.problem
    complaint = result.stderr if not result.ok or not result.stdout.strip() else ""
    return command, result.rc, result.stdout + complaint, result.problem


def _query(target: Target) -> Asked:
    """Query the GPUs without the fields this driver does not know: one unknown field fails the whole query."""
    deadline = time.monotonic() + target.timeout
    fields = list(QUERY_FIELDS)
    while True:
        left = max(0.1, deadline - time.monotonic())
        told = target.run(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv"], left)
        unknown = _NOT_A_FIELD.search(told[2]) if told[1] else None
        if unknown is None or unknown[1] not in fields:
            return told
        fields.remove(unknown[1])


def _file(path: str) -> Ask:
    def ask(target: Target) -> Asked:
        text = target.host.read_text(os.path.join(target.root, path))
        if text is None:
            return f"cat /{path}", 1, "", f"/{path} does not exist or cannot be read"
        return f"cat /{path}", 0, text, ""

    return ask


def _page(url: str) -> Ask:
    """Fetch a page of this host, bypassing every proxy and without curl, which not every host has."""

    def ask(target: Target) -> Asked:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(url, timeout=target.timeout) as page:
                return f"curl {url}", 0, page.read(_MOST).decode("utf-8", errors="replace"), ""
        except (OSError, http.client.HTTPException) as error:
            return f"curl {url}", 1, "", f"{url} does not answer: {error}"

    return ask


def _kernel_log(target: Target) -> Asked:
    """Return this boot's kernel messages: from the journal, which loses none, else from the kernel's own buffer."""
    deadline = time.monotonic() + target.timeout
    journal = ["journalctl", "--dmesg", "--boot", "--no-pager", "--quiet", "--output=short-iso"]
    told = target.run(journal)
    if told[1] == 0 and told[2].strip():
        return told
    return target.run(["dmesg", "--time-format=iso"], max(0.1, deadline - time.monotonic()))


_VERSION = Question("proc-version", "proc-version", _file(PROC_VERSION))
HEALTH: tuple[Question, ...] = (
    Question("smi-list", "smi-list", _command("nvidia-smi", "-L")),
    Question("query-gpu", "query-gpu", _query),
    Question("smi-xml", "smi-xml", _command("nvidia-smi", "-q", "-x")),
    Question("smi-version", "smi-version", _command("nvidia-smi", "--version")),
    Question("topo", "topo", _command("nvidia-smi", "topo", "-m")),
    Question("nvlink", "nvlink", _command("nvidia-smi", "nvlink", "-s")),
    Question("nvlink-errors", "nvlink", _command("nvidia-smi", "nvlink", "-e")),
    _VERSION,
    Question("sys-version", "proc-version", _file(SYS_VERSION)),
    Question(
        "fabricmanager",
        "fabricmanager",
        _command("systemctl", "show", f"--property={UNIT_PROPERTIES}", "--", FABRIC_MANAGER_UNIT),
    ),
    Question("fabricmanager-version", "fabricmanager", _command("nv-fabricmanager", "--version")),
    Question("kernel-log", "kernel-log", _kernel_log),
    Question("lspci", "lspci", lambda target: pci_listing(target.root)),
    Question("proc-gpus", "proc-version", lambda target: driver_gpus(target.root)),
    Question("modules", "modules", lambda target: loaded_modules(target.root)),
)
"""The questions that a host's GPUs are evaluated by."""

FURTHER: tuple[Question, ...] = (
    Question("smi-table", "smi-table", _command("nvidia-smi")),
    Question("smi-q", "smi-q", _command("nvidia-smi", "-q")),
    Question(
        "fabricmanager-journal",
        "fabricmanager",
        _command("journalctl", f"--unit={FABRIC_MANAGER_UNIT}", "--boot", "--no-pager", "--quiet", "--lines=500"),
    ),
    Question("fabricmanager-log", "fabricmanager", _file(FABRIC_MANAGER_LOG)),
    Question("ibstat", "ibstat", _command("ibstat")),
    Question("ibdev2netdev", "ibdev2netdev", _command("ibdev2netdev")),
    Question("rdma-link", "rdma-link", _command("rdma", "link", "show")),
    Question("ray-status", "ray-status", _command("docker", "exec", RAY_CONTAINER, "ray", "status")),
)
"""Further questions that help to diagnose a host, asked only on request."""

SERVING = Question("serving", "units", _command("systemctl", "is-active", "--", RAY_UNIT, *SERVER_UNITS))
"""The question asked along with the others wherever GPUs are evaluated."""

KINDS: tuple[str, ...] = tuple(dict.fromkeys(one.kind for one in (*HEALTH, *FURTHER))) + ("ethtool", "vllm-metrics")


def questions(
    kinds: Iterable[str] | None = None, ports: Sequence[str] = (), metrics_port: int | None = None
) -> list[Question]:
    """Select the questions of these kinds, by default HEALTH. Raises ValueError for an unknown kind."""
    if kinds is None:
        return list(HEALTH)
    wanted = set(kinds)
    strange = sorted(wanted - set(KINDS))
    if strange:
        raise ValueError(
            f"kinds has {', '.join(strange)}, expected some of {', '.join(KINDS)}: correct the spelling or leave it out"
        )
    chosen = [one for one in (*HEALTH, *FURTHER) if one.kind in wanted]
    if "ethtool" in wanted:
        chosen += [Question(f"ethtool-{port}", "ethtool", _command("ethtool", port)) for port in ports]
    if "vllm-metrics" in wanted and metrics_port:
        page = _page(f"http://127.0.0.1:{metrics_port}/metrics")
        chosen.append(Question("vllm-metrics", "vllm-metrics", page))
    return chosen


def ask_all(host: Host, asked: Sequence[Question], timeout: float, root: str = "/") -> list[Answer]:
    """Return the answers in the order of the questions. No call takes much longer than `timeout` seconds."""
    answers: dict[str, Answer] = {}
    began = time.monotonic()

    def work(question: Question) -> None:
        try:
            command, rc, text, problem = question.ask(Target(host, timeout, root))
        except Exception as error:  # noqa: BLE001 - whatever it trips over, the other questions are answered
            command, rc, text, problem = question.name, RC_CANNOT_RUN, "", f"{type(error).__name__}: {error}"
        kept = text[-_MOST:] if question.kind in ("kernel-log", "fabricmanager") else text[:_MOST]
        seconds = round(time.monotonic() - began, 3)
        answers[question.name] = Answer(question.name, question.kind, command, rc, seconds, kept, problem)

    # Daemon threads: one that waits for a process that cannot be killed must not keep the module from exiting.
    threads = [threading.Thread(target=work, args=(one,), name=f"ask-{one.name}", daemon=True) for one in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, began + timeout + _GRACE - time.monotonic()))
    return [answers.get(one.name) or _overdue(one, timeout) for one in asked]


def _overdue(question: Question, timeout: float) -> Answer:
    return Answer(
        question.name, question.kind, question.name, RC_TIMEOUT, timeout, "", f"no answer within {timeout:g} s"
    )


def is_serving(answers: Iterable[Answer]) -> bool:
    """Whether a service of Firstlight runs here, which is then entitled to hold the GPUs."""
    told = " ".join(one.text for one in answers if one.name == SERVING.name).split()
    return any(word in ("active", "activating", "reloading") for word in told)


def raw(answers: Iterable[Answer]) -> dict[str, dict[str, Any]]:
    """The answers as plain values, by name."""
    return {
        one.name: {
            "kind": one.kind,
            "command": one.command,
            "rc": one.rc,
            "seconds": one.seconds,
            "text": one.text,
            "problem": one.problem,
        }
        for one in answers
    }
