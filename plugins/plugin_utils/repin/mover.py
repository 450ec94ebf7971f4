# SPDX-License-Identifier: Apache-2.0
"""Drive one host from the state in its journal to a verdict: moved and verified, or rolled back.

The loop relies only on the journal and on observations. It survives a host that becomes unreachable during any step,
because it reads the host's state again, and the host's steps are idempotent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver import module_package
from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver import wanted_words as wanted_version
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu import health
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.moves import moves_something, target_packages
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.dpkg import upstream_version
from ansible_collections.firstlight.cluster.plugins.module_utils.repin import journal as book
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import (
    Difference,
    differences_by_role,
    explain,
)

from . import steps as stepping
from .steps import Next, Seen, next_step

LOST = "lost"
_DRIVER_ROLE = "driver of the set"
_SERVICES = "firstlight.cluster.services"
_MOST_STEPS = 60
_MOST_CUTS = 3
RESTART = {
    "docker.service": ["/etc/docker/daemon.json"],
    "nvidia-persistenced.service": ["/etc/systemd/system/nvidia-persistenced.service.d/firstlight.conf"],
}
"""Units that read files of a move only on start."""


class UnreachableError(Exception):
    """The host does not answer, or the connection broke during the step."""


class GoneError(UnreachableError):
    """The host did not come back after a reboot."""


class RefusedError(Exception):
    """The module refused the step; the message is its reason."""


class Hands(Protocol):
    """Access to a host and to the clock."""

    def module(self, action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run `repin`; raises UnreachableError or RefusedError."""

    def observe(self, desired: Mapping[str, Any]) -> dict[str, Any]:
        """Observe these states; raises UnreachableError or RefusedError."""

    def repair(self, module: str, arguments: Mapping[str, Any]) -> None:
        """Run a module that repairs one difference; raises UnreachableError or RefusedError."""

    def boot_id(self) -> str:
        """Return the host's current boot id over a new connection; raises UnreachableError."""

    def say(self, words: str) -> None:
        """Show a message to the operator."""

    def now(self) -> float:
        """Return the time of a monotonic clock."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


@dataclass(frozen=True)
class Request:
    """What is requested of a host, with the timeouts."""

    direction: str = book.FORWARD
    reason: str = ""
    verify: Mapping[str, Any] = field(default_factory=dict)
    verify_rollback: Mapping[str, Any] = field(default_factory=dict)
    restart: Mapping[str, Sequence[str]] = field(default_factory=lambda: RESTART)
    reboot_timeout: float = 900
    gate_timeout: float = 180
    unreachable_timeout: float = 120
    interval: float = 3


@dataclass
class Outcome:
    """The outcome of a host's move."""

    outcome: str
    problem: str = ""
    problems: list[str] = field(default_factory=list)
    journal: Mapping[str, Any] | None = None
    changed: bool = False

    def result(self) -> dict[str, Any]:
        """Return the outcome as a task result."""
        return {
            "outcome": self.outcome,
            "problem": self.problem,
            "problems": self.problems,
            "timeline": book.timeline(self.journal),
            "journal": self.journal,
            "unchanged_host": self.journal is None or not stepping.changed(self.journal),
            "changed": self.changed,
        }


