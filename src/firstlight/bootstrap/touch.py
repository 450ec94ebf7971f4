# SPDX-License-Identifier: Apache-2.0
"""Run the bootstrap on all nodes in parallel and independently. A fault on a node ends the work on that node only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from firstlight.discover.hardware import Profiles
from firstlight.discover.look import read_node
from firstlight.discover.probe import Machine
from firstlight.ssh.faults import Fault, LostError, NodeError, lost, no_login, wrong_serial
from firstlight.ssh.session import Answer, Credentials, Session, closing
from firstlight.ssh.targets import Target
from firstlight.ssh.together import together
from firstlight.ssh.trust import Trust

from .identity import address_faults, identity_faults
from .script import Wanted, evaluate_failure, key_script, password_login_script, read_steps, root_script

MOST_RETURNS = 2
"""How many times a node may disconnect and come back during one run."""
STEP_SECONDS = 300.0
RETRY_SECONDS = 2.0


@dataclass
class Outcome:
    """The result for one node."""

    target: Target
    steps: dict[str, str] = field(default_factory=dict)
    fault: Fault | None = None
    rebooted: bool = False
    machine: Machine | None = None

    def as_document(self) -> dict[str, Any]:
        return {
            "name": self.target.name,
            "address": self.target.address,
            "state": "failed" if self.fault else "done",
            "steps": self.steps,
            "rebooted": self.rebooted,
            "serial": self.machine.serial if self.machine else None,
            "fault": self.fault.as_document() if self.fault else None,
        }


@dataclass(frozen=True)
class FirstTouch:
    """How to reach the nodes, and their desired state."""

    trust: Trust
    credentials: Credentials
    wanted: Wanted
    profiles: Profiles
    port: int = 22
    wait_seconds: float = 180.0
    answered: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def run(self, targets: Sequence[Target], tell: Callable[[Outcome], None]) -> list[Outcome]:
        """Inspect all nodes, verify their identity, then set up those that match. Calls `tell` with each outcome."""
        outcomes = {target.name: Outcome(target) for target in targets}
        for name, fault in address_faults(targets, self.answered).items():
            outcomes[name].fault = fault
        for outcome, machine in together(self._look, [one for one in outcomes.values() if not one.fault]):
            outcome.machine = machine
        machines = {name: one.machine for name, one in outcomes.items() if one.machine}
        for name, fault in identity_faults(targets, machines, self.profiles).items():
            outcomes[name].fault = outcomes[name].fault or fault
        self._replace(outcomes.values())
        for outcome in outcomes.values():
            if outcome.fault:
                tell(outcome)
        for outcome, _ in together(self._work, [one for one in outcomes.values() if not one.fault]):
            tell(outcome)
        return list(outcomes.values())

    def _replace(self, outcomes: Iterable[Outcome]) -> None:
        """Pin the new key of each machine that replaces another, which only a matching serial number confirms."""
        for outcome in outcomes:
            if outcome.fault or not self.trust.waits(outcome.target, self.port):
                continue
            if outcome.machine is None or outcome.machine.serial != outcome.target.serial:
                outcome.fault = wrong_serial(outcome.machine.serial if outcome.machine else None, outcome.target.serial)
            elif self.trust.keep:
                self.trust.replace(outcome.target, self.port)

    def _look(self, outcome: Outcome) -> Machine | None:
        try:
            with closing(self._log_in(outcome.target)) as session:
                return read_node(session)
        except NodeError as error:
            outcome.fault = error.fault
        except LostError:
            outcome.fault = lost("first look", 0)
        return None

    def _log_in(self, target: Target) -> Session:
        session = self.trust.open(target, self.port)
        try:
            session.log_in(self.credentials)
        except BaseException:
            session.close()
            raise
        return session

    def _work(self, outcome: Outcome) -> None:
        """Run all steps; if the node disconnects, wait for it and start over, which is safe as every step is
        idempotent.
        """
        returns = 0
        while True:
            work = _Work(self, outcome)
            try:
                work.steps()
            except NodeError as error:
                outcome.fault = error.fault
            except LostError:
                returns += 1
                outcome.fault = lost(work.step, self.wait_seconds)
                if returns <= MOST_RETURNS:
                    outcome.fault = self._await(outcome, outcome.fault)
                if outcome.fault is None:
                    continue
            return

    def _await(self, outcome: Outcome, away: Fault) -> Fault | None:
        """Wait until the node accepts logins again, and record whether it rebooted in the meantime."""
        deadline = time.monotonic() + self.wait_seconds
        while time.monotonic() < deadline:
            time.sleep(RETRY_SECONDS)
            try:
                with closing(self._log_in(outcome.target)) as session:
                    machine = read_node(session)
            except LostError:
                continue
            except NodeError as error:
                # While a node boots, sshd is down or does not accept logins yet (pam_nologin).
                if error.fault.kind in ("unreachable", "wrong-password"):
                    continue
                return error.fault
            outcome.rebooted = outcome.rebooted or outcome.machine is None or machine.boot != outcome.machine.boot
            return None
        return away


class _Work:
    """The steps on one node, in an order that cannot lock anybody out."""

    def __init__(self, touch: FirstTouch, outcome: Outcome) -> None:
        self.touch, self.outcome = touch, outcome
        self.step = "log in"

    def steps(self) -> None:
        touch, wanted = self.touch, self.touch.wanted
        with closing(touch._log_in(self.outcome.target)) as session:
            self.step = "key"
            self._take(session.run(key_script(wanted), timeout=STEP_SECONDS), "key")
            self._take(self._as_root(session, root_script(wanted, self.outcome.target.hostname)), "sudo")
            if wanted.check:
                if not wanted.password_login:
                    self._take(self._as_root(session, password_login_script(wanted)), "password login")
                return
        # Verify over a new connection that the key alone is enough to log in, and that root works as Ansible will use
        # it.
        self.step = "login with the key"
        keys_only = touch.credentials
        if wanted.sudo == "nopasswd":
            keys_only = replace(keys_only, password=None)
        session = touch.trust.open(self.outcome.target, touch.port)
        with closing(session):
            if session.log_in(keys_only) != "key":
                raise NodeError(no_login(wanted.user, "passwords: the key was installed but is not accepted"))
            self._as_root(session, "true")
            if not wanted.password_login:
                self._take(self._as_root(session, password_login_script(wanted)), "password login")

    def _as_root(self, session: Session, script: str) -> Answer:
        self.step = "root"
        return session.run_as_root(script, timeout=STEP_SECONDS)

    def _take(self, answer: Answer, first: str) -> None:
        steps, begun = read_steps(answer.out)
        self.step = begun or first
        for step, state in steps.items():
            # A step that an earlier attempt of this run changed stays reported as changed.
            if self.outcome.steps.get(step) != "changed":
                self.outcome.steps[step] = state
        if answer.status != 0:
            raise NodeError(evaluate_failure(self.step, answer.err))
