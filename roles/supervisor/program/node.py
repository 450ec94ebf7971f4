# SPDX-License-Identifier: Apache-2.0
"""One group on one node: inspect, report, and make the units follow the order, in an endless loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.completion import api_key
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import Config, GroupConfig
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    NOTHING,
    Held,
    Loading,
    NodeReport,
    Order,
    UnitReport,
)

from . import caches, units
from .background import Background, NoAnswerError
from .follow import Actions, follow
from .notify import WARNING, say
from .readiness import Readiness
from .state_files import StateFiles
from .watch import Watch

INTERVAL = 2.0
SOON = 0.3
"""The pause after a start or stop: before that, systemd has hardly begun."""
PATIENCE = 5.0
"""How long to wait for a stop before looking again."""
WATCH = 5.0
"""The interval between two measurements of the engine's progress while it starts."""
QUICK = 1.0
"""How long to wait for a measurement before continuing without it."""
LIMIT = 90.0
"""For work whose own commands have shorter timeouts; reached only if a thread hangs in the kernel."""


@dataclass(frozen=True)
class Tools:
    """What a node works with; tests substitute others."""

    config: Config
    host: Host
    files: StateFiles
    background: Background
    boot: str
    clock: Callable[[], float] = time.monotonic
    interval: float = INTERVAL


