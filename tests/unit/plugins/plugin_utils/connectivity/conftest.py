# SPDX-License-Identifier: Apache-2.0
"""A fabric in a few lines: what its hosts would hand in, for any fault that is put into it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

MTU = 9000
PORTS = ("enp1s0f1np1", "enP2p1s0f1np1")
OTHER_CAGE = {"enp1s0f1np1": "enp1s0f0np0", "enP2p1s0f1np1": "enP2p1s0f0np0"}
RATE = 95.0


@dataclass
class Port:
    """A port of a host, and the switch port its cable leads to."""

    name: str
    mac: str
    addresses: list[str]
    planned: str
    mtu: int = MTU
    up: bool = True
    carrier: bool = True
    there: bool = True
    other_cage: bool | None = None
    """The carrier of the port in the other cage; None while that port is switched off."""
    switch_mtu: int = 9216
    isolated: bool = False
    speed_mbit: int = 200000
    gbit: float = RATE
    route: str | None = None
    """The port by which the kernel would send instead."""


@dataclass
class Fabric:
    """Hosts with their ports, one for each rail."""

    size: int
    rails: int = 2
    bandwidth: bool = False
    switch_mtu: dict[int, int] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    strangers: dict[str, str] = field(default_factory=dict)
    """MACs of machines outside the cluster, by the address that they took."""
    slow_pairs: dict[frozenset[str], float] = field(default_factory=dict)
    dead_pairs: set[frozenset[str]] = field(default_factory=set)
    answering: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Further ports that answer for a port's address, by host and port."""
    without_iperf3: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.hosts = [f"spark{index}" for index in range(self.size)]
        self.ports = {
            host: [
                Port(
                    PORTS[rail],
                    f"02:00:00:00:{rail:02x}:{index:02x}",
                    [f"192.168.{100 + rail}.{10 + index}/24"],
                    f"192.168.{100 + rail}.{10 + index}/24",
                )
                for rail in range(self.rails)
            ]
            for index, host in enumerate(self.hosts)
        }

    def parts(self) -> dict[str, dict[str, Any]]:
        """What every host hands in, as the role puts it together."""
        return {
            host: {
                "ports": [{"port": port.name, "address": port.planned, "mtu": MTU} for port in self.ports[host]],
                "peers": self._peers(host),
                "result": {"msg": self.silent[host]} if host in self.silent else {"report": self._report(host)},
            }
            for host in self.hosts
        }

    def _peers(self, host: str) -> list[dict[str, Any]]:
        return [
            {"host": peer, "port": self.ports[host][rail].name, "address": self._bare(peer, rail), "mtu": MTU}
            for peer in self.hosts
            if peer != host
            for rail in range(self.rails)
        ]

    def _bare(self, host: str, rail: int) -> str:
        return self.ports[host][rail].planned.partition("/")[0]

    def _report(self, host: str) -> dict[str, Any]:
        ports: dict[str, Any] = {"eth0": self._facts(f"06:00:00:00:00:{self.hosts.index(host):02x}", ["10.0.0.9/24"])}
        for port in self.ports[host]:
            if port.there:
                facts = self._facts(port.mac, port.addresses, mtu=port.mtu, up=port.up, speed_mbit=port.speed_mbit)
                ports[port.name] = {**facts, "carrier": port.carrier if port.up else None}
            other = {"carrier": port.other_cage, "up": port.other_cage is not None}
            ports[OTHER_CAGE[port.name]] = {**self._facts(f"04{port.mac[2:]}", []), **other}
        return {
            "host": host,
            "problem": "",
            "ports": ports,
            "duplicates": {
                port.name: {
                    "claimants": self._claimants(host, rail),
                    "answering": self.answering.get(host, {}).get(port.name, []),
                    "problem": "",
                }
                for rail, port in enumerate(self.ports[host])
                if port.there
            },
            "routes": [self._route(host, peer) for peer in self._peers(host)],
            "paths": [self._path(host, peer) for peer in self._peers(host)],
        }

    @staticmethod
    def _facts(mac: str, addresses: list[str], **more: Any) -> dict[str, Any]:
        usual = {"mtu": 1500, "up": True, "carrier": True, "speed_mbit": 1000, "master": None, "kind": None}
        return {"mac": mac, "addresses": addresses, **usual, **more}

    def _claimants(self, host: str, rail: int) -> list[str]:
        address = self._bare(host, rail)
        others = [
            port.mac
            for other in self.hosts
            if other != host
            for port in [self.ports[other][rail]]
            if self._alive(other, rail) and address in [one.partition("/")[0] for one in port.addresses]
        ]
        return others + [mac for taken, mac in self.strangers.items() if taken == address]

    def _alive(self, host: str, rail: int) -> bool:
        port = self.ports[host][rail]
        return port.there and port.up and port.carrier and host not in self.silent

    def _route(self, host: str, peer: dict[str, Any]) -> dict[str, Any]:
        port = next(port for port in self.ports[host] if port.name == peer["port"])
        told = {"peer": peer["host"], "port": port.name, "address": peer["address"], "gateway": None}
        if not port.there or not port.addresses:
            return {**told, "dev": None, "problem": "Network is unreachable"}
        return {**told, "dev": port.route or port.name, "problem": ""}

    def _path(self, host: str, peer: dict[str, Any]) -> dict[str, Any]:
        rail = next(rail for rail, port in enumerate(self.ports[host]) if port.name == peer["port"])
        ping = self._ping(host, str(peer["host"]), rail)
        path = {**peer, "peer": peer["host"], "ping": ping, "tcp": None, "rdma": None}
        if self.bandwidth and peer["host"] not in self.silent:
            path["tcp"] = self._tcp(host, str(peer["host"]), rail, bool(ping["ok"]))
        elif self.bandwidth:
            path["tcp"] = {"gbit": None, "problem": f"{peer['host']} did not connect: nobody listens"}
        return path

    def _ping(self, host: str, peer: str, rail: int) -> dict[str, Any]:
        here, there = self.ports[host][rail], self.ports[peer][rail]
        held = [one.partition("/")[0] for one in there.addresses]
        answers = self._alive(host, rail) and self._alive(peer, rail) and self._bare(peer, rail) in held
        if not answers or not here.addresses or here.isolated or there.isolated:
            return self._lost(0)
        if frozenset({host, peer}) in self.dead_pairs:
            return self._lost(0)
        switch = min(here.switch_mtu, there.switch_mtu, self.switch_mtu.get(rail, 9216))
        largest = min(here.mtu, there.mtu, switch)
        return self._lost(largest) if largest < MTU else self._lost(MTU) | {"ok": True, "received": 2, "reason": ""}

    @staticmethod
    def _lost(largest: int) -> dict[str, Any]:
        return {"ok": False, "sent": 3, "received": 0, "reason": "loss", "detail": "3 of 3 lost", "largest": largest}

    def _tcp(self, host: str, peer: str, rail: int, full: bool) -> dict[str, Any]:
        if not full:
            return {"gbit": None, "problem": "9000-byte packets do not pass, see fabric.ping"}
        for name, words in ((host, ""), (peer, f"on {peer}: ")):
            if name in self.without_iperf3:
                return {"gbit": None, "problem": f"{words}iperf3 is not installed, install the package iperf3"}
        slowest = min(self.ports[host][rail].gbit, self.ports[peer][rail].gbit)
        return {"gbit": min(slowest, self.slow_pairs.get(frozenset({host, peer}), RATE)), "problem": ""}


@pytest.fixture(scope="session")
def new_fabric() -> type[Fabric]:
    """The model: tests make fabrics of it and put faults into them."""
    return Fabric
