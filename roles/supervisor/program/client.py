# SPDX-License-Identifier: Apache-2.0
"""A node's connection to the head, for sending reports and receiving orders; it is re-established when it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import Config
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import NodeReport, Order

from . import codec
from .follow import WAIT
from .notify import WARNING, say
from .wire import LINE_LIMIT, NONCE_BYTES, Channel, NodeHandshake, RefusedError, WireError

CONNECT_SECONDS = 5.0
HANDSHAKE_SECONDS = 10.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 5.0


@dataclass(frozen=True)
class Told:
    """The head's last message about one group."""

    at: float
    order: Order
    phase: str = ""
    why: str = ""


class Client:
    """The connection of one node, for all its groups.

    `reports` returns the last report of every group; `heard` is called when an order contains news.
    """

    def __init__(
        self,
        config: Config,
        token: Callable[[str], Awaitable[bytes]],
        reports: Callable[[], Mapping[str, NodeReport]],
        heard: Callable[[], None],
        interval: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._token = token
        self._reports = reports
        self._heard = heard
        self._interval = interval
        self._clock = clock
        self._started = clock()
        self._groups = {group.name: group.plan for group in config.followed}
        self._heartbeat_timeout = max(plan.timing.heartbeat_timeout for plan in self._groups.values())
        self._changed = asyncio.Event()
        self.told: dict[str, Told] = {}
        self.connected = False
        self.problem = ""

    def order(self, group: str) -> Order | None:
        """Return the order to follow now; None once the head has been silent for too long.

        The last order is valid for `heartbeat_timeout`; at the beginning, the node waits for the first one as long.
        """
        told, lost = self.told.get(group), self._groups[group].timing.heartbeat_timeout
        now = self._clock()
        if told and now - told.at < lost:
            return told.order
        return WAIT if not told and now - self._started < lost else None

    def report(self) -> None:
        """Send a new report at once."""
        self._changed.set()

    async def run(self) -> None:
        """Reconnect forever."""
        pause = SHORTEST_PAUSE
        while True:
            began = self._clock()
            try:
                await self._visit()
            except (TimeoutError, WireError, OSError, ValueError, asyncio.IncompleteReadError) as error:
                self._tell(self._words(error))
            was_connected, self.connected = self.connected, False
            if was_connected:
                say(f"the connection to {self._config.head} ended: {self.problem}", WARNING)
                self._heard()
            # Several attempts must fit into the time after which a node counts as lost.
            longest = min(LONGEST_PAUSE, self._heartbeat_timeout / 4)
            pause = SHORTEST_PAUSE if self._clock() - began > longest else min(pause * 2, longest)
            await asyncio.sleep(pause)

    def _words(self, error: Exception) -> str:
        head = f"{self._config.head} ({self._config.head_address}:{self._config.port})"
        if isinstance(error, RefusedError):
            return str(error)
        said = getattr(error, "strerror", None) or str(error) or "no answer in time"
        return (
            f"the supervisor of {head} cannot be reached ({said}), expected it over the fabric: check that the node is "
            "up and systemctl status firstlight-supervisor there"
        )

    async def _visit(self) -> None:
        """Serve one connection until it ends."""
        token = await self._token(self._config.node)
        if not token:
            raise ValueError(f"{self._config.tokens[self._config.node]} is missing or empty")
        opening = asyncio.open_connection(self._config.head_address, self._config.port, limit=LINE_LIMIT)
        reader, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
        try:
            channel = await asyncio.wait_for(self._greet(token, reader, writer), HANDSHAKE_SECONDS)
            self.connected = True
            self._tell("")
            say(f"connected to {self._config.head}")
            self._heard()
            await self._talk(channel, reader, writer)
        finally:
            with contextlib.suppress(OSError, RuntimeError):
                writer.close()

    async def _greet(self, token: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Channel:
        nonce = secrets.token_bytes(NONCE_BYTES)
        handshake = NodeHandshake(
            node=self._config.node, head=self._config.head, token=token, plan=self._config.plan, nonce=nonce
        )
        hello = await reader.readline()
        if not hello:
            raise WireError("it closed the connection at once")
        writer.write(handshake.prove(hello))
        return handshake.accept(hello, await reader.readline())

    async def _talk(self, channel: Channel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send and receive concurrently; the first to end also ends the other."""
        ways = {asyncio.create_task(self._send(channel, writer)), asyncio.create_task(self._receive(channel, reader))}
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in done:
                way.result()
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _send(self, channel: Channel, writer: asyncio.StreamWriter) -> None:
        while True:
            self._changed.clear()
            reports = {name: codec.report_to_data(report) for name, report in self._reports().items()}
            writer.write(channel.seal({"reports": reports}))
            await asyncio.wait_for(writer.drain(), self._heartbeat_timeout)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), self._interval)

    async def _receive(self, channel: Channel, reader: asyncio.StreamReader) -> None:
        while True:
            line = await asyncio.wait_for(reader.readline(), self._heartbeat_timeout)
            if not line:
                raise WireError("it closed the connection")
            orders = channel.open(line).get("orders")
            for name, data in (orders if isinstance(orders, Mapping) else {}).items():
                if name in self._groups and isinstance(data, Mapping):
                    self._take(name, data)

    def _take(self, name: str, data: Mapping[str, Any]) -> None:
        told = Told(
            self._clock(),
            codec.order_from_data(data.get("order")),
            str(data.get("phase", "")),
            str(data.get("why", "")),
        )
        before, self.told[name] = self.told.get(name), told
        if before is None or (before.order, before.phase, before.why) != (told.order, told.phase, told.why):
            self._heard()

    def _tell(self, problem: str) -> None:
        if problem and problem != self.problem:
            say(problem, WARNING)
        self.problem = problem
