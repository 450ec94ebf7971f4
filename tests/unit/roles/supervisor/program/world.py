# SPDX-License-Identifier: Apache-2.0
"""A small cluster of pretended machines around the real decisions, second by second, with faults.

Orders and reports travel with a delay and wait while a link is cut, as TCP makes them; a unit takes its time to start,
to load and to stop; what a supervisor holds in memory goes with it, what it wrote to /run goes with the boot. Every
second the world checks what must always hold.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    NOTHING,
    Decision,
    GroupPlan,
    Held,
    NodeReport,
    Probe,
    UnitReport,
)
from ansible_collections.firstlight.cluster.roles.supervisor.program.follow import WAIT, Actions, follow
from ansible_collections.firstlight.cluster.roles.supervisor.program.machine import Head

from .machines import LOADING, STOPPING, SYSTEMD_KILLS, Node, Unit


class World:
    """One group with a fault list; `run` lets time pass."""

    def __init__(self, plan: GroupPlan, delays: tuple[int, ...] = ()) -> None:
        self.plan, self.timing, self.now = plan, plan.timing, 0
        self.nodes = {
            name: Node(name, units, delays[rank % len(delays)] if delays and rank else 0)
            for rank, (name, units) in enumerate(plan.nodes.items())
        }
        for node in self.nodes.values():
            node.units, node.order = {unit.unit: Unit() for unit in node.plan}, WAIT
        self.names = count(1)
        self.remembered: dict[str, Any] = {}
        self.head: Head | None = None
        self.exited = self.restart = False
        self.decision: Decision | None = None
        self.heard: dict[str, tuple[int, NodeReport]] = {}
        self.probe: Probe | None = None
        self.question: tuple[int, bool] | None = None
        self.starts_without_serving = 0
        self.started: set[tuple[str, str, str]] = set()
        self.ran: set[tuple[str, str, str]] = set()
        self.history: list[str] = []
        self.phases: list[str] = []

    # --- faults ------------------------------------------------------------------------------------------------------

    def fault(self, kind: str, name: str, duration: int) -> None:
        node, until = self.nodes[name], self.now + duration
        if kind == "power":
            for each in self.nodes.values():
                self._reboot(each, until)
        elif kind == "reboot":
            self._reboot(node, until)
        elif kind == "cut":
            cut = [node] if name != self.plan.head else [each for each in self.nodes.values() if each is not node]
            for each in cut:
                each.cut_until = until
        elif kind == "supervisor" and not (self.exited and name == self.plan.head):
            self._supervisor_gone(node, max(until, node.down_until))
        elif kind == "die":
            for unit in node.units.values():
                unit.state, unit.failed = "off", unit.alive
        elif kind == "by hand" and node.down_until <= self.now:
            for each_name, unit in node.units.items():
                node.units[each_name] = unit if unit.alive else Unit("running", "", self.now)
        elif kind in ("hung", "stuck"):
            setattr(node, kind, True)
        elif kind == "restart":
            self.restart, self.exited, self.starts_without_serving = True, False, 0
        elif kind in ("leak", "drained", "broken"):
            setattr(node, f"{kind}_until", until)

    def _reboot(self, node: Node, until: int) -> None:
        node.down_until, node.boot, node.held, node.hung = until, node.boot + 1, Held(), False
        node.units = {unit.unit: Unit() for unit in node.plan}
        self._supervisor_gone(node, until)
        self.exited = self.exited and node.name != self.plan.head

    def _supervisor_gone(self, node: Node, until: int) -> None:
        node.supervisor_until, node.order = until, None
        node.orders.clear()
        node.reports.clear()
        if node.name == self.plan.head:
            self.head, self.decision, self.question, self.probe = None, None, None, None
            self.heard.clear()
            for other in self.nodes.values():
                other.orders.clear()
                other.reports.clear()

    # --- one second --------------------------------------------------------------------------------------------------

    def second(self) -> None:
        self.now += 1
        for node in self.nodes.values():
            self._units_move(node)
        for node in self.nodes.values():
            if node.supervisor_until <= self.now and not (self.exited and node.name == self.plan.head):
                self._follow(node)
        if self.nodes[self.plan.head].supervisor_until <= self.now and not self.exited:
            self._decide()
        self._check()

    def _units_move(self, node: Node) -> None:
        for name, unit in node.units.items():
            if unit.state == "starting" and self.now > unit.since:
                broken = node.broken_until > self.now
                unit.state, unit.failed = ("off", True) if broken else ("running", False)
                if not broken:
                    self.ran.add((unit.epoch, node.name, name))
            elif unit.state == "stopping" and self.now - unit.since >= (SYSTEMD_KILLS if node.stuck else STOPPING):
                unit.state, node.stuck = "off", False
        if not any(unit.alive for unit in node.units.values()):
            node.hung = False

    def _report(self, node: Node) -> NodeReport:
        clean = not any(unit.alive for unit in node.units.values())
        drained, leak = node.drained_until > self.now, node.leak_until > self.now
        return NodeReport(
            node=node.name,
            epoch=node.held.epoch,
            stage=node.held.stage,
            ended=node.held.ended,
            seen=node.order.epoch if node.order else "",
            units={
                name: UnitReport(
                    active=unit.state in ("starting", "running"),
                    running=unit.state == "running",
                    failed=unit.failed,
                    stopping=unit.state == "stopping",
                    words=unit.state,
                )
                for name, unit in node.units.items()
            },
            clean=clean,
            ready=clean and not drained and not leak,
            problems=("its memory is not back",) if leak else (),
            drained=drained,
            boot=f"{node.name} boot {node.boot}",
        )

    def _linked(self, node: Node) -> bool:
        return node.cut_until <= self.now

    def _follow(self, node: Node) -> None:
        if node.supervisor_until == self.now:
            node.heard, node.order = self.now, WAIT
        while self._linked(node) and node.orders and node.orders[0][0] <= self.now:
            node.order, node.heard = node.orders.popleft()[1], self.now
        if node.name == self.plan.head:
            node.order = self.decision.order if self.head and self.decision else WAIT
        elif self.now - node.heard > self.timing.heartbeat_timeout and node.order is not None:
            node.order = None
            node.orders.clear()
        report = self._report(node)
        actions = follow(node.order, report, node.plan, node.held)
        self._act(node, actions)
        node.reports.append((self.now + node.delay, report))

    def _act(self, node: Node, actions: Actions) -> None:
        if actions.held.epoch != node.held.epoch and actions.held.epoch:
            for unit in node.units.values():
                unit.epoch = unit.epoch or actions.held.epoch if unit.alive else unit.epoch
        node.held = actions.held
        assert not (actions.start and actions.stop), actions
        for name in actions.stop:
            unit = node.units[name]
            if actions.force:
                unit.state, node.stuck = "off", False
            elif unit.state in ("starting", "running"):
                unit.state, unit.since = "stopping", self.now
        for name in actions.start:
            self._check_start(node, name, actions.held.epoch)
            node.units[name] = Unit("starting", actions.held.epoch, self.now)

    def _decide(self) -> None:
        boot = f"boot {self.nodes[self.plan.head].boot}"
        if self.head is None:
            self.head = Head(self.plan, self.remembered, boot, lambda: f"e{next(self.names)}")
        for node in self.nodes.values():
            while self._linked(node) and node.reports and node.reports[0][0] <= self.now:
                self.heard[node.name] = (self.now, node.reports.popleft()[1])
            if node.name in self.heard and self.now - self.heard[node.name][0] > self.timing.heartbeat_timeout:
                del self.heard[node.name]
                node.reports.clear()
        reports = {name: report for name, (_, report) in self.heard.items()}
        if self.question and self.question[0] <= self.now:
            good = self.question[1] and self._answers()
            self.probe, self.question = Probe(self.now, good, alive=good, words="" if good else "refused"), None
        before = self.decision
        decision = self.decision = self.head.tick(self.now, reports, {}, self.probe, self.restart)
        self.restart = False
        self.remembered = dict(decision.remember)
        self._check_decision(before, decision, reports)
        for node in self.nodes.values():
            if node.down_until <= self.now and node.name != self.plan.head and node.supervisor_until <= self.now:
                node.orders.append((self.now + 1 + node.delay, decision.order))
        if decision.ask and not self.question:
            self.question = (self.now + (1 if self._answers() else self.timing.failure_threshold), self._answers())
        if decision.phase == "failed":
            self.exited, self.head = True, None

    def _answers(self) -> bool:
        """Whether a question to the server would be answered now: every rank of one start runs and none hangs."""
        units = [unit for node in self.nodes.values() for unit in node.units.values()]
        return (
            all(unit.state == "running" and self.now - unit.since >= LOADING for unit in units)
            and len({unit.epoch for unit in units}) == 1
            and not any(node.hung for node in self.nodes.values())
            and all(self._linked(node) for node in self.nodes.values())
        )

    # --- what must always hold ---------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Units of two starts never live at the same time, anywhere. What a person started by hand has no epoch."""
        epochs = {unit.epoch for node in self.nodes.values() for unit in node.units.values() if unit.alive} - {""}
        assert len(epochs) <= 1, f"units of {epochs} live together"

    def _check_start(self, node: Node, name: str, epoch: str) -> None:
        assert (epoch, node.name, name) not in self.started, f"{name} on {node.name} starts twice in {epoch}"
        assert node.drained_until <= self.now, f"{name} starts on {node.name}, which is drained"
        self.started.add((epoch, node.name, name))
        stage = next(unit.stage for unit in node.plan if unit.unit == name)
        for other, units in self.plan.nodes.items():
            for unit in units:
                if unit.stage < stage:
                    assert (epoch, other, unit.unit) in self.ran, f"{name} starts before {unit.unit} on {other} ran"

    def _check_decision(self, before: Decision | None, decision: Decision, reports: dict[str, NodeReport]) -> None:
        assert decision.why or decision.phase == "serving", decision
        begins = decision.phase == "starting" and (before is None or before.order.epoch != decision.order.epoch)
        begins = begins or (decision.phase == "starting" and before is not None and before.order.stage == NOTHING)
        if begins:
            self.starts_without_serving += 1
            assert decision.remember["starting"] == decision.order.epoch
            for name in self.plan.nodes:
                report = reports[name]
                assert report.clean, f"a start although {name} is not clean"
                assert report.ready, f"a start although {name} is not ready"
                assert report.seen == decision.order.epoch, f"a start although {name} has not confirmed"
        if any("was drained" in event for event in decision.events):
            self.starts_without_serving = max(0, self.starts_without_serving - 1)
        if decision.phase == "serving" or (decision.order.adopt and before and not before.order.adopt):
            self.starts_without_serving = 0
        assert self.starts_without_serving <= self.timing.start_attempts, "more starts than allowed"
        assert 0 <= decision.attempts <= self.timing.start_attempts
        if decision.phase == "failed":
            assert decision.order.stage == NOTHING
            assert decision.remember["given_up"]
        if decision.phase in ("gathering", "drained"):
            assert decision.missing, decision
        self.history += [f"{self.now}: {event}" for event in decision.events]
        if not self.phases or self.phases[-1] != decision.phase:
            self.phases.append(decision.phase)

    # --- time --------------------------------------------------------------------------------------------------------

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.second()

    def until(self, *phases: str, limit: int = 400) -> Decision:
        """Let time pass until the head is in one of `phases`."""
        for _ in range(limit):
            self.second()
            if self.decision is not None and self.decision.phase in phases:
                return self.decision
        raise AssertionError(f"no {phases} within {limit} s: {self.decision}\n" + "\n".join(self.history[-20:]))

    def settled(self) -> bool:
        """Whether the whole group runs in the epoch of its head, or nothing of it runs because it has given up."""
        if self.decision is None:
            return False
        units = [unit for node in self.nodes.values() for unit in node.units.values()]
        if self.decision.phase == "failed":
            return not any(unit.alive and unit.epoch for unit in units)
        return (
            self.decision.phase == "serving"
            and all(unit.state == "running" and unit.epoch == self.decision.order.epoch for unit in units)
            and not self.decision.order.adopt
            and not any(node.hung for node in self.nodes.values())
        )
