# SPDX-License-Identifier: Apache-2.0
"""The head's listener: the supervisors of other nodes connect, report, and receive their orders."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.connection_slots import Places
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import Config
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import NodeReport

from . import codec
from .notify import PLAIN, WARNING, Allowance, say
from .wire import LINE_LIMIT, NONCE_BYTES, Channel, HeadHandshake, WireError

HANDSHAKE_SECONDS = 10.0
RETRY_SECONDS = 2.0
STRANGERS = 64
"""The most concurrent unauthenticated connections from addresses outside the cluster."""
OF_ONE_ADDRESS = 4
"""The most of them from one address. Each address of the cluster has as many of its own, which no stranger can take."""
UNSENT = 1 << 20
"""Bytes that may be buffered for a node that has stopped reading."""


@dataclass
class Peer:
    """An authenticated node."""

    node: str
    channel: Channel
    writer: asyncio.StreamWriter


class Server:
    """Listens on the head's fabric address. `token` reads a node's current token without blocking the loop."""

    def __init__(
        self,
        config: Config,
        token: Callable[[str], Awaitable[bytes]],
        heard: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._token = token
        self._heard = heard
        self._clock = clock
        self._groups = {group.name: group.plan for group in config.headed}
        self._nodes = {node for plan in self._groups.values() for node in plan.nodes} - {config.node}
        self._heartbeat_timeout = max(plan.timing.heartbeat_timeout for plan in self._groups.values())
        self._peers: dict[str, Peer] = {}
        self._reports: dict[tuple[str, str], tuple[float, NodeReport]] = {}
        addresses = (address for node, address in config.addresses.items() if node in self._nodes)
        self._places = Places(addresses, OF_ONE_ADDRESS, STRANGERS)
        self._allowance = Allowance()
        self.refusals: dict[str, str] = {}
        self.problem = ""

    async def run(self) -> None:
        """Listen forever: the fabric address may appear after the supervisor starts, and may vanish."""
        while True:
            address, port = self._config.head_address, self._config.port
            try:
                server = await asyncio.start_server(self._come_in, address, port, limit=LINE_LIMIT)
            except OSError as error:
                self._tell(
                    f"the supervisor cannot listen on {address}:{port} ({error.strerror or error}), expected the "
                    "fabric address on this node and a free port: see ip address, and ss -ltnp"
                )
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._tell("")
            async with server:
                await server.serve_forever()

    def heard_of(self, group: str, now: float) -> dict[str, tuple[float, NodeReport]]:
        """Return for each node the age of its last report and the report itself, unless it is too old."""
        lost = self._groups[group].timing.heartbeat_timeout
        return {
            node: (now - at, report)
            for (node, name), (at, report) in self._reports.items()
            if name == group and now - at < lost
        }

    def send(self, orders: Mapping[str, Mapping[str, Any]]) -> None:
        """Send every connected node the orders for its groups."""
        for peer in list(self._peers.values()):
            own = {name: order for name, order in orders.items() if peer.node in self._groups[name].nodes}
            transport = peer.writer.transport
            if transport.is_closing() or transport.get_write_buffer_size() > UNSENT:
                self._leave(peer)
                continue
            try:
                peer.writer.write(peer.channel.seal({"orders": own}))
            except (WireError, OSError, RuntimeError) as error:
                self._say(peer.node, f"an order for {peer.node} cannot be sent: {error}", WARNING)
                self._leave(peer)

    async def _come_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer: Peer | None = None
        try:
            address = str(writer.get_extra_info("peername")[0])
            if not self._places.take(address):
                return
            try:
                peer = await asyncio.wait_for(self._greet(reader, writer), HANDSHAKE_SECONDS)
            finally:
                self._places.give_back(address)
            if peer:
                await self._listen(peer, reader)
        except (TimeoutError, WireError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            if peer:
                reason = str(error) or f"nothing was heard for {self._heartbeat_timeout:g} s"
                self._say(peer.node, f"the connection of {peer.node} ended: {reason}", WARNING)
        finally:
            if peer:
                self._leave(peer)
            with contextlib.suppress(OSError, RuntimeError):
                writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Peer | None:
        """Authenticate the node behind a new connection; None if it is refused."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        handshake = HeadHandshake(head=self._config.node, plan=self._config.plan, nodes=self._nodes, nonce=nonce)
        writer.write(handshake.hello())
        line = await reader.readline()
        answer = handshake.answer(line, await self._token(handshake.claimed(line)))
        writer.write(answer.reply)
        await writer.drain()
        if answer.refusal is not None:
            self._refuse(answer.node, str(answer.refusal))
            return None
        if answer.channel is None:
            return None
        self.refusals.pop(answer.node, None)
        former = self._peers.pop(answer.node, None)
        if former:
            former.writer.close()
        peer = self._peers[answer.node] = Peer(answer.node, answer.channel, writer)
        self._say(peer.node, f"{peer.node} is connected")
        self._heard()
        return peer

    async def _listen(self, peer: Peer, reader: asyncio.StreamReader) -> None:
        while True:
            line = await asyncio.wait_for(reader.readline(), self._heartbeat_timeout)
            if not line:
                raise WireError("it was closed")
            reports = peer.channel.open(line).get("reports")
            for name, data in (reports if isinstance(reports, Mapping) else {}).items():
                plan = self._groups.get(name)
                if plan is None or peer.node not in plan.nodes:
                    continue
                report = codec.report_from_data(data)
                if report.node != peer.node:
                    raise WireError(f"it sent a report for {report.node}")
                _, before = self._reports.get((peer.node, name), (0.0, None))
                self._reports[peer.node, name] = (self._clock(), report)
                # Memory changes with every report, and 63 nodes report every other second.
                if before is None or before.lasting != report.lasting:
                    self._heard()

    def _leave(self, peer: Peer) -> None:
        if self._peers.get(peer.node) is peer:
            del self._peers[peer.node]
        with contextlib.suppress(OSError, RuntimeError):
            peer.writer.close()

    def _refuse(self, node: str, why: str) -> None:
        """Record a refusal under the name that was claimed: only if that is of the plan and not connected."""
        if node not in self._nodes or node in self._peers or self.refusals.get(node) == why:
            return
        if self._say(node, f"{node} is refused: {why}", WARNING):
            self.refusals[node] = why
            self._heard()

    def _say(self, node: str, text: str, priority: int = PLAIN) -> bool:
        """Log a line caused by a node, or by somebody using its name; False if there were too many."""
        allowed = self._allowance.take(self._clock(), node)
        if allowed:
            say(text, priority)
        return allowed

    def _tell(self, problem: str) -> None:
        if problem and problem != self.problem:
            say(problem, WARNING)
        self.problem = problem