class Mover:
    """One host's move, driven by one controller."""

    def __init__(self, hands: Hands, request: Request) -> None:
        self.hands = hands
        self.request = request
        self.changed = False
        self._journal: Mapping[str, Any] | None = None
        self._requested = ""
        self._booting = False
        self._gave_up = False
        self._looked: tuple[bool, list[str]] | None = None
        self._cuts = 0
        self._verified: list[str] = []
        self._told = ""
        self._stuck = ""

    def run(self) -> Outcome:
        """Run until there is a verdict, or nothing more can be done from this controller."""
        for _ in range(_MOST_STEPS):
            try:
                reading = self._read()
            except UnreachableError as error:
                return self._lost(str(error))
            except RefusedError as error:
                return self._end(book.FAILED, str(error))
            self._journal = reading["journal"]
            if self._journal is None and self.request.direction == book.BACK:
                return self._end(book.ROLLED_BACK, self.request.reason)
            step = next_step(self._journal, self._seen(reading))
            if step.action == stepping.DONE:
                return self._done(str(step.arguments["outcome"]))
            if step.action == stepping.STOP:
                return self._stopped(step.words)
            try:
                self._take(step, reading)
                self._cuts = 0
            except GoneError as error:
                return self._lost(str(error))
            except UnreachableError as error:
                # The next read shows whether the step was done; give up if the connection breaks every time.
                self._cuts += 1
                if self._cuts > _MOST_CUTS:
                    self._fail(f"{step.words} was cut off {self._cuts} times ({error})")
            except RefusedError as error:
                if step.action == stepping.NOTE:
                    return self._end(book.FAILED, f"The journal cannot be written: {error}")
                self._fail(str(error))
            if self._stuck:
                return self._end(book.FAILED, self._stuck)
        return self._end(book.FAILED, f"The move did not end within {_MOST_STEPS} steps. Read its journal on the host")

    def broke_off(self, problem: str) -> Outcome:
        """Return the outcome if the controller itself could not continue; the group is then rolled back if possible."""
        return self._end(book.FAILED, problem)

    # -- seeing -----------------------------------------------------------------------------------------------------

    def _seen(self, reading: Mapping[str, Any]) -> Seen:
        due, problems = self._looked if self._looked is not None else (None, None)
        return Seen(
            boot_id=str(reading["boot_id"]),
            direction=self.request.direction,
            reason=self.request.reason,
            reboot_required=due,
            problems=problems,
            requested=self._requested,
            gave_up=self._gave_up,
        )

    def _read(self) -> dict[str, Any]:
        """Read the journal, retrying for as long as its latest entry requires."""
        booting = self._booting or book.state(self._journal) == book.REBOOT_REQUESTED
        patience = self.request.reboot_timeout if booting else self.request.unreachable_timeout
        end = self.hands.now() + patience
        while True:
            try:
                return self.hands.module("read", {})
            except UnreachableError as error:
                if self.hands.now() > end:
                    raise UnreachableError(f"no answer for {patience:g} s ({error})") from error
            self.hands.sleep(self.request.interval)

    def _wait(self, boot_id: str) -> None:
        """Wait until the host has rebooted; raises GoneError if it does not come back."""
        end = self.hands.now() + self.request.reboot_timeout
        said = ""
        while self.hands.now() < end:
            self.hands.sleep(self.request.interval)
            try:
                if self.hands.boot_id() not in ("", boot_id):
                    return
                said = "it still runs the previous boot"
            except UnreachableError as error:
                said = str(error)
        if said.startswith("it still"):
            self._fail(f"the host did not reboot within {self.request.reboot_timeout:g} s of the request")
            return
        raise GoneError(f"the host did not come back within {self.request.reboot_timeout:g} s of its reboot ({said})")

    def _look(self, way: str) -> tuple[bool, list[str]]:
        """Return whether a reboot is due, and the problems that persist; some resolve while the host's units start."""
        wanted = self._wanted(way)
        installed = book.state(self._journal) == book.INSTALLED
        # Without a change of packages a reboot has no effect: the gate reports the problems.
        moves = moves_something(self._journal or {})
        repaired: set[str] = set()
        end = self.hands.now() + self.request.gate_timeout
        observation = self.hands.observe(wanted)
        if installed and not (moves and _reboot_due(wanted, observation)):
            # Without a reboot, services that keep running must pick up the change.
            self.hands.module("settle", {"units": {}, "restart": dict(self.request.restart)})
            observation = self.hands.observe(wanted)
        while True:
            due = moves and _reboot_due(wanted, observation)
            if due and installed:
                return True, []
            found, wrong = self._compare(wanted, observation, way)
            if not found:
                self._verified = verified_words(wanted)
                return False, self._upgrades(way)
            if self.hands.now() > end:
                return due, found
            self._repair(wanted, wrong, repaired)
            self.hands.sleep(self.request.interval)
            observation = self.hands.observe(wanted)

    def _upgrades(self, way: str) -> list[str]:
        """Return what an upgrade would do to the new set; the former set is restored as it was, without this check."""
        if way == book.BACK:
            return []
        return [str(one) for one in self.hands.module("read", {"simulate_upgrade": True})["upgrade"]]

    def _wanted(self, way: str) -> dict[str, Any]:
        """Return the states to verify: those of the roles, and the set's driver according to its packages."""
        roles = dict(self.request.verify if way == book.FORWARD else self.request.verify_rollback)
        packages = target_packages(self._journal or {}, way == book.BACK)
        there = {name: version for name, version in packages.items() if version}
        driver = module_package(there)
        if driver is not None:
            roles[_DRIVER_ROLE] = {"driver": {"package": driver, "version": upstream_version(there[driver])}}
        return roles

    def _compare(
        self, wanted: Mapping[str, Any], observation: Mapping[str, Any], way: str
    ) -> tuple[list[str], list[Difference]]:
        reading = self.hands.module("read", {})
        told = _told_by_journal(self._journal or {})
        found: list[Difference] = [
            one
            for role in differences_by_role(wanted, observation).values()
            for one in role
            if (one["kind"], str(one["key"])) not in told
        ]
        sentences = [f"dpkg left {name} half done" for name in reading["dpkg_broken"]]
        sentences += reading["differs"][way]
        sentences += explain(found)
        return list(dict.fromkeys(sentences)), found

    def _repair(self, wanted: Mapping[str, Any], wrong: Sequence[Difference], repaired: set[str]) -> None:
        """Repair what no package provides: the daemon's settings, the CDI specification for the loaded driver, and
        stopped units. The gate reports what cannot be repaired; failed settings are not retried."""
        for one in wrong:
            path = str(one["key"])
            if path in repaired:
                continue
            with contextlib.suppress(RefusedError):
                if one["kind"] == "settings":
                    repaired.add(path)
                    state = next(state for state in wanted.values() if path in (state.get("json_files") or {}))
                    restarted = {name: {**want, "active": True} for name, want in (state.get("units") or {}).items()}
                    settings = {"json_files": {path: state["json_files"][path]}, "units": restarted}
                    self.hands.repair(_SERVICES, {"desired": settings, "stop": _with_sockets(restarted)})
                elif one["kind"] == "cdi":
                    # A driver that was just loaded may fail at first.
                    self.hands.repair(_SERVICES, {"desired": {"cdi": {path: {}}}, "answer_timeout": 60})
                    repaired.add(path)
        names = {str(one["key"]) for one in wrong if one["kind"] == "unit"}
        units: dict[str, Any] = {}
        for state in wanted.values():
            units |= {name: dict(want) for name, want in (state.get("units") or {}).items() if name in names}
        if units:
            self.hands.module("settle", {"units": units, "restart": {}})

    # -- acting -----------------------------------------------------------------------------------------------------

    def _take(self, step: Next, reading: Mapping[str, Any]) -> None:
        if step.action == stepping.LOOK:
            way = str(step.arguments["direction"])
            self._say("verifying")
            self._looked = self._look(way)
            return
        if step.action == stepping.WAIT:
            self._wait(str(reading["boot_id"]))
            self._requested = ""
            return
        self._looked = None
        if step.action == stepping.REBOOT:
            self._say(f"rebooting{self._for_driver(str(step.arguments['direction']))}")
            self._booting = True
        else:
            self._say(step.words)
        self.changed = True
        arguments = dict(step.arguments)
        if step.action == stepping.NOTE and arguments["state"] in (book.VERIFIED, book.ROLLED_BACK):
            arguments["detail"] = {**(arguments.get("detail") or {}), "verified": self._verified}
        answer = self.hands.module(step.action, arguments)
        self._journal = answer["journal"]
        if step.action == stepping.REBOOT:
            # Set only after the call: an interrupted request may have to be repeated.
            self._requested = str(reading["boot_id"])
        if step.action == stepping.NOTE and step.arguments["state"] == book.BOOTED:
            self._booting = False
        if step.action == stepping.NOTE and step.arguments["state"] == book.FAILED:
            self._gave_up = self._gave_up or step.arguments["direction"] == book.BACK

    def _fail(self, reason: str) -> None:
        """Record in the journal that a step failed; the host's state then decides what follows."""
        if self._journal is None:
            return
        step = stepping.failure_step(self._journal, reason)
        self._looked, self._cuts, self._requested, self._booting = None, 0, "", False
        self._say(step.words)
        self._gave_up = self._gave_up or step.arguments["direction"] == book.BACK
        self.changed = True
        try:
            self._journal = self.hands.module(step.action, step.arguments)["journal"]
        except UnreachableError:
            return
        except RefusedError as error:
            self._stuck = f"{reason}. The journal cannot be written either: {error}. The host stays drained"

    def _for_driver(self, way: str) -> str:
        packages = target_packages(self._journal or {}, way == book.BACK)
        driver = module_package(name for name, version in packages.items() if version)
        return f" for driver {upstream_version(str(packages[driver]))}" if driver else ""

    def _say(self, words: str) -> None:
        if words != self._told:
            self._told = words
            self.hands.say(words)

    # -- ending -----------------------------------------------------------------------------------------------------

    def _end(self, outcome: str, problem: str, problems: Sequence[str] = ()) -> Outcome:
        return Outcome(outcome, problem, list(problems), self._journal, self.changed)

    def _done(self, outcome: str) -> Outcome:
        if outcome == book.VERIFIED:
            return self._end(outcome, "")
        detail = book.failure(self._journal)
        return self._end(outcome, f"failed at {detail.get('at')}: {detail.get('reason')}")

    def _stopped(self, words: str) -> Outcome:
        if book.direction(self._journal) != book.BACK:
            return self._end(book.FAILED, words)
        first: Mapping[str, Any] = next(
            (one["detail"] for one in (self._journal or {})["entries"] if one["state"] == book.FAILED), {}
        )
        began = f"It failed at {first.get('at')}: {first.get('reason')}. "
        return self._end(book.FAILED, f"{began}During the rollback: {words}. The host stays drained")

    def _lost(self, words: str) -> Outcome:
        where = book.state(self._journal) or "its first answer"
        return self._end(
            LOST,
            f"The host was lost after {where}: {words}. Its journal there has the rest; run again once it answers",
        )


