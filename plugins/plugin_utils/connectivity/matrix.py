# SPDX-License-Identifier: Apache-2.0
"""Evaluate the connectivity test of a fabric: records as in a verification, one line per fault, and a matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.ports import bare
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import COULD_NOT_CHECK, FAIL, PASS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import Record, make_record

from .diagnosis import Diagnosis, Key
from .measurements import CUT, LOSS, Measurements, Path, put_together
from .own_faults import arp_faults, duplicate_faults, port_fault, port_faults, route_faults, route_problem, silent_hosts
from .path_faults import KINDS, minimum_of, ping_faults, rate, slow_faults, unmeasured_faults

MOST_ROWS = 16
"""Maximum number of hosts for which the matrix is shown cell by cell."""


def evaluate(
    members: Sequence[str], parts: Mapping[str, Mapping[str, Any]], minimum_bandwidth: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Evaluate a connectivity test: `records` by host, `diagnoses`, `lines` of the matrix, and whether it `passed`.

    `parts`: for every tested host, its planned `ports`, its `peers` and the `result` of module fabric_connectivity.
    `minimum_bandwidth`: the minimum throughput, `tcp_gbit` and `rdma_gbit`.
    """
    seen, wanted = put_together(members, parts), minimum_bandwidth or {}
    faults = diagnose(seen, wanted)
    causes: dict[Key, Diagnosis] = {}
    for fault in faults:
        for key in fault.explains:
            causes.setdefault(key, fault)
    records = {host: list(_records(seen, host, wanted, causes)) for host in parts}
    return {
        "passed": all(record["verdict"] == PASS for listed in records.values() for record in listed),
        "records": records,
        "diagnoses": [fault.line for fault in faults],
        "lines": matrix_lines(seen, wanted),
    }


def diagnose(seen: Measurements, minimum_bandwidth: Mapping[str, Any]) -> list[Diagnosis]:
    """Return one entry per fault. Faults in a host's own facts come first, and explain the paths that fail by them."""
    doubles = duplicate_faults(seen)
    places = {place for _, concerned in doubles for place in concerned}
    # A host that took another one's address lacks its own: that is one fault, reported with both names.
    ports = [
        (fault, host, rails, kind)
        for fault, host, rails, kind in port_faults(seen)
        if not (kind == "address" and all((host, rail) in places for rail in rails))
    ]
    faults = [*silent_hosts(seen), *(fault for fault, *_ in ports), *(fault for fault, _ in doubles)]

    def explained(key: Key) -> bool:
        return any(key in fault.explains for fault in faults)

    faults += arp_faults(seen)
    # A wrong route because the port has no address is not a separate fault.
    faults += [fault for fault in route_faults(seen) if not any(explained(key) for key in fault.routes)]
    faults += ping_faults(seen, explained)
    faults += slow_faults(seen, minimum_bandwidth, explained)
    faults += unmeasured_faults(seen, explained)
    return faults


# --- records ------------------------------------------------------------------------------------------------


def _records(
    seen: Measurements, host: str, minimum_bandwidth: Mapping[str, Any], causes: Mapping[Key, Diagnosis]
) -> Iterable[Record]:
    if host in seen.silent:
        remedy = f"make {host} answer (`ansible -m ping {host}`) and test the fabric again"
        yield make_record("fabric.connectivity", host, "takes part", seen.silent[host], COULD_NOT_CHECK, remedy)
        return
    report = seen.reports[host]
    for rail, planned in enumerate(seen.rails[host]):
        yield _explained(_port(seen, host, rail, planned), (host, "port", str(planned["port"]), ""), causes)
    for port, double in (report.get("duplicates") or {}).items():
        yield _explained(_duplicate(seen, host, port, double), (host, "duplicate", port, ""), causes)
        answering = double.get("answering") or []
        observed = f"{', '.join(answering)} answers, too" if answering else "it alone answers"
        record = make_record(f"fabric.arp.{port}", host, "it alone answers", observed, FAIL if answering else PASS)
        yield _explained(record, (host, "arp", port, ""), causes)
    for way in report.get("routes") or []:
        wrong = route_problem(way)
        name, port = f"fabric.route.{way['port']}.{way['peer']}", str(way["port"])
        observed = f"leaves {wrong}" if wrong else f"leaves by {port}"
        record = make_record(name, host, f"leaves by {port}", observed, FAIL if wrong else PASS)
        yield _explained(record, (host, "route", port, str(way["peer"])), causes)
    for path in seen.paths:
        if path.host == host:
            yield _explained(_ping(path), (host, "ping", path.port, path.peer), causes)
            for kind in KINDS:
                if path.measured(kind) is not None:
                    yield _explained(
                        _throughput(path, kind, minimum_bandwidth), (host, kind, path.port, path.peer), causes
                    )


def _port(seen: Measurements, host: str, rail: int, planned: Mapping[str, Any]) -> Record:
    facts = seen.facts(host, rail) or {}
    expected = f"{planned.get('address') or 'an address'}, MTU {planned['mtu']}, carrier"
    carrier = "carrier" if facts.get("carrier") else "no carrier" if facts.get("up") else "switched off"
    has = ", ".join(facts.get("addresses") or []) or "no address"
    observed = f"{has}, MTU {facts.get('mtu')}, {carrier}" if facts else "no such port"
    name = f"fabric.port.{planned['port']}"
    if (seen.reports[host].get("problem") or "") and not facts:
        return make_record(name, host, expected, f"could not be read: {seen.reports[host]['problem']}", COULD_NOT_CHECK)
    return make_record(name, host, expected, observed, FAIL if port_fault(seen, host, rail) else PASS)


