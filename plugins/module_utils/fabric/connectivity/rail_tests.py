# SPDX-License-Identifier: Apache-2.0
"""A host's path through all rounds: which partners it meets, what they measure on every rail, and the results."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ...host import Host
from .bandwidth import RDMA, TCP, Meter, both_ways
from .facts import claimants, read_ports, read_routes
from .pings import Pinger
from .ports import bare, own_rails
from .rendezvous import MeetingEndedError, Meetings, Session
from .rounds import partners, rounds

PINGED_SECONDS = 90.0
"""Seconds a partner may take to find the largest packet on a path with a size limit."""
FAREWELL_SECONDS = 1.5
"""Seconds to keep answering at the end, so that a late partner learns that this host is past its round, not gone."""
PEERS_AT_ONCE = 8
"""Peers to ping in parallel when no throughput is measured, since nobody has to wait for a partner."""

Path = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What the controller asks of this host."""

    host: str
    run: str
    members: Sequence[str]
    absent: frozenset[str]
    """Hosts that take no part in this run; nobody waits for them."""
    ports: Sequence[Mapping[str, Any]]
    peers: Sequence[Mapping[str, Any]]
    bandwidth: bool
    port: int
    start: float
    limit: float
    rdma: bool = False
    """Whether the plan uses RDMA; if not, RDMA devices are not measured."""