def _told_by_journal(journal: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return the differences to judge by the journal instead of the roles' states: those depend on what is installed,
    which the move itself has changed. The host compares itself with its journal."""
    packages: set[str] = set()
    files: set[str] = set(journal.get("drop_files") or ())
    for side in (journal.get("to") or {}, journal.get("from") or {}):
        packages |= {*(side.get("packages") or ()), *(side.get("holds") or ())}
        files |= set(side.get("files") or ())
    for move in (journal.get("move") or {}, journal.get("move_back") or {}):
        packages |= {*(move.get("install") or ()), *(move.get("remove") or ())}
    named = {(kind, name) for kind in ("package", "hold") for name in packages}
    return named | {("file", path) for path in files}


_TOLD_APART = ("driver", "gpus", health.KIND)
"""Kinds that `verified_words` describes separately."""


def verified_words(wanted: Mapping[str, Any]) -> list[str]:
    """Describe for the journal what a passed gate has verified: each kind of state with its count, and the driver."""
    found = []
    for role, state in wanted.items():
        kinds = [f"{len(part)} {kind}" for kind, part in state.items() if kind not in _TOLD_APART and part]
        if state.get("driver"):
            kinds.append(f"driver {wanted_version(state['driver'])} installed, loaded and in use")
        if state.get("gpus"):
            kinds.append(f"{state['gpus'].get('count')} GPUs")
        if state.get(health.KIND):
            kinds.append(f"GPUs as in profile {state[health.KIND].get('profile')}")
        if kinds:
            found.append(f"{role}: {', '.join(kinds)}")
    return [*found, "packages, holds and files of the set as in the journal"]


def _with_sockets(units: Iterable[str]) -> list[str]:
    """Return the units, each preceded by its socket, which would start the unit again for the next client."""
    return [one for name in units for one in (f"{name.removesuffix('.service')}.socket", name)]


def _reboot_due(wanted: Mapping[str, Any], observation: Mapping[str, Any]) -> bool:
    """Return whether loaded and installed driver differ; an unreadable driver counts as such."""
    if not any("driver" in state for state in wanted.values()):
        return False
    reading = observation.get("driver")
    return True if reading is None else bool(reading.get("reboot_required"))