def _duplicate(seen: Measurements, host: str, port: str, double: Mapping[str, Any]) -> Record:
    rail = seen.rail_of(host, port)
    address = bare(seen.rails[host][rail].get("address")) if rail is not None else ""
    expected = f"no other machine has {address or 'its address'}"
    name = f"fabric.duplicate.{port}"
    if double.get("claimants"):
        owners = [seen.owner(mac) for mac in double["claimants"]]
        told = ", ".join(
            f"{owner[0]} ({owner[1]})" if owner else mac for owner, mac in zip(owners, double["claimants"], strict=True)
        )
        return make_record(name, host, expected, f"{told} has it, too", FAIL)
    if double.get("problem"):
        return make_record(name, host, expected, f"could not be checked: {double['problem']}", COULD_NOT_CHECK)
    return make_record(name, host, expected, expected, PASS)


def _ping(path: Path) -> Record:
    ping = path.ping
    timing = "" if ping.get("average_ms") is None else f", {ping['average_ms']:g} ms"
    observed = f"{ping.get('received')} of {ping.get('sent')} answered{timing}"
    if path.failure == CUT:
        observed = f"at most {path.largest}-byte packets arrive"
    elif path.failure and path.failure != LOSS:
        observed = f"nothing arrives ({ping.get('detail') or 'no answer'})"
    expected = f"{path.mtu}-byte packets arrive unfragmented"
    return make_record(f"fabric.ping.{path.port}.{path.peer}", path.host, expected, observed, PASS if path.ok else FAIL)


def _throughput(path: Path, kind: str, minimum_bandwidth: Mapping[str, Any]) -> Record:
    minimum, found = minimum_of(minimum_bandwidth, kind), rate(path, kind)
    name = f"fabric.{kind}.{path.port}.{path.peer}"
    expected = f"at least {minimum:g} Gb/s" if minimum else "a measurement"
    if found is None:
        problem = (path.measured(kind) or {}).get("problem") or "no reason was given"
        return make_record(name, path.host, expected, f"not measured: {problem}", COULD_NOT_CHECK)
    return make_record(name, path.host, expected, f"{found:.3g} Gb/s", FAIL if found < minimum else PASS)


def _explained(record: Record, key: Key, causes: Mapping[Key, Diagnosis]) -> Record:
    """Add cause and remedy to a record that did not pass."""
    if record["verdict"] == PASS:
        return record
    cause = causes.get(key)
    if cause is None:
        return {**record, "remedy": "find out why, then test the fabric again"}
    return {**record, "by": cause.finding, "remedy": cause.remedy}


# --- the matrix ---------------------------------------------------------------------------------------------


def matrix_lines(seen: Measurements, minimum_bandwidth: Mapping[str, Any]) -> list[str]:
    """Render the matrix: rows send, columns receive; a cell has a word per rail, or one if all rails agree.

    For many hosts a single line counts the cells: thousands are unreadable, and each fault is reported anyway.
    """
    hosts = seen.members
    by_ends: dict[tuple[str, str], dict[int, Path]] = {}
    for path in seen.paths:
        by_ends.setdefault((path.host, path.peer), {})[path.rail] = path
    if len(hosts) > MOST_ROWS:
        pairs = [(host, peer) for host in hosts for peer in hosts if peer != host]
        return [
            _in_words(len(hosts), (_cell(seen, pair[0], by_ends.get(pair) or {}, minimum_bandwidth) for pair in pairs))
        ]
    heads = hosts if len(hosts) <= 6 else [str(index) for index in range(len(hosts))]
    names = hosts if heads is hosts else [f"{index} {host}" for index, host in enumerate(hosts)]
    rows = [["from \\ to", *heads]]
    for name, host in zip(names, hosts, strict=True):
        cells = [
            "-" if peer == host else _cell(seen, host, by_ends.get((host, peer)) or {}, minimum_bandwidth)
            for peer in hosts
        ]
        rows.append([name, *cells])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _in_words(hosts: int, cells: Iterable[str]) -> str:
    """Count the pairs by the text of their cells."""
    counted = Counter("ok" if _is_well(cell) else cell for cell in cells)
    words = [f"{counted.pop('ok', 0)} ok", *(f"{number} {word}" for word, number in counted.most_common(8))]
    return f"{hosts} hosts, {hosts * (hosts - 1)} pairs of sender and receiver: {', '.join(words)}"


def _is_well(cell: str) -> bool:
    return all(word == "ok" or word.endswith("G") for word in cell.split("/"))


def _cell(seen: Measurements, host: str, paths: Mapping[int, Path], minimum_bandwidth: Mapping[str, Any]) -> str:
    if not paths:
        return "?" if host in seen.reports or host in seen.silent else "."
    words = [_word(paths.get(rail), minimum_bandwidth) for rail in range(seen.rail_count)]
    return words[0] if len(set(words)) == 1 else "/".join(words)


def _word(path: Path | None, minimum_bandwidth: Mapping[str, Any]) -> str:
    """Return one path as a word: its throughput in Gb/s if measured, else ok, the largest packet, loss, dead or ?."""
    if path is None:
        return "?"
    if path.failure:
        return {CUT: str(path.largest), LOSS: "loss"}.get(path.failure, "dead")
    for kind in ("rdma", "tcp"):
        if path.measured(kind) is not None:
            found = rate(path, kind)
            if found is None:
                return "ok?"
            return f"{found:.3g}G{'!' if found < minimum_of(minimum_bandwidth, kind) else ''}"
    return "ok"
