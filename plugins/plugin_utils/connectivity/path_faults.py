# SPDX-License-Identifier: Apache-2.0
"""Faults that only show by comparing paths: packets lost or limited at the switch, and slow links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.ports import MEETING_PORT

from .diagnosis import ETHERNET_MTU, SWITCH_MTU, Diagnosis, Key, listed
from .fault_isolation import FaultIsolation, Pair, isolate_fault
from .measurements import CUT, DEAD, LOSS, Measurements, Path

KINDS = {"tcp": "TCP", "rdma": "RDMA"}
_SHUT = ("nobody listens", "timed out")
"""Texts of errors for a port that a firewall may block."""


def ping_faults(seen: Measurements, explained: Callable[[Key], bool]) -> list[Diagnosis]:
    """Return faults of paths with healthy ends; the same fault on several rails is merged into one."""
    together: dict[tuple[str, str, int], list[tuple[int, list[Path]]]] = {}
    for rail in range(seen.rail_count):
        paths = [path for path in seen.paths if path.rail == rail]
        open_ = [path for path in paths if not path.failure or not explained(ping_key(path))]
        for failure in (DEAD, CUT, LOSS):
            bad = {_pair(path) for path in open_ if path.failure == failure}
            # Paths with another failure prove nothing here; healthy ones do.
            tested = bad | {_pair(path) for path in open_ if not path.failure}
            for who, concerned in _told(isolate_fault(bad, tested), open_, failure):
                together.setdefault((failure, who, _size(concerned)), []).append((rail, concerned))
    return [_ping_diagnosis(seen, failure, who, size, found) for (failure, who, size), found in together.items()]


def ping_key(path: Path) -> Key:
    """Return the key of the record of a path's pings."""
    return path.host, "ping", path.port, path.peer


def _told(found: FaultIsolation, paths: Sequence[Path], failure: str) -> Iterable[tuple[str, list[Path]]]:
    """Yield each culprit with the paths it explains; `*` stands for all hosts, and a space joins a pair."""
    bad = [path for path in paths if path.failure == failure]
    if found.everybody:
        yield "*", bad
    for host in found.hosts:
        yield host, [path for path in bad if host in (path.host, path.peer)]
    for pair in found.pairs:
        yield " ".join(sorted(pair)), [path for path in bad if _pair(path) == pair]


def _ping_diagnosis(
    seen: Measurements, failure: str, who: str, size: int, found: Sequence[tuple[int, list[Path]]]
) -> Diagnosis:
    paths = [path for _, concerned in found for path in concerned]
    mtu = max(path.mtu for path in paths)
    explains = {(path.host, kind, path.port, path.peer) for path in paths for kind in ("ping", "tcp", "rdma")}
    hosts = list(dict.fromkeys(path.host for path in paths)) if who == "*" else who.split()
    ports = listed(dict.fromkeys(seen.port(host, rail) for rail, _ in found for host in hosts))
    if who == "*":
        subject, switch = f"between all hosts on {ports}", "the switch"
    elif " " in who:
        subject, switch = f"between {hosts[0]} and {hosts[1]} on {ports}", "what is between the two"
    else:
        subject, switch = f"to and from {who} on {ports}", f"the switch port of {who}"
    if failure == CUT:
        jumbo = mtu > ETHERNET_MTU >= size
        cause = f"{switch} does not pass jumbo frames" if jumbo else f"{switch} passes less"
        other = f" (or firstlight_fabric.mtu to {ETHERNET_MTU})" if jumbo and who == "*" else ""
        finding = f"{subject} at most {size}-byte packets arrive, {mtu} are expected, and the hosts' ports are right"
        where = f"the switch port MTU of {who}" if " " not in who and who != "*" else "the switch port MTU"
        return Diagnosis(f"{finding}: {cause}", f"set {where} to >= {max(SWITCH_MTU, mtu + 216)}{other}", explains)
    if failure == LOSS:
        remedy = f"reseat or replace the cable, and check the error counters (`ethtool -S {ports.split()[0]}`)"
        return Diagnosis(f"{subject} packets are lost", remedy, explains)
    if who == "*":
        remedy = "check the switch and the VLAN of this rail"
    elif " " in who:
        remedy = "check what the switch forwards between their two ports (port isolation, VLAN), and firewalls on both"
    else:
        remedy = (
            f"check the VLAN of {who}'s switch port, that its cables are not swapped between rails, and its firewall"
        )
    return Diagnosis(f"{subject} nothing arrives, though ports and addresses are right", remedy, explains)


