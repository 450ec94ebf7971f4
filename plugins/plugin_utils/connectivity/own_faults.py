# SPDX-License-Identifier: Apache-2.0
"""Faults that a host's own facts show: no report, and faulty ports, addresses and routes.

They take precedence over comparing paths: a path to a port without a cable says nothing about the switch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.ports import bare

from .diagnosis import Diagnosis, Key, listed
from .measurements import CUT, DEAD, Measurements, Path

_CAGE = re.compile(r"f\d+(?:np\d+)?$")
"""End of a port's name that identifies the cage of a two-port card: function and port number."""


@dataclass(frozen=True)
class PortFault:
    """A fault of a port, with texts that fit several ports of a host."""

    kind: str
    words: str
    remedy: str
    failures: tuple[str, ...] = ()
    """Path failures that this fault explains; empty for all."""
    others: tuple[str, ...] = field(default=(), compare=False)
    """Further ports that the text names."""


def silent_hosts(seen: Measurements) -> list[Diagnosis]:
    """Return a fault for each host without a report."""
    found = []
    for host, reason in seen.silent.items():
        remedy = f"make {host} answer (`ansible -m ping {host}`) and test the fabric again"
        explains = {key for path in seen.paths if path.peer == host for key in _keys(path, (DEAD,))}
        found.append(Diagnosis(f"{host} did not take part ({reason})", remedy, explains))
    return found


def port_faults(seen: Measurements) -> list[tuple[Diagnosis, str, frozenset[int], str]]:
    """Return faults of ports according to their hosts' own facts, as (diagnosis, host, rails, kind)."""
    found = []
    for host, report in seen.reports.items():
        if report.get("problem"):
            remedy = f"make `ip -j -d addr` work on {host}"
            found.append(
                (Diagnosis(f"{host} cannot read its ports ({report['problem']})", remedy), host, frozenset({-1}), "")
            )
            continue
        together: dict[PortFault, list[int]] = {}
        others: dict[PortFault, list[str]] = {}
        for rail in range(len(seen.rails.get(host) or [])):
            fault = port_fault(seen, host, rail)
            if fault:
                together.setdefault(fault, []).append(rail)
                others.setdefault(fault, []).extend(fault.others)
        for fault, rails in together.items():
            ports = listed(seen.port(host, rail) for rail in rails)
            explains = {
                key
                for path in seen.paths
                if path.rail in rails and host in (path.host, path.peer)
                for key in _keys(path, fault.failures)
            }
            explains |= {
                (host, kind, seen.port(host, rail), peer)
                for rail in rails
                for kind in ("port", "route", "duplicate")
                for peer in (*seen.members, "")
            }
            names = {"port": ports, "host": host, "other": listed(sorted(others[fault]))}
            finding, remedy = fault.words.format(**names), fault.remedy.format(**names)
            found.append((Diagnosis(finding, remedy, explains), host, frozenset(rails), fault.kind))
    return found


def port_fault(seen: Measurements, host: str, rail: int) -> PortFault | None:
    """Return the first fault of a port; later ones may only be its consequence."""
    planned, facts = seen.rails[host][rail], seen.facts(host, rail)
    if facts is None:
        return PortFault(
            "missing", "{host} has no port {port}", "write the port with the cable into firstlight_fabric.rails"
        )
    if not facts.get("up"):
        return PortFault("down", "{host} has {port} switched off", "run site.yml, which brings it up")
    if facts.get("carrier") is False:
        return _without_carrier(seen, host, rail)
    address = planned.get("address")
    if address and address not in (facts.get("addresses") or []):
        return _address_fault(str(address), [str(one) for one in facts.get("addresses") or []])
    mtu = facts.get("mtu")
    if isinstance(mtu, int) and mtu < int(planned["mtu"]):
        words = f"{{host}} has MTU {mtu} on {{port}}, {planned['mtu']} is planned"
        return PortFault("mtu", words, "run site.yml, which sets it (a firmware update may have reset it)", (CUT,))
    return None


def _without_carrier(seen: Measurements, host: str, rail: int) -> PortFault:
    port, ports = seen.port(host, rail), seen.reports[host].get("ports") or {}
    rails = {str(entry["port"]) for entry in seen.rails[host]}
    others = {
        name: facts
        for name, facts in ports.items()
        if name not in rails and not facts.get("addresses") and not facts.get("master") and _same_card(name, port)
    }
    plugged = tuple(name for name, facts in others.items() if facts.get("carrier"))
    if plugged:
        return PortFault(
            "cage",
            "{host} has no carrier on {port}, but on {other}: the cable is in the other cage",
            "move the cable, or write the other cage in firstlight_fabric.rails",
            others=plugged,
        )
    hidden = tuple(name for name, facts in others.items() if facts.get("carrier") is None)
    maybe = ", and that it is not in the other cage ({other} is switched off and shows no carrier)" if hidden else ""
    remedy = f"check its cable and its switch port{maybe}"
    return PortFault("carrier", "{host} has no carrier on {port}", remedy, others=hidden)


def _same_card(one: str, other: str) -> bool:
    """Return whether two port names differ only in the cage."""
    return one != other and bool(_CAGE.search(one)) and _CAGE.sub("", one) == _CAGE.sub("", other)


def _address_fault(planned: str, addresses: list[str]) -> PortFault:
    has = listed(addresses) if addresses else "no address"
    same = [one for one in addresses if bare(one) == bare(planned)]
    what = "the wrong subnet mask, " if same else ""
    return PortFault(
        "address", f"{{host}} has {what}{has} on {{port}} instead of {planned}", "run site.yml, which sets it"
    )