@dataclass
class Node:
    """The supervisor's hands for one group."""

    tools: Tools
    group: GroupConfig
    order: Callable[[], Order | None]
    """Returns the order to follow now; None if the head is silent."""
    keep: Callable[[Held], None]
    """Writes to /run what must be there before any action; blocks."""
    heard: Callable[[], None]
    """Called with every report that contains news."""
    held: Held = field(default_factory=Held)
    report: NodeReport | None = None
    """The last report; None before the first one."""
    problem: str = ""
    """The error of the last action or inspection."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        config = self.tools.config
        self._units = self.group.plan.nodes[config.node]
        peers = self.group.plan.nodes if len(self.group.plan.nodes) > 1 else ()
        self._tokens = [path for name, path in config.tokens.items() if name in peers]
        self._tokens += [self.group.needs.token] if self.group.needs.token else []
        self._readiness = Readiness(self.group, self._tokens, self.tools.host, self.tools.background, self.tools.clock)
        self._watch = Watch(self.tools.host, self._units, self.group.needs.compile_cache, self._secrets)
        self._watched = float("-inf")
        self._loading = Loading()
        self._measuring: asyncio.Task[Loading] | None = None
        self._lines: dict[str, tuple[str, str]] = {}
        self._since: float | None = None
        """When the units that should stop were first told to."""
        self._late = ""
        self._failed = ""
        self._doing: list[str] = []
        self._tasks: list[asyncio.Task[str | None]] = []
        """References to running tasks, as the event loop itself does not keep any."""

    async def run(self) -> None:
        """Loop forever. Unexpected errors are logged and retried: a supervisor that crashes supervises nothing."""
        while True:
            acted = False
            try:
                acted = await self.once()
            except Exception as error:  # noqa: BLE001 - whatever it is, the other groups and the next pass go on
                self._tell(
                    f"group {self.group.name}: an inspection failed ({type(error).__name__}: {error}); it is retried"
                )
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.wake.wait(), SOON if acted else self.tools.interval)
            self.wake.clear()

    async def once(self) -> bool:
        """Run one pass; return whether something was started or stopped."""
        order = self.order()
        try:
            report = await self._look(order)
        except (units.NotToldError, NoAnswerError) as error:
            # The last report is still valid for what it saw, but the node must not count as ready.
            self._tell(str(error))
            if self.report is not None:
                self._publish(replace(self.report, ready=False, problems=(str(error),)))
            return False
        if report.clean:
            self._failed = ""
        self._publish(report)
        actions = follow(order, report, self._units, self.held)
        if actions.held != self.held:
            hangs = await self._work(f"recording the epoch of {self.group.name}", partial(self.keep, actions.held))
            self.held = actions.held
            if hangs:
                say(hangs, WARNING)
        actions = self._in_time(actions, report)
        if not (actions.start or actions.stop or actions.remove):
            self._tell(self._late)
            return False
        self._failed = await self._act(actions)
        self._tell(self._failed or self._late)
        return not self._late

    def _in_time(self, actions: Actions, report: NodeReport) -> Actions:
        """Return the same actions, forced if units that should stop have exceeded the timeout."""
        shown = report.units.items()
        going = actions.stop or actions.remove or any(unit.stopping for _, unit in shown)
        if report.clean or not going:
            self._since, self._late = None, ""
            return actions
        now = self.tools.clock()
        self._since = now if self._since is None else self._since
        limit = self.group.plan.timing.stop_timeout
        if now - self._since <= limit:
            return actions
        left = tuple(name for name, unit in shown if unit.active or unit.stopping)
        containers = tuple(unit.container for unit in self._units if unit.container)
        self._late = (
            f"{', '.join(left or containers)} still exists more than {limit:g} s after the order to stop, expected "
            "it to be gone: it is killed repeatedly; restart Docker or the node if that does not help"
        )
        return replace(actions, stop=left, remove=containers, force=True)

    async def _look(self, order: Order | None) -> NodeReport:
        """Build the current report; held state and order are read before the inspection, as the report promises."""
        held = self.held
        name = self.group.name
        ask = self.tools.background.ask
        names = [unit.unit for unit in self._units]
        seen = await ask(f"systemd for group {name}", partial(units.look, self.tools.host, names), LIMIT)
        wanted = order is not None and order.stage != NOTHING
        shown = {unit: await self._with_last_line(unit, one, wanted) for unit, one in seen.items()}
        drained = await ask(f"the drain marker for group {name}", self.tools.files.drained, LIMIT)
        problems: list[str] = []
        clean = not any(unit.active or unit.stopping for unit in shown.values())
        if clean:
            clean = not await self._containers(problems)
        if clean:
            problems += await self._readiness.problems()
        else:
            await self._readiness.while_running(loading=order is not None and order.loading)
        loading = await self._load(order, seen)
        if drained:
            problems.insert(0, f"{self.tools.config.node} is drained: playbooks/uncordon.yml returns it to service")
        elif not clean:
            problems += [problem for problem in (self._failed, self._late) if problem]
        return NodeReport(
            node=self.tools.config.node,
            epoch=held.epoch,
            stage=held.stage,
            ended=held.ended,
            seen=order.epoch if order else "",
            units=shown,
            clean=clean,
            ready=clean and not problems,
            problems=tuple(problems),
            drained=drained,
            memory_free=self._readiness.memory_free,
            boot=self.tools.boot,
            loading=loading,
        )

    async def _load(self, order: Order | None, seen: Mapping[str, units.Seen]) -> Loading:
        """Measure the engine's progress, but only while the head wants to know and something runs."""
        if order is None or not order.measure or not any(one.report.active for one in seen.values()):
            self._watch.forget()
            self._loading, self._watched, self._measuring = Loading(), float("-inf"), None
            return self._loading
        now = self.tools.clock()
        if self._measuring is None:
            if now - self._watched < WATCH:
                return self._loading
            self._watched = now
            self._measuring = asyncio.create_task(self._measure(now, dict(seen)))
        # Usually done at once. Docker being slow while a model loads must not delay the report of the units.
        done, _ = await asyncio.wait({self._measuring}, timeout=QUICK)
        if done:
            self._loading, self._measuring = self._measuring.result(), None
        return self._loading

    async def _measure(self, now: float, seen: Mapping[str, units.Seen]) -> Loading:
        """Take one measurement; if it fails, the head must not conclude that the engine hangs."""
        work = partial(self._watch.look, now, seen)
        try:
            return await self.tools.background.ask(f"the progress of group {self.group.name}", work, LIMIT)
        except NoAnswerError:
            return replace(self._loading, known=False)
        except Exception as error:  # noqa: BLE001 - whatever it is, the units are still inspected
            self._tell(
                f"group {self.group.name}: the progress of its engine cannot be measured "
                f"({type(error).__name__}: {error})"
            )
            return Loading()

    async def _containers(self, problems: list[str]) -> bool:
        """Whether a container is or may be left."""
        names = [unit.container for unit in self._units if unit.container]
        try:
            work = partial(units.containers_left, self.tools.host, names)
            return bool(await self.tools.background.ask(f"Docker for group {self.group.name}", work, LIMIT))
        except (units.NotToldError, NoAnswerError) as error:
            problems.append(str(error))
            return True

    async def _with_last_line(self, unit: str, seen: units.Seen, wanted: bool) -> UnitReport:
        """Add the last log line to a unit that ended by itself; the journal is read once for each end."""
        report = seen.report
        before = self.report.units.get(unit) if self.report else None
        ended = before and (before.last_line or (before.active and wanted))
        if report.active or report.stopping or not (report.failed or ended):
            return report
        when, line = self._lines.get(unit, ("", ""))
        if when != seen.changed:
            line = await self._work(f"the journal of {unit}", partial(self._said_last, unit, seen)) or ""
            self._lines[unit] = (seen.changed, line)
        return replace(report, last_line=line)

    def _said_last(self, unit: str, seen: units.Seen) -> str:
        return units.last_line(self.tools.host, unit, seen.invocation, seen.ended, self._secrets())

    def _secrets(self) -> list[str]:
        """Return the secrets that this machine has, so that no output of the engine leaves it with them."""
        key_path = self.group.question.key_path
        key = api_key(self.tools.host.read_text(key_path) or "") if key_path else ""
        tokens = [(self.tools.host.read_text(path) or "").strip() for path in self._tokens]
        return [secret for secret in (key, *tokens) if secret]

    async def _act(self, actions: Actions) -> str:
        """Run the actions, each unit in a thread of its own; return the errors."""
        host, group = self.tools.host, self.group.name
        work: list[tuple[str, Callable[[], str | None]]] = []
        if actions.start:
            problem = await self._readiness.drop_caches()
            if problem:
                say(problem, WARNING)
        if actions.discard:
            await self._discard()
        work += [(f"starting {unit}", partial(units.start, host, unit)) for unit in actions.start]
        work += [(f"stopping {unit}", partial(units.stop, host, unit)) for unit in actions.stop]
        if actions.force:
            work += [(f"killing {unit}", partial(units.kill, host, unit)) for unit in actions.stop]
        work += [(f"removing {name}", partial(units.remove, host, name)) for name in actions.remove]
        doing = [what for what, _ in work]
        if doing != self._doing:
            say(f"group {group}: {', '.join(doing)}")
        self._doing = doing
        self._tasks = [task for task in self._tasks if not task.done()]
        tasks = [asyncio.create_task(self._work(what, one)) for what, one in work]
        # A start must have reached systemd before the next inspection; a stop that hangs is inspected in the meantime.
        await asyncio.wait(tasks, timeout=None if actions.start else PATIENCE)
        done = [task.result() for task in tasks if task.done()]
        self._tasks += [task for task in tasks if not task.done()]
        return "; ".join(problem for problem in done if problem)

    async def _discard(self) -> None:
        """Discard the group's compile cache; if that fails, the start goes on with it."""
        path = self.group.needs.compile_cache
        if not path:
            return
        say(f"group {self.group.name}: discarding the compile cache ({path})")
        problem = await self._work(f"emptying {path}", partial(caches.empty, path))
        if problem:
            say(problem, WARNING)

    async def _work(self, what: str, work: Callable[[], str | None]) -> str | None:
        """Return the error of the work, if any; a hang is reported like any other failure."""
        try:
            return await self.tools.background.ask(what, work, LIMIT)
        except NoAnswerError as error:
            return str(error)

    def _publish(self, report: NodeReport) -> None:
        before, self.report = self.report, report
        if before is None or before.lasting != report.lasting:
            self.heard()

    def _tell(self, problem: str) -> None:
        """Log a problem once, not with every pass."""
        if problem and problem != self.problem:
            say(problem, WARNING)
        self.problem = problem
