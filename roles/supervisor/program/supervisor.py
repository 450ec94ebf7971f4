# SPDX-License-Identifier: Apache-2.0
"""One supervisor: its groups, connections, files and signals, in one loop that never blocks."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import Config, GroupConfig
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import Held, NodeReport

from . import codec
from .background import Background, NoAnswerError
from .client import Client
from .follow import held_from_data, held_to_data
from .head import GroupHead
from .node import INTERVAL, Node, Tools
from .notify import ERROR, WARNING, Systemd, say
from .picture import Picture
from .server import Server
from .shown import Clocks, past
from .state_files import StateFiles, boot_id

TICK = 0.5
FILE_SECONDS = 8.0
"""The timeout for a small file; shorter than the nodes wait for a message of the head."""
FIRST_LOOK_SECONDS = 30.0
LAST_WORDS_SECONDS = 2.0
"""How long to wait for the last order to reach the nodes before this supervisor exits."""
STOPPED, GIVEN_UP = 0, 3


class Supervisor:
    """Runs until it is stopped, or until every group that it decides for has been given up."""

    def __init__(
        self,
        config: Config,
        host: Host,
        files: StateFiles,
        systemd: Systemd,
        boot: str = "",
        interval: float = INTERVAL,
    ) -> None:
        self._config = config
        self._files = files
        self._systemd = systemd
        self._boot = boot or boot_id()
        self._tools = Tools(config, host, files, Background(), self._boot, interval=interval)
        self._clock = self._tools.clock
        self._lock = threading.Lock()
        self._token_lock = asyncio.Lock()
        self._wake = asyncio.Event()
        self._stop = False
        self._problem = ""
        self._shown_at = float("-inf")
        self._sent_at = float("-inf")
        self._fed_at = float("-inf")
        self._unwritten = False
        self._showing: asyncio.Task[None] | None = None
        self._remembered = files.remembered()
        self._held = {name: held_from_data(data) for name, data in files.epochs(self._boot).items()}
        self._heads = {group.name: self._head(group) for group in config.headed}
        remote = any(len(group.plan.nodes) > 1 for group in config.headed)
        self._server = Server(config, self._token, self._wake.set, self._clock) if remote else None
        self._client = (
            Client(config, self._token, self._reports, self._ordered, interval, self._clock)
            if config.followed
            else None
        )
        self._nodes = {group.name: self._node(group) for group in config.groups}
        self._picture = Picture(config, self._nodes, self._heads, self._server, self._client, self._clock)

    def _head(self, group: GroupConfig) -> GroupHead:
        head = GroupHead(self._tools, group, self._remembered.get(group.name, {}), self._remember, self._wake.set)
        head.history = past(self._files.shown(), group.name, self._clocks())
        return head

    def _node(self, group: GroupConfig) -> Node:
        head = self._heads.get(group.name)
        order = head.order if head else partial(self._followed, group.name)
        keep = partial(self._keep, group.name)
        held = self._held.get(group.name, Held())
        return Node(self._tools, group, order=order, keep=keep, heard=self._reported, held=held)

    async def run(self) -> int:
        """Run the loop; return the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self.restart)
        say(f"supervising {', '.join(self._nodes)} on {self._config.node}, head {self._config.head}")
        work: list[Callable[[], Awaitable[None]]] = [node.run for node in self._nodes.values()]
        work += [part.run for part in (self._server, self._client) if part]
        tasks = [asyncio.create_task(self._for_ever(one)) for one in work]
        try:
            return await self._decide()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=1)

    def stop(self) -> None:
        """Exit; the units stay as they are."""
        say("stopped by request: the units keep running")
        self._stop = True
        self._wake.set()

    def restart(self) -> None:
        """Stop and start the groups again; only their head can do that."""
        names = ", ".join(self._heads)
        say(f"a restart of {names} was requested" if names else "a new inspection of all units was requested")
        for head in self._heads.values():
            head.restart()
        for node in self._nodes.values():
            node.wake.set()
        self._wake.set()

    async def _for_ever(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - the other parts go on, and this one is restarted
                say(f"a part of the supervisor failed ({type(error).__name__}: {error}); it is restarted", ERROR)
            await asyncio.sleep(1)

    async def _decide(self) -> int:
        """The main loop: decide, send orders, write the state, and feed systemd's watchdog."""
        began, ready = self._clock(), False
        while not self._stop:
            self._wake.clear()
            self._feed()
            await self._tick()
            if not ready and (
                self._clock() - began > FIRST_LOOK_SECONDS or all(n.report for n in self._nodes.values())
            ):
                self._systemd.ready()
                ready = True
            if ready and self._has_given_up():
                return await self._leave()
            self._systemd.status(self._picture.line(self._problem))
            self._show()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), min(TICK, self._tools.interval))
        self._systemd.stopping()
        return STOPPED

    def _feed(self) -> None:
        watchdog = self._systemd.watchdog
        if watchdog and self._clock() - self._fed_at >= min(watchdog / 4, 5.0):
            self._fed_at = self._clock()
            self._systemd.alive()

    async def _tick(self) -> None:
        """Decide for every group of this head; send changed orders at once, and all of them every few seconds."""
        refusals = self._server.refusals if self._server else {}
        before = {name: self._order(head) for name, head in self._heads.items()}
        for name, head in self._heads.items():
            await head.tick({node: report for node, (_, report) in self._picture.heard_of(name).items()}, refusals)
        orders = {name: self._order(head) for name, head in self._heads.items()}
        if orders == before and self._clock() - self._sent_at < self._tools.interval:
            return
        self._sent_at = self._clock()
        if self._server:
            self._server.send(orders)
        for name, order in orders.items():
            if order != before[name]:
                self._nodes[name].wake.set()

    def _order(self, head: GroupHead) -> Mapping[str, Any]:
        decision = head.decision
        if decision is None:
            return {}
        return {"order": codec.order_to_data(decision.order), "phase": decision.phase, "why": decision.why}

    def _has_given_up(self) -> bool:
        decisions = [head.decision for head in self._heads.values()]
        if not decisions or self._client:
            return False
        return all(decision is not None and decision.phase == "failed" for decision in decisions)

    async def _leave(self) -> int:
        """Exit after the last group has been given up: nothing more can be done before a person has looked."""
        self._systemd.status(self._picture.line(self._problem))
        if self._showing:  # an older state is being written
            await asyncio.wait({self._showing}, timeout=LAST_WORDS_SECONDS)
        last = self._show(now=True)
        if last:
            await asyncio.wait({last}, timeout=LAST_WORDS_SECONDS)
        if self._server:
            await asyncio.sleep(LAST_WORDS_SECONDS)
        say("exits, as no group is left to supervise", ERROR)
        return GIVEN_UP

    # --- callbacks -----------------------------------------------------------------------------------------------

    def _reported(self) -> None:
        """This node's report contains news."""
        self._wake.set()
        if self._client:
            self._client.report()

    def _ordered(self) -> None:
        """The head's message contains news."""
        self._wake.set()
        for group in self._config.followed:
            self._nodes[group.name].wake.set()

    def _followed(self, name: str) -> Any:
        return self._client.order(name) if self._client else None

    def _reports(self) -> dict[str, NodeReport]:
        own = {group.name: self._nodes[group.name].report for group in self._config.followed}
        return {name: report for name, report in own.items() if report}

    async def _token(self, node: str) -> bytes:
        """Read the current token of a node, as it may be replaced at any time; empty if there is none."""
        path = self._config.tokens.get(node)
        if path is None:
            return b""
        work = partial(self._tools.host.read_text, path)
        # After a power cut, all nodes connect at the same time.
        async with self._token_lock:
            try:
                text = await self._tools.background.ask(f"reading {path}", work, FILE_SECONDS)
            except NoAnswerError:
                text = None
        return (text or "").strip().encode()

    def _keep(self, name: str, held: Held) -> None:
        """Persist what is held. Called in threads: two groups may do so at the same time."""
        with self._lock:
            self._held[name] = held
            groups = {one: held_to_data(value) for one, value in self._held.items()}
            problem = self._files.keep_epochs(self._boot, groups)
        if problem:
            say(problem, WARNING)

    async def _remember(self, name: str, remember: Mapping[str, Any]) -> None:
        self._remembered[name] = dict(remember)
        self._tell(await self._write_remembered())

    async def _write_remembered(self) -> str:
        """Persist what must be remembered; a failure is retried with the next state until it succeeds."""
        work = partial(self._files.remember, dict(self._remembered))
        problem = await self._written(f"writing {self._files.remembered_path}", work)
        self._unwritten = bool(problem)
        return problem

    def _show(self, *, now: bool = False) -> asyncio.Task[None] | None:
        """Write the state in a task: a disk that hangs must not block the loop."""
        if self._showing is not None and not self._showing.done():
            return self._showing
        if not now and self._clock() - self._shown_at < min(self._tools.interval, 2.0) and not self._picture.news():
            return None
        self._shown_at = self._clock()
        self._showing = asyncio.create_task(self._shown(self._picture.state(self._problem, self._clocks())))
        return self._showing

    async def _shown(self, state: Mapping[str, Any]) -> None:
        problem = await self._written(f"writing {self._files.state_path}", partial(self._files.show, state))
        if self._unwritten:
            problem = await self._write_remembered()
        self._tell(problem)

    def _clocks(self) -> Clocks:
        return Clocks(self._clock(), time.time())

    async def _written(self, what: str, work: Callable[[], str]) -> str:
        try:
            return await self._tools.background.ask(what, work, FILE_SECONDS)
        except NoAnswerError as error:
            return f"{error}, expected the disk to accept it: see dmesg; the supervisor continues meanwhile"

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:
            say(problem, WARNING)
        self._problem = problem