def slow_faults(
    seen: Measurements, minimum_bandwidth: Mapping[str, Any], explained: Callable[[Key], bool]
) -> list[Diagnosis]:
    """Return faults of paths below the minimum throughput, by what the slow ones share."""
    together: dict[tuple[str, str, str], list[tuple[int, list[Path]]]] = {}
    for kind in KINDS:
        minimum = minimum_of(minimum_bandwidth, kind)
        for rail in range(seen.rail_count):
            measured = [path for path in seen.paths if path.rail == rail and rate(path, kind) is not None]
            measured = [path for path in measured if not explained((path.host, kind, path.port, path.peer))]
            for way, who, slow in _slow_sides(measured, kind, minimum):
                together.setdefault((kind, way, who), []).append((rail, slow))
    return [
        _slow_diagnosis(seen, kind, way, who, minimum_bandwidth, found) for (kind, way, who), found in together.items()
    ]


def _slow_sides(measured: Sequence[Path], kind: str, minimum: float) -> Iterable[tuple[str, str, list[Path]]]:
    """Yield culprits of slow paths: a host's port in both or one direction, all hosts, or a single pair."""
    slow = [path for path in measured if (rate(path, kind) or 0.0) < minimum]
    pairs = {_pair(path) for path in slow}
    # A pair is slow if both directions are; a single direction points to a sender or a receiver.
    both = {pair for pair in pairs if all(path in slow for path in measured if _pair(path) == pair)}
    found = isolate_fault(both, {_pair(path) for path in measured})
    if found.everybody:
        yield "both", "*", slow
        return
    left = list(slow)
    for host in found.hosts:
        yield "both", host, [path for path in left if host in (path.host, path.peer)]
        left = [path for path in left if host not in (path.host, path.peer)]
    for way in ("sends", "receives"):
        for host in sorted({_end(path, way) for path in left}):
            ours = [path for path in measured if _end(path, way) == host]
            if len(ours) > 1 and all(path in left for path in ours):
                yield way, host, ours
                left = [path for path in left if path not in ours]
    for pair in sorted({_pair(path) for path in left}, key=sorted):
        yield "both", " ".join(sorted(pair)), [path for path in left if _pair(path) == pair]


def _end(path: Path, way: str) -> str:
    return path.host if way == "sends" else path.peer


def _slow_diagnosis(
    seen: Measurements,
    kind: str,
    way: str,
    who: str,
    minimum_bandwidth: Mapping[str, Any],
    found: Sequence[tuple[int, list[Path]]],
) -> Diagnosis:
    paths = [path for _, slow in found for path in slow]
    rates = sorted(rate(path, kind) or 0.0 for path in paths)
    figures = f"{rates[0]:.3g}" if rates[0] == rates[-1] else f"{rates[0]:.3g} to {rates[-1]:.3g}"
    minimum = minimum_of(minimum_bandwidth, kind)
    explains = {(path.host, kind, path.port, path.peer) for path in paths}
    hosts = list(dict.fromkeys(path.host for path in paths)) if who == "*" else who.split()
    ports = listed(dict.fromkeys(seen.port(host, rail) for rail, _ in found for host in hosts))
    speeds = _slower_links(seen, hosts, [rail for rail, _ in found]) if who != "*" else ""
    if who == "*":
        subject = f"every path on {ports} is slow"
        remedy = "check the switch (speed, autonegotiation, FEC), or correct firstlight_fabric.minimum_bandwidth"
    elif " " in who:
        subject = f"between {hosts[0]} and {hosts[1]} on {ports} it is slow"
        remedy = f"check the error counters of both ends (`ethtool -S {ports.split()[0]}`) and what else was running"
    else:
        words = {
            "both": f"every path of {who}",
            "sends": f"all that {who} sends",
            "receives": f"all that {who} receives",
        }
        subject = f"{words[way]} on {ports} is slow"
        remedy = f"check the speed, cable and switch port of {ports} on {who} (`ethtool {ports.split()[0]}`)"
    if speeds:
        remedy = "set that switch port to the speed of the others, with autonegotiation and FEC as they have it"
    return Diagnosis(
        f"{subject}, {KINDS[kind]} {figures} Gb/s where {minimum:g} is the minimum{speeds}", remedy, explains
    )