def duplicate_faults(seen: Measurements) -> list[tuple[Diagnosis, frozenset[tuple[str, int]]]]:
    """Return addresses used by two machines, as (diagnosis, affected ports); each address once."""
    claims: dict[str, dict[str, set[str]]] = {}
    for host, report in seen.reports.items():
        for port, double in (report.get("duplicates") or {}).items():
            rail = seen.rail_of(host, port)
            if rail is None or not double.get("claimants"):
                continue
            address = bare(
                seen.rails[host][rail].get("address")
                or next(iter((seen.facts(host, rail) or {}).get("addresses") or []), "")
            )
            claims.setdefault(address, {}).setdefault(f"{host} {port}", set()).update(double["claimants"])
    return [_duplicate(seen, address, claimed) for address, claimed in claims.items()]


def _duplicate(
    seen: Measurements, address: str, claimed: Mapping[str, set[str]]
) -> tuple[Diagnosis, frozenset[tuple[str, int]]]:
    owners = {(host, port) for host, _, port in (name.partition(" ") for name in claimed)}
    strangers = set()
    for mac in {mac for macs in claimed.values() for mac in macs}:
        owner = seen.owner(mac)
        if owner is None:
            strangers.add(mac)
        else:
            owners |= _holders(seen, owner, address)
    places = [(host, rail) for host, port in sorted(owners) if (rail := seen.rail_of(host, port)) is not None]
    told = [f"{host} ({_where(seen, host, port, address)})" for host, port in sorted(owners)]
    told += [f"a machine with the MAC {mac}" for mac in sorted(strangers)]
    if strangers:
        remedy = (
            f"find the port of {listed(sorted(strangers))} in the switch's table, and give that machine another address"
        )
    else:
        remedy = "run site.yml, which removes the address from the host that is not planned to have it"
    explains: set[Key] = {(host, kind, port, "") for host, port in owners for kind in ("duplicate", "port")}
    explains |= {
        key for path in seen.paths if any(path.touches(host, rail) for host, rail in places) for key in _keys(path, ())
    }
    explains |= {(host, "route", port, peer) for host, port in owners for peer in seen.members}
    return Diagnosis(f"{address} is assigned twice, on {' and on '.join(told)}", remedy, explains), frozenset(places)


def _holders(seen: Measurements, owner: tuple[str, str], address: str) -> set[tuple[str, str]]:
    """Return the ports of a host that have an address; another port of the host may have answered for them."""
    host, port = owner
    ports = seen.reports[host].get("ports") or {}
    held = {(host, name) for name, facts in ports.items() if address in map(bare, facts.get("addresses") or [])}
    return held or {(host, port)}


def arp_faults(seen: Measurements) -> list[Diagnosis]:
    """Return one fault for all ports that answer ARP for each other, so that packets arrive on another rail."""
    doubles = [
        (host, port)
        for host, report in seen.reports.items()
        for port, double in (report.get("duplicates") or {}).items()
        if double.get("answering")
    ]
    if not doubles:
        return []
    places = {(host, rail) for host, port in doubles if (rail := seen.rail_of(host, port)) is not None}
    explains: set[Key] = {(host, "arp", port, "") for host, port in doubles}
    explains |= {
        key for path in seen.paths if any(path.touches(*place) for place in places) for key in _keys(path, (DEAD,))
    }
    hosts = listed(dict.fromkeys(host for host, _ in doubles))
    finding = f"ports of {hosts} answer ARP for each other's addresses, as their rails are in one network"
    remedy = "run site.yml, which sets arp_ignore 1 and arp_announce 2 for the fabric ports"
    return [Diagnosis(finding, remedy, explains)]


def _where(seen: Measurements, host: str, port: str, address: str) -> str:
    rail = seen.rail_of(host, port)
    planned = "" if rail is None else str(seen.rails[host][rail].get("address") or "")
    return port if not planned or bare(planned) == address else f"{port}, planned {planned}"


def route_faults(seen: Measurements) -> list[Diagnosis]:
    """Return faults of traffic between fabric addresses that would not leave by the rail's port."""
    found: list[Diagnosis] = []
    for host, report in seen.reports.items():
        together: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for way in report.get("routes") or []:
            wrong = route_problem(way)
            if wrong:
                together.setdefault((str(way["port"]), wrong), []).append(way)
        for (port, wrong), ways in together.items():
            rail = seen.rail_of(host, port)
            explains = {(host, "route", port, str(way["peer"])) for way in ways}
            explains |= {
                key
                for path in seen.paths
                if rail is not None
                and path.touches(host, rail)
                and {path.host, path.peer} & {str(way["peer"]) for way in ways}
                for key in _keys(path, ())
            }
            ends = listed((str(way["address"]) for way in ways), most=3)
            found.append(
                Diagnosis(
                    f"{host} would send to {ends} {wrong} instead of {port}",
                    f"remove that route or rule on {host} (`ip route get {ways[0]['address']}`, `ip rule`, `ip route`)",
                    explains,
                )
            )
    return found


def route_problem(way: Mapping[str, Any]) -> str:
    """Return what is wrong with a route to a peer; empty if it leaves by the rail's port without a router."""
    if way.get("problem"):
        return f"nowhere ({way['problem']})"
    if way.get("dev") != way.get("port"):
        return f"by {way.get('dev')}"
    if way.get("gateway"):
        return f"through the router {way['gateway']}"
    return ""


def _keys(path: Path, failures: tuple[str, ...]) -> list[Key]:
    """Return the records of a path that a fault explains: ping, TCP and RDMA, unless it fails in another way."""
    if failures and path.failure not in failures and path.failure:
        return []
    return [(path.host, kind, path.port, path.peer) for kind in ("ping", "tcp", "rdma")]
