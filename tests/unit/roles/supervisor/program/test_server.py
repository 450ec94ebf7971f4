# SPDX-License-Identifier: Apache-2.0
"""The head's door, when strangers stand in it: the nodes of the plan come in, and the journal stays short."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import parse_config
from ansible_collections.firstlight.cluster.roles.supervisor.program import server as server_module
from ansible_collections.firstlight.cluster.roles.supervisor.program.server import (
    OF_ONE_ADDRESS,
    STRANGERS,
    Server,
)
from ansible_collections.firstlight.cluster.roles.supervisor.program.wire import (
    LINE_LIMIT,
    NONCE_BYTES,
    NodeHandshake,
)

from tests.unit.plugins.module_utils.supervisor.test_config import RIGHT

pytestmark = pytest.mark.hostile

TOKEN = b"token-of-the-cluster-0123456789"
NODE = "192.168.100.11"


class Writer:
    """The head's end of a connection, without a socket."""

    def __init__(self, peer: str) -> None:
        self.peer, self.sent, self.closed = peer, b"", False
        self.transport = self

    def get_extra_info(self, name: str) -> tuple[str, int]:
        assert name == "peername"
        return self.peer, 40000

    def write(self, data: bytes) -> None:
        self.sent += data

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def close(self) -> None:
        self.closed = True


class Visit:
    """A connection from an address."""

    def __init__(self, door: Server, peer: str) -> None:
        self.reader, self.writer = asyncio.StreamReader(limit=LINE_LIMIT), Writer(peer)
        self.task = asyncio.create_task(door._come_in(self.reader, self.writer))  # type: ignore[arg-type]

    async def hello(self) -> bytes:
        """What the head says first; nothing where it has turned away."""
        for _ in range(20):
            await asyncio.sleep(0)
        return self.writer.sent

    async def prove(self) -> None:
        own = NodeHandshake("spark1", "spark0", TOKEN, RIGHT["plan"], secrets.token_bytes(NONCE_BYTES))
        hello = await self.hello()
        self.reader.feed_data(own.prove(hello))
        for _ in range(20):
            await asyncio.sleep(0)
        own.accept(hello, self.writer.sent[len(hello) :])

    async def end(self) -> None:
        self.reader.feed_eof()
        await self.task


def told(story: Callable[[Server], Awaitable[None]], **changes: Any) -> Server:
    """The head's door after a story."""

    async def run() -> Server:
        async def token(*_: str) -> bytes:
            return TOKEN

        document = {**RIGHT, "node": "spark0", "addresses": {"spark0": "192.168.100.10", "spark1": NODE}, **changes}
        door = Server(parse_config(document), token, lambda: None)
        await story(door)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        return door

    return asyncio.run(run())


def test_silent_strangers_do_not_keep_a_node_of_the_plan_out() -> None:
    async def story(door: Server) -> None:
        crowd = [Visit(door, f"10.0.{number // 250}.{number % 250}") for number in range(300)]
        inside = [bool(await visit.hello()) for visit in crowd]
        assert sum(inside) == STRANGERS
        await Visit(door, NODE).prove()

    told(story)


def test_one_address_has_a_few_places_and_gets_them_back() -> None:
    async def story(door: Server) -> None:
        for peer in ("10.0.0.1", NODE):
            visits = [Visit(door, peer) for _ in range(OF_ONE_ADDRESS + 3)]
            inside = [visit for visit in visits if await visit.hello()]
            assert len(inside) == OF_ONE_ADDRESS
            assert all(visit.writer.closed for visit in visits if visit not in inside)
            for visit in inside:
                await visit.end()
            assert await Visit(door, peer).hello()

    told(story)


def test_without_addresses_nodes_come_in_all_the_same() -> None:
    async def story(door: Server) -> None:
        await Visit(door, NODE).prove()

    told(story, addresses={})


def test_a_handshake_in_drops_has_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HANDSHAKE_SECONDS", 0.05)

    async def story(door: Server) -> None:
        visit = Visit(door, "10.0.0.1")
        while not visit.task.done():
            visit.reader.feed_data(b"{")
            await asyncio.sleep(0.005)
        assert visit.writer.closed

    told(story)


def claim(version: object) -> bytes:
    return json.dumps({"version": version, "node": "spark1"}).encode() + b"\n"


def test_whoever_lies_in_the_name_of_a_node_does_not_fill_the_journal(capfd: pytest.CaptureFixture[str]) -> None:
    async def story(door: Server) -> None:
        for number in range(100):
            visit = Visit(door, "10.0.0.1")
            visit.reader.feed_data(claim(number + 100))
            await visit.task
        assert set(door.refusals) == {"spark1"}

    told(story)
    assert len(capfd.readouterr().out.splitlines()) == 10


def test_nobody_is_told_as_refused_while_it_is_here(capfd: pytest.CaptureFixture[str]) -> None:
    async def story(door: Server) -> None:
        await Visit(door, NODE).prove()
        liar = Visit(door, "10.0.0.1")
        liar.reader.feed_data(claim(7))
        await liar.task
        assert door.refusals == {}

    told(story)
    assert "refused" not in capfd.readouterr().out


def test_a_node_that_comes_and_goes_does_not_fill_the_journal(capfd: pytest.CaptureFixture[str]) -> None:
    async def story(door: Server) -> None:
        for _ in range(50):
            visit = Visit(door, NODE)
            await visit.prove()
            await visit.end()

    told(story)
    assert len(capfd.readouterr().out.splitlines()) == 10
