# SPDX-License-Identifier: Apache-2.0
"""The head's part for one group: run the state machine, probe the server, and persist what must be remembered."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor import probe
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import GroupConfig
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    HOLD,
    Decision,
    NodeReport,
    Order,
    Probe,
)

from .background import NoAnswerError
from .machine import Head
from .node import Tools
from .notify import ERROR, PLAIN, Talk, say

METRICS_EVERY = 10.0
METRICS_LATEST = 30.0
SPARE_SECONDS = 30.0
"""Added to the timeouts of the probes themselves: needed only if a thread hangs in the kernel."""
ASKED_PHASES = ("warming", "serving")
HISTORY = 50


def metrics_due(waited: float, *, asking: bool) -> bool:
    """Whether to read the metrics again; postponed during a probe, which the page may or may not count yet."""
    return waited >= (METRICS_LATEST if asking else METRICS_EVERY)


class GroupHead:
    """Decides for one group of which this node is the head.

    `remember` persists, without blocking the loop, what must survive a reboot; `heard` is called when there is news.
    """

    def __init__(
        self,
        tools: Tools,
        group: GroupConfig,
        remembered: Mapping[str, Any],
        remember: Callable[[str, Mapping[str, Any]], Awaitable[None]],
        heard: Callable[[], None],
    ) -> None:
        self.group = group
        self._tools = tools
        self._machine = Head(group.plan, remembered, tools.boot, lambda: uuid.uuid4().hex)
        self._remembered: Mapping[str, Any] = dict(remembered)
        self._remember = remember
        self._heard = heard
        self._question: asyncio.Task[None] | None = None
        self._metrics: asyncio.Task[None] | None = None
        self._metrics_at = float("-inf")
        self._counted = probe.Load()
        self._talk = Talk()
        self._restart = False
        self.decision: Decision | None = None
        self.since = tools.clock()
        """When the phase began."""
        self.probe: Probe | None = None
        self.answered_at: float | None = None
        self.load: dict[str, Any] = {}
        self.history: list[tuple[float, str]] = []

    def order(self) -> Order | None:
        return self.decision.order if self.decision else Order("", HOLD)

    def restart(self) -> None:
        """Request that the group is stopped and started again."""
        self._restart = True

    async def tick(self, reports: Mapping[str, NodeReport], refusals: Mapping[str, str]) -> None:
        """Decide once. What an order requires to be on disk has been persisted when this returns."""
        now = self._tools.clock()
        restart, self._restart = self._restart, False
        decision = self._machine.tick(now, reports, refusals, self.probe, restart)
        if decision.remember != self._remembered:
            self._remembered = dict(decision.remember)
            await self._remember(self.group.name, self._remembered)
        if self.decision is None or decision.phase != self.decision.phase:
            self.since = now
        self.decision = decision
        self._tell(now, decision)
        self._ask(decision)
        self._measure(now, decision)

    def _tell(self, now: float, decision: Decision) -> None:
        gone = decision.phase == "failed"
        for event in decision.events:
            say(f"group {self.group.name}: {event}", ERROR if gone else PLAIN)
            self.history = [*self.history, (now, event)][-HISTORY:]
        said = f"{decision.phase}: {decision.why}" if decision.why else decision.phase
        news = self._talk.is_news(now, (decision.phase, sorted(decision.missing)), said)
        if news and not decision.events:
            say(f"group {self.group.name} is {said}", ERROR if gone else PLAIN)

    def _ask(self, decision: Decision) -> None:
        if decision.ask and (self._question is None or self._question.done()):
            self._question = asyncio.create_task(self._asked())

    async def _asked(self) -> None:
        question, limit = self.group.question, self.group.plan.timing.probe_timeout
        began = self._tools.clock()
        if not question.url:
            # Without a URL there is nothing to probe: what runs is considered to serve.
            await asyncio.sleep(0)
            found = Probe(self._tools.clock(), answered=True)
        else:
            work = partial(probe.ask, self._tools.host, question, limit, self._tools.clock)
            spare = 2 * probe.METRICS_SECONDS + SPARE_SECONDS
            try:
                found = await self._tools.background.ask(f"the server of {self.group.name}", work, limit + spare)
            except (NoAnswerError, RuntimeError) as error:
                # Without this pause, a hanging probe would be repeated at once, and fail at once.
                await asyncio.sleep(1)
                found = Probe(self._tools.clock(), False, False, str(error), self._tools.clock() - began)
        if found.answered:
            self.answered_at = found.at
            self._counted.asked(found.at, found.seconds)
        self.probe = found
        self._heard()

    def _measure(self, now: float, decision: Decision) -> None:
        if decision.phase not in ASKED_PHASES:
            self.load = {}
            self._counted.forget()
            return
        busy = self._metrics is not None and not self._metrics.done()
        asking = self._question is not None and not self._question.done()
        if self.group.question.url and not busy and metrics_due(now - self._metrics_at, asking=asking):
            self._metrics_at = now
            self._metrics = asyncio.create_task(self._measured())

    async def _measured(self) -> None:
        work = partial(probe.counters, self.group.question, self._tools.clock)
        name = f"the metrics of {self.group.name}"
        try:
            found = await self._tools.background.ask(name, work, probe.METRICS_SECONDS + SPARE_SECONDS)
        except (NoAnswerError, RuntimeError):
            found = None
        self.load = self._counted.add(found) if found else {}
