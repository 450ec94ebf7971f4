# SPDX-License-Identifier: Apache-2.0
"""The combined measurements of all hosts of a fabric: rails, paths, ports, and hosts without a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.ports import bare, own_rails
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import last_line

DEAD, CUT, LOSS = "dead", "cut", "loss"
"""Failures of a path: nothing passes, only smaller packets pass, or some packets are lost."""


@dataclass(frozen=True)
class Path:
    """One direction between two hosts on one rail, as measured by the sender."""

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
        """Whether all packets of full MTU size were answered."""
        return bool(self.ping.get("ok"))

    @property
    def largest(self) -> int:
        """The largest packet that passes; 0 if none does."""
        return int(self.ping.get("largest") or 0)

    @property
    def failure(self) -> str:
        """The kind of failure; empty if there is none."""
        if self.ok:
            return ""
        if self.ping.get("received"):
            return LOSS
        return CUT if 0 < self.largest < self.mtu else DEAD

    def measured(self, kind: str) -> Mapping[str, Any] | None:
        """Return the throughput measurement of kind `tcp` or `rdma`; None if it was not requested."""
        return self.tcp if kind == "tcp" else self.rdma

    def touches(self, host: str, rail: int) -> bool:
        """Return whether this path starts or ends at a host's port on this rail."""
        return self.rail == rail and host in (self.host, self.peer)


@dataclass
class Measurements:
    """The fabric as measured by its hosts."""

    members: list[str]
    rails: dict[str, list[dict[str, Any]]]
    """Each host's rails in the order of the plan: port, address with prefix (null if not planned), MTU."""
    reports: dict[str, Mapping[str, Any]]
    silent: dict[str, str]
    """Hosts that returned no report, with the reason."""
    paths: list[Path] = field(default_factory=list)

    def port(self, host: str, rail: int) -> str:
        """Return the name of a host's port on a rail; the rail's number if the host's plan is unknown."""
        rails = self.rails.get(host) or []
        known = rails[rail].get("port") if rail < len(rails) else None
        return str(known) if known else f"rail {rail + 1}"

    def facts(self, host: str, rail: int) -> Mapping[str, Any] | None:
        """Return a host's facts about its own port; None if it has no such port."""
        ports = (self.reports.get(host) or {}).get("ports") or {}
        found = ports.get(self.port(host, rail))
        return found if isinstance(found, Mapping) else None

    def owner(self, mac: str) -> tuple[str, str] | None:
        """Return the host and port with this MAC address."""
        for host, report in self.reports.items():
            for port, facts in (report.get("ports") or {}).items():
                if str(facts.get("mac") or "").lower() == mac.lower():
                    return host, str(port)
        return None

    def rail_of(self, host: str, port: str) -> int | None:
        """Return the index of the rail of a host's port; None if it is on none."""
        listed = [str(rail["port"]) for rail in self.rails.get(host) or []]
        return listed.index(port) if port in listed else None

    @property
    def rail_count(self) -> int:
        """The number of rails of the fabric."""
        return max((len(rails) for rails in self.rails.values()), default=0)


def put_together(members: Sequence[str], parts: Mapping[str, Mapping[str, Any]]) -> Measurements:
    """Combine the results of all hosts.

    `parts`: for every tested host, its planned `ports`, its `peers`, the `result` of module fabric_connectivity, and
    whether it was known to be `absent`.
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
    """Return why a host returned no report."""
    if not result.get("skipped"):
        return "it returned no result"
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
