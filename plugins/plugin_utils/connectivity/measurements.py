# SPDX-License-Identifier: Apache-2.0
"""What all hosts of a fabric saw, put together: rails, paths, ports, and who said nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.ports import bare, own_rails
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import last_line

DEAD, CUT, LOSS = "dead", "cut", "loss"
"""What is wrong with a path: nothing passes, only smaller packets do, or some packets are lost."""


@dataclass(frozen=True)
class Path:
    """One direction between two hosts on one rail, as its sender saw it."""

    host: str
    peer: str
    rail: int
    port: str
    address: str
    mtu: int
    ping: Mapping[str, Any]
    tcp: Mapping[str, Any] | None = None
    rdma: Mapping[str, Any] | None = None

    @property
    def ok(self) -> bool:
        """Whether packets that fill the MTU all came back."""
        return bool(self.ping.get("ok"))

    @property
    def largest(self) -> int:
        """The largest packet that passes; 0 where none does."""
        return int(self.ping.get("largest") or 0)

    @property
    def failure(self) -> str:
        """What is wrong; empty where nothing is."""
        if self.ok:
            return ""
        if self.ping.get("received"):
            return LOSS
        return CUT if 0 < self.largest < self.mtu else DEAD

    def measured(self, kind: str) -> Mapping[str, Any] | None:
        """A measurement of throughput, `tcp` or `rdma`; None where none was asked for."""
        return self.tcp if kind == "tcp" else self.rdma

    def touches(self, host: str, rail: int) -> bool:
        """Whether this path begins or ends at a host's port."""
        return self.rail == rail and host in (self.host, self.peer)


@dataclass
class Measurements:
    """The fabric as its hosts saw it."""

    members: list[str]
    rails: dict[str, list[dict[str, Any]]]
    """Each host's rails in the order of the plan: port, address with prefix (null where not planned), MTU."""
    reports: dict[str, Mapping[str, Any]]
    silent: dict[str, str]
    """Hosts that were asked and handed in nothing, with the reason."""
    paths: list[Path] = field(default_factory=list)

    def port(self, host: str, rail: int) -> str:
        """The name of a host's port on a rail; the rail's number where the host's plan is not known."""
        rails = self.rails.get(host) or []
        known = rails[rail].get("port") if rail < len(rails) else None
        return str(known) if known else f"rail {rail + 1}"

    def facts(self, host: str, rail: int) -> Mapping[str, Any] | None:
        """What a host read of its own port; None where it has no such port."""
        ports = (self.reports.get(host) or {}).get("ports") or {}
        found = ports.get(self.port(host, rail))
        return found if isinstance(found, Mapping) else None

    def owner(self, mac: str) -> tuple[str, str] | None:
        """The host and port that have a MAC."""
        for host, report in self.reports.items():
            for port, facts in (report.get("ports") or {}).items():
                if str(facts.get("mac") or "").lower() == mac.lower():
                    return host, str(port)
        return None

    def rail_of(self, host: str, port: str) -> int | None:
        """The number of the rail that a host's port is on; None where it is on none."""
        listed = [str(rail["port"]) for rail in self.rails.get(host) or []]
        return listed.index(port) if port in listed else None

    @property
    def rail_count(self) -> int:
        """How many rails the fabric has."""
        return max((len(rails) for rails in self.rails.values()), default=0)


def put_together(members: Sequence[str], parts: Mapping[str, Mapping[str, Any]]) -> Measurements:
    """The hosts' results as one picture.

    `parts`: for every host that was asked its planned `ports`, its `peers`, the `result` of module fabric_connectivity,
    and whether it was known to be `absent`.
    """
    rails: dict[str, list[dict[str, Any]]] = {}
    reports: dict[str, Mapping[str, Any]] = {}
    silent: dict[str, str] = {}
    for host, part in parts.items():
        rails[host] = own_rails(list(part.get("ports") or []), list(part.get("peers") or []))
        result = part.get("result") or {}
        report = result.get("report")
        if isinstance(report, Mapping) and report.get("paths") is not None:
            reports[host] = report
        else:
            silent[host] = last_line(result.get("msg")) or _silence(part, result)
    names = list(members) or sorted({*parts, *_named(parts)})
    seen = Measurements(names, rails, reports, silent)
    seen.paths = [path for host, report in reports.items() for path in _paths(seen, host, report)]
    return seen


def _silence(part: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Why a host that said nothing did so."""
    if not result.get("skipped"):
        return "it handed in no result"
    return "it did not answer before" if part.get("ports") or part.get("absent") else "none of its rails has a port"


def _named(parts: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    return (str(peer["host"]) for part in parts.values() for peer in part.get("peers") or [])


def _paths(seen: Measurements, host: str, report: Mapping[str, Any]) -> Iterable[Path]:
    for entry in report.get("paths") or []:
        rail = seen.rail_of(host, str(entry["port"]))
        yield Path(
            host=host,
            peer=str(entry["peer"]),
            rail=0 if rail is None else rail,
            port=str(entry["port"]),
            address=bare(entry["address"]),
            mtu=int(entry["mtu"]),
            ping=entry.get("ping") or {},
            tcp=entry.get("tcp"),
            rdma=entry.get("rdma"),
        )


def _one_line(text: object) -> str:
    return " ".join(str(text or "").split())[:300]