def _slower_links(seen: Measurements, hosts: Sequence[str], rails: Sequence[int]) -> str:
    """Describe a link that negotiated a lower speed than those of the other hosts."""
    for rail in rails:
        speeds = {host: (seen.facts(host, rail) or {}).get("speed_mbit") for host in seen.reports}
        usual = Counter(speed for host, speed in speeds.items() if speed and host not in hosts).most_common(1)
        for host in hosts:
            mine = speeds.get(host)
            if usual and mine and mine < usual[0][0]:
                return f"; the link of {seen.port(host, rail)} on {host} is {mine} Mb/s, the others' {usual[0][0]}"
    return ""


def minimum_of(minimum_bandwidth: Mapping[str, Any], kind: str) -> float:
    """Return the minimum throughput of a kind in Gb/s; 0 if none is required."""
    return float(minimum_bandwidth.get(f"{kind}_gbit") or 0.0)


def rate(path: Path, kind: str) -> float | None:
    """Return the measured throughput in Gb/s; None if there is none."""
    measured = path.measured(kind)
    found = measured.get("gbit") if measured else None
    return None if found is None else float(found)


def unmeasured_faults(seen: Measurements, explained: Callable[[Key], bool]) -> list[Diagnosis]:
    """Return why requested throughput was not measured, each reason once."""
    together: dict[tuple[str, str], list[Path]] = {}
    for path in seen.paths:
        for kind in KINDS:
            measured = path.measured(kind)
            key = (path.host, kind, path.port, path.peer)
            if measured is not None and measured.get("gbit") is None and not explained(key):
                together.setdefault((kind, str(measured.get("problem") or "no reason was given")), []).append(path)
    merged: dict[tuple[str, str], tuple[list[str], set[Key]]] = {}
    for (kind, problem), paths in together.items():
        for path in paths:
            where, what = _place(path, problem)
            hosts, explains = merged.setdefault((kind, what), ([], set()))
            hosts.append(where)
            explains.add((path.host, kind, path.port, path.peer))
    found = []
    for (kind, what), (hosts, explains) in merged.items():
        reason, _, remedy = what.partition(", install ")
        if remedy:
            todo = f"install {remedy} there, or set fabric_network_bandwidth to false"
        elif any(words in reason.lower() for words in _SHUT):
            ports = f"{MEETING_PORT}-{MEETING_PORT + 2}"
            todo = f"let TCP {ports} through the firewall on the fabric, then test it again"
        else:
            todo = "fix that, then test the fabric again"
        found.append(Diagnosis(f"{KINDS[kind]} throughput was not measured, {listed(hosts)}: {reason}", todo, explains))
    return found


def _place(path: Path, problem: str) -> tuple[str, str]:
    """Split a problem into its host and text: a problem of the partner is reported as `on PARTNER: ...`."""
    prefix = f"on {path.peer}: "
    if problem.startswith(prefix):
        return path.peer, problem.removeprefix(prefix)
    return path.host, problem


def _pair(path: Path) -> Pair:
    return frozenset({path.host, path.peer})


def _size(paths: Sequence[Path]) -> int:
    return min((path.largest for path in paths if path.failure == CUT), default=0)