class RailTest:
    """One host's part. It returns plain data, which the controller evaluates together with that of all hosts."""

    def __init__(self, host: Host, task: Task, pinger: Pinger, meter: Meter) -> None:
        self._host, self._task, self._pinger, self._meter = host, task, pinger, meter
        self._rails: dict[str, dict[str, Any]] = {}

    def run(self) -> dict[str, Any]:
        """Run all tests and return everything this host can report about its fabric."""
        task, began = self._task, time.monotonic()
        ports, problem = read_ports(self._host)
        found: dict[str, Any] = {"host": task.host, "run": task.run, "ports": ports, "problem": problem}
        self._rails = {rail["port"]: rail for rail in self._known_rails(ports)}
        with ThreadPoolExecutor(max_workers=1) as pool:
            # Pings do not disturb ARP probes, so they run in parallel. Throughput tests have to wait.
            paths = None if task.bandwidth else pool.submit(self.paths, ports)
            found |= self._before(ports)
            found |= {"rounds": len(rounds(task.members)), "paths": paths.result() if paths else self.paths(ports)}
        found["seconds"] = round(time.monotonic() - began, 3)
        return found

    def paths(self, ports: Mapping[str, Mapping[str, Any]]) -> list[Path]:
        """Test every path from this host, round by round. `ports`: what this host read about its own."""
        self._rails = {rail["port"]: rail for rail in self._known_rails(ports)}
        met = list(enumerate(partners(self._task.host, rounds(self._task.members))))
        if self._task.bandwidth:
            return self._all_rounds(met, time.monotonic() + self._task.limit)
        with ThreadPoolExecutor(max_workers=PEERS_AT_ONCE) as pool:
            return [path for paths in pool.map(lambda one: self._ping(*one), met) for path in paths]

    def _known_rails(self, ports: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return this host's rails with their RDMA device; an address missing in the plan is read from the port."""
        rails = own_rails(list(self._task.ports), list(self._task.peers))
        for rail in rails:
            port = ports.get(rail["port"]) or {}
            rail["address"] = rail["address"] or next(iter(port.get("addresses") or []), None)
            rail["rdma_device"] = port.get("rdma_device") if self._task.rdma else None
        return rails

    def _before(self, ports: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Run the tests that need no partner: who else has this host's addresses, and the routes to the peers."""
        own = {str(port["mac"]): name for name, port in ports.items()}
        rails = list(self._rails.values())
        # ARP over InfiniBand has another format, and addresses are assigned differently.
        asked = [rail for rail in rails if rail["address"] and (ports.get(rail["port"]) or {}).get("ethernet")]
        with ThreadPoolExecutor(max_workers=len(asked) + 1) as pool:
            doubles = pool.map(lambda rail: claimants(rail["port"], bare(rail["address"]), own), asked)
            routes = read_routes(self._host, rails, self._task.peers)
            return {
                "routes": routes,
                "duplicates": {rail["port"]: double for rail, double in zip(asked, doubles, strict=True)},
            }

    def _all_rounds(self, met: Sequence[tuple[int, str | None]], deadline: float) -> list[Path]:
        task = self._task
        known = {name: [str(peer["address"]) for peer in task.peers if peer["host"] == name] for name in task.members}
        own = [bare(rail["address"]) for rail in self._rails.values()]
        paths: list[Path] = []
        with contextlib.closing(Meetings(task.run, task.host, own, task.port, known, task.start)) as meetings:
            meetings.listen()
            for number, partner in met:
                meetings.enter(number)
                paths += self._round(number, partner, meetings, deadline)
            meetings.enter(len(met))
            if any(path["tcp"] and "waited" not in path for path in paths):
                time.sleep(FAREWELL_SECONDS)
        return paths

    def _round(self, number: int, partner: str | None, meetings: Meetings, deadline: float) -> list[Path]:
        """Run one round: meet, ping, measure. Pings need no partner, so they are sent in any case."""
        task = self._task
        if partner is None or partner in task.absent:
            return self._ping(number, partner)
        first = list(task.members).index(task.host) < list(task.members).index(partner)
        began = time.monotonic()
        try:
            session = (meetings.call if first else meetings.await_call)(partner, deadline)
        except MeetingEndedError as error:
            problem = {"gbit": None, "problem": meetings.problem or str(error)}
            return [{**path, "tcp": problem} for path in self._ping(number, partner)]
        met = time.monotonic()
        with contextlib.closing(session):
            paths = self._ping(number, partner)
            self._measure(paths, session, first)
        took = {"waited": round(met - began, 3), "seconds": round(time.monotonic() - met, 3)}
        return [{**path, **took} for path in paths]

    def _ping(self, number: int, partner: str | None) -> list[Path]:
        """Ping one partner on all rails in parallel: each rail is a port of its own."""
        peers = [peer for peer in self._task.peers if peer["host"] == partner]
        with ThreadPoolExecutor(max_workers=len(peers) + 1) as pool:
            pinged = list(pool.map(self._pinger.path, peers))
        return [
            {"round": number, "peer": partner, "tcp": None, "rdma": None, "ping": seen}
            | {field: peer[field] for field in ("port", "address", "mtu")}
            for peer, seen in zip(peers, pinged, strict=True)
        ]

    def _measure(self, paths: list[Path], session: Session, first: bool) -> None:
        """Measure throughput on every rail that passes full-size packets both ways; on others it would only hang."""
        mine = [{"full": path["ping"]["ok"], "rdma": bool(self._device(path))} for path in paths]
        theirs, problem = _exchange(session, mine)
        for path, here, there in zip(paths, mine, theirs, strict=False):
            if not problem and not (here["full"] and there.get("full")):
                path[TCP] = _none(f"{path['mtu']}-byte packets do not pass, see fabric.ping")
                continue
            for kind in (TCP, *([RDMA] if here["rdma"] and there.get("rdma") else [])):
                if problem:
                    path[kind] = _none(problem)
                    continue
                peer = {"host": path["peer"], "address": path["address"]}
                path[kind], problem = both_ways(self._meter, kind, self._rails[path["port"]], peer, session, first)
            if here["rdma"] != bool(there.get("rdma")) and not problem:
                where = "this host" if there.get("rdma") else str(path["peer"])
                path[RDMA] = _none(f"{where} has no RDMA device behind this rail")

    def _device(self, path: Path) -> str | None:
        device = (self._rails.get(path["port"]) or {}).get("rdma_device")
        return None if device is None else str(device)


def _exchange(session: Session, mine: list[dict[str, bool]]) -> tuple[list[dict[str, Any]], str]:
    """Return what the partner reports about the rails, in their order, or why it reports nothing."""
    try:
        session.send(rails=mine)
        theirs = session.receive(PINGED_SECONDS).get("rails")
    except MeetingEndedError as error:
        return [{} for _ in mine], str(error)
    listed = [one if isinstance(one, dict) else {} for one in theirs] if isinstance(theirs, list) else []
    return [*listed, *({} for _ in mine)], ""


def _none(problem: str) -> dict[str, Any]:
    return {"gbit": None, "problem": problem}
