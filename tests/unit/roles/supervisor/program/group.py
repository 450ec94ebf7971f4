# SPDX-License-Identifier: Apache-2.0
"""A head and the reports it is handed, for tests that look at one decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    NOTHING,
    Decision,
    GroupPlan,
    NodeReport,
    Probe,
    Timing,
    UnitPlan,
    UnitReport,
)
from ansible_collections.firstlight.cluster.roles.supervisor.program.machine import Head

RAY, SERVER = "ray.service", "server.service"
PLAN = GroupPlan(
    "server",
    "spark0",
    {"spark0": (UnitPlan(RAY, 0, "ray"), UnitPlan(SERVER, 2, "server")), "spark1": (UnitPlan(RAY, 1, "ray"),)},
    Timing(start_attempts=3),
)
RUNS = UnitReport(active=True, running=True, words="active (running)")


class Group:
    """A head and the reports it is handed: nodes that follow every order at once, unless a test says otherwise."""

    def __init__(self, remembered: Mapping[str, Any] | None = None, boot: str = "b1", plan: GroupPlan = PLAN) -> None:
        self._boot, self._names, self.plan = boot, count(1), plan
        self.head = self._supervisor(remembered or {})
        self.now = 1000.0
        self.reports = {node: NodeReport(node, boot=boot) for node in plan.nodes}
        self.decision = self.head.tick(self.now, {})
        self.events = list(self.decision.events)

    def _supervisor(self, remembered: Mapping[str, Any]) -> Head:
        return Head(self.plan, remembered, self._boot, lambda: f"e{next(self._names)}")

    def restart_supervisor(self) -> None:
        """Another one goes on from what the last has written down."""
        self.head = self._supervisor(self.decision.remember)

    def tick(self, seconds: float = 1.0, **inputs: Any) -> Decision:
        """One look of the head, `seconds` later."""
        self.now += seconds
        self.decision = self.head.tick(self.now, self.reports, **inputs)
        self.events += self.decision.events
        return self.decision

    def obey(self) -> None:
        """Every node does what was ordered, and says so."""
        order = self.decision.order
        for node, units in self.plan.nodes.items():
            shown = {unit.unit: RUNS for unit in units if unit.stage <= order.stage}
            self.set(node, seen=order.epoch, units=shown, clean=not shown, ready=not shown)
            if order.stage > NOTHING:
                self.set(node, epoch=order.epoch, stage=order.stage)

    def set(self, node: str, **fields: Any) -> None:
        self.reports[node] = replace(self.reports[node], **fields)

    def unit(self, node: str, unit: str, shown: UnitReport) -> None:
        self.set(node, units={**self.reports[node].units, unit: shown})

    def until(self, phase: str) -> Decision:
        for _ in range(20):
            if self.decision.phase == phase:
                return self.decision
            self.obey()
            self.tick()
        raise AssertionError(self.decision)

    def serving(self) -> Group:
        self.until("warming")
        self.obey()
        assert self.answer().phase == "serving"
        return self

    def answer(self, words: str = "", alive: bool = True) -> Decision:
        return self.tick(probe=Probe(self.now + 1, answered=not words, alive=alive, words=words))

    def fail_start(self) -> Decision:
        """One start that fails because the Ray head ends, until all is clean again."""
        self.until("starting")
        self.obey()
        self.unit("spark0", RAY, UnitReport(failed=True, words="failed (exit status 1)"))
        self.tick()
        self.obey()
        return self.tick()


def running(epoch: str) -> Group:
    """A supervisor that starts beside a group that runs."""
    group = Group()
    for node, units in PLAN.nodes.items():
        shown = {unit.unit: RUNS for unit in units}
        group.set(node, epoch=epoch, stage=2 if epoch else NOTHING, units=shown, clean=False, ready=False)
    return group
