# SPDX-License-Identifier: Apache-2.0
"""Evaluate fabric ports from what tools on the host printed: which are fine and which are not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .read_checks import CHECKS, NOTE, WRONG, Expected, check_hosts, finding
from .read_rows import Row, cage, pci_path, read_rows

_TWINS = frozenset({"p1s0f0", "p1s0f1", "P2p1s0f0", "P2p1s0f1"})
"""PCI functions of the two cages of a GB10 system, which identify it."""


def expected_of(profile: str, fabric: Mapping[str, Any]) -> Expected:
    """Convert a profile's `fabric` in the catalog to the type used here."""
    listed = fabric.get("ports") or ()
    ports = tuple(str(one["port"]) for one in listed)
    speeds = {one["speed_mbit"] for one in listed if one.get("speed_mbit")}
    halves = {pci_path(port) for port in ports} >= _TWINS
    # Ports of several speeds are only compared with each other: no capture shows which port should have which.
    slower = tuple((int(one["speed_mbit"]), str(one["cost"])) for one in fabric.get("slower") or ())
    return Expected(profile, speeds.pop() if len(speeds) == 1 else None, ports, halves, slower)


def looks_like_twins(texts: Iterable[str]) -> bool:
    """Whether the ports are named as on a GB10 system: functions in two PCI domains, and so halves of a cage."""
    rows, _, _ = read_rows(texts, ())
    paths = {pci_path(row["netdev"]) or pci_path(row["device"]) for row in rows}
    return bool(paths & {"P2p1s0f0", "P2p1s0f1"}) and paths - {None} <= _TWINS


def read(texts: Sequence[str], expected: Expected) -> dict[str, Any]:
    """Return a document for programs and for display: one row per port, and one sentence per finding."""
    rows, tools, remarks = read_rows(texts, expected.ports)
    findings = [finding(NOTE, "told.twice", [], remark, "") for remark in remarks]
    hosts = list(dict.fromkeys(row["host"] for row in rows))
    for host in hosts:
        own = [row for row in rows if row["host"] == host]
        for check in CHECKS:
            findings += [
                {**found, "found": f"{host}: {found['found']}"} if len(hosts) > 1 else found
                for found in check(own, expected)
            ]
    if len(hosts) > 1:
        findings += check_hosts(rows)
    findings.sort(key=lambda one: one["level"] != WRONG)
    for row in rows:
        place = cage(row) if expected.halves else None
        row["cage"] = place[0] if place else None
    rows.sort(key=lambda row: (hosts.index(row["host"]), row["cage"] or 0, _order(row, expected)))
    return {"profile": expected.profile, "tools": tools, "ports": rows, "findings": findings}


def _order(row: Row, expected: Expected) -> list[tuple[int, str]]:
    """Return a sort key: by half within a cage, by name elsewhere."""
    place = cage(row) if expected.halves else None
    return [(place[1], "")] if place else _natural(row["device"] or row["netdev"] or "")


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts mlx5_2 before mlx5_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", name)]


def is_right(document: Mapping[str, Any]) -> bool:
    """Whether there are no faults; notes do not count."""
    return not any(one["level"] == WRONG for one in document["findings"])
