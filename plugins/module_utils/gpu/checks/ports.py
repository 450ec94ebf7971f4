# SPDX-License-Identifier: Apache-2.0
"""Checks of a host's fabric ports: up, as fast as the profile says, of one firmware, and with the full RDMA MTU.

The outputs of one host's tools are merged before they are evaluated: each port has its own `ethtool`, and whether it
should be up depends on its twin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...fabric.read import expected_of
from ...fabric.read_checks import CHECKS, SLOWER, WRONG, is_up, name_of, speed_of
from ...fabric.read_checks import Expected as FabricExpected
from ...fabric.read_rows import Row, cage, pci_path
from ...parsers.reading import Reading, of_kind
from ...verdicts import COULD_NOT_CHECK, FAIL, PASS
from ..check import Check, make_check
from ..expected import Expected
from ..port_reading import merged_rows

KINDS = ("ibstat", "ibdev2netdev", "rdma-link", "ethtool")
_find_down, _find_speed, _find_layer, _find_mtu, _find_firmware = CHECKS

_TELLS_SPEED = ("ibstat", "ethtool")


class _Ports:
    """The ports of one host and their expected state, with helpers to build checks about them."""

    def __init__(self, readings: Sequence[Reading], expected: Expected) -> None:
        self.readings = readings
        self.rows, self.conflicts = merged_rows(one.data["ports"] for one in readings if one.data.get("ports"))
        self.problems = [problem for one in readings for problem in one.problems]
        self.fabric = expected_of(expected.profile, expected.fabric)
        self.layer: str | None = expected.fabric.get("link_layer")

    @property
    def up(self) -> list[Row]:
        return [row for row in self.rows if is_up(row)]

    def check(self, name: str, verdict: str, expected: str, observed: str, remedy: str = "") -> Check:
        first = self.readings[0]
        source = ", ".join(dict.fromkeys(one.source for one in self.readings))
        if verdict == COULD_NOT_CHECK and not remedy:
            remedy = "capture `rdma link`, `ibstat` and `ethtool` of every port, whole"
        return make_check(name, verdict, expected, observed, remedy, source=source, host=first.host)

    def evaluated(
        self, name: str, find: Callable[..., Iterator[dict[str, Any]]], expected: str, doubts: Sequence[str], right: str
    ) -> Check:
        """Fail if `find` reports an error, else COULD_NOT_CHECK if there are doubts, else pass."""
        found = list(find(self.rows, self.fabric))
        wrong = [one for one in found if one["level"] == WRONG]
        if wrong:
            observed = "; ".join(str(one["found"]) for one in wrong)
            return self.check(name, FAIL, expected, observed, "; ".join(dict.fromkeys(one["remedy"] for one in wrong)))
        if doubts:
            return self.check(name, COULD_NOT_CHECK, expected, "; ".join(doubts))
        return self.check(name, PASS, expected, right)


def check_ports(readings: Sequence[Reading], expected: Expected) -> list[Check]:
    """Return port.state, and speed, layer, mtu and firmware if a tool that reports them was captured."""
    own = of_kind(readings, *KINDS)
    if not own:
        return []
    ports = _Ports(own, expected)
    if not ports.rows:
        return [ports.check("port.state", COULD_NOT_CHECK, "fabric ports with a link", "; ".join(ports.problems))]
    checks = [_state(ports), _speed(ports), _layer(ports), _mtu(ports), _firmware(ports)]
    return [check for check in checks if check is not None]


def _names(rows: Sequence[Row]) -> str:
    return ", ".join(name_of(row) for row in rows)


def _state(ports: _Ports) -> Check:
    """Check the links. Only hardware with cages may have one without a cable; elsewhere a port down is a fault."""
    doubts = [one for one in (*ports.problems, *ports.conflicts) if "Mb/s" not in one and "speed" not in one]
    untold = [row for row in ports.rows if is_up(row) is None]
    if untold:
        doubts.append(f"unknown whether {_names(untold)} has a link")
    doubts += [
        f"{name_of(row)} is ACTIVE by one tool and without a link by another"
        for row in ports.rows
        if row["state"] == "ACTIVE" and (row["link"] is False or row["phys_state"] not in (None, "LINK_UP"))
    ]
    notes = [one for one in _find_dark(ports.rows, ports.fabric) if one["level"] != WRONG]
    doubts += _halves_not_shown(ports)
    dark = "".join(f"; {one['found']}" for one in notes if one["id"] == "cage.dark")
    up = ports.up
    right = f"{_names(up)} {'is' if len(up) == 1 else 'are'} up{dark}"
    return ports.evaluated("port.state", _find_dark, "every port that has a cable is up", doubts, right)


def _find_dark(rows: Sequence[Row], fabric: FabricExpected) -> Iterator[dict[str, Any]]:
    """Find ports without a link. One that may only lack its cable is reported too, as only the operator knows."""
    for one in _find_down(rows, fabric):
        if one["id"] == "port.down" and one["level"] != WRONG:
            remedy = "check cable and switch port; a port without a cable on purpose is fine, and only you know which"
            found = str(one["found"]).partition(": normal")[0] + ", while others are up"
            yield {**one, "level": WRONG, "found": found, "remedy": remedy}
        else:
            yield one


def _halves_not_shown(ports: _Ports) -> Iterator[str]:
    """Report ports whose twin is shown and they are not: one half alone does not prove that the cage is right."""
    if not ports.fabric.halves:
        return
    shown = {pci_path(row["netdev"]) or pci_path(row["device"]) for row in ports.rows}
    places = {place for row in ports.rows if (place := cage(row))}
    if not places:
        yield f"{_names(ports.rows)}: these names do not show which half of which cage each port is"
    for port in ports.fabric.ports:
        place = cage({"netdev": port, "device": None})
        if place and pci_path(port) not in shown and (place[0], 1 - place[1]) in places:
            yield f"{port}, the other half of cage {place[0]}, is not shown"


def _speed(ports: _Ports) -> Check | None:
    told = [row for row in ports.rows if speed_of(row) is not None]
    if not told and not of_kind(ports.readings, *_TELLS_SPEED):
        return None
    wanted = ports.fabric.speed_mbit
    expected = f"{wanted} Mb/s" if wanted else "one speed on all ports of a kind"
    silent = [row for row in ports.up if row not in told]
    doubts = [problem for problem in ports.problems if "Mb/s" in problem or "cut off" in problem]
    doubts += [conflict for conflict in ports.conflicts if "speed" in conflict]
    if silent and any(one.kind in _TELLS_SPEED for one in ports.readings):
        doubts.append(f"the speed of {_names(silent)} is not reported")
    if not told:
        doubts.append("no port with a reported speed is up")
    elif wanted is None and len(told) == 1:
        doubts.append(f"{name_of(told[0])} is at {speed_of(told[0])} Mb/s, and the profile names no speed")
    notes = [one for one in _find_speed(ports.rows, ports.fabric) if one["level"] != WRONG]
    doubts += [one["found"] for one in notes if one["id"] != SLOWER]
    speeds = ", ".join(f"{name_of(row)} {speed_of(row)}" for row in told)
    passed = "; ".join([f"{speeds} Mb/s", *(str(one["found"]) for one in notes if one["id"] == SLOWER)])
    return ports.evaluated("port.speed", _find_speed, expected, doubts, passed)


def _layer(ports: _Ports) -> Check | None:
    """Check the link layer, only if the profile names one: a host may well have some ports of each."""
    told = [row for row in ports.rows if row["link_layer"]]
    if ports.layer is None or not told:
        return None
    other = [row for row in told if row["link_layer"] != ports.layer]
    if other:
        observed = f"{_names(other)}: {other[0]['link_layer']}"
        remedy = f"check that the capture is of this hardware, else set LINK_TYPE of the ports to {ports.layer}"
        return ports.check("port.layer", FAIL, ports.layer, observed, remedy)
    silent = [row for row in ports.up if row not in told]
    if silent and len(ports.readings) == 1:
        why = f"the link layer of {_names(silent)} is not reported"
        return ports.check("port.layer", COULD_NOT_CHECK, ports.layer, why)
    return ports.check("port.layer", PASS, ports.layer, f"{ports.layer} on {_names(told)}")


def _mtu(ports: _Ports) -> Check | None:
    told = [row for row in ports.up if row["active_mtu"] is not None]
    if not told and not any(row["mtu"] is not None and row["mtu"] < 4200 for row in ports.up if row["device"]):
        return None
    silent = [row for row in ports.up if row["device"] and row["active_mtu"] is None]
    doubts = [f"the RDMA MTU of {_names(silent)} is not reported"] if silent else []
    return ports.evaluated("port.mtu", _find_mtu, "RDMA MTU 4096", doubts, f"4096 on {_names(told)}")


def _firmware(ports: _Ports) -> Check | None:
    told = [row for row in ports.rows if row["firmware"]]
    if len(told) < 2:
        return None
    silent = [row for row in ports.rows if row["device"] and not row["firmware"]]
    doubts = [f"the firmware of {_names(silent)} is not reported"] if silent else []
    doubts += [problem for problem in ports.problems if "cut off" in problem]
    versions = ", ".join(dict.fromkeys(str(row["firmware"]) for row in told))
    return ports.evaluated("port.firmware", _find_firmware, "one firmware per generation of cards", doubts, versions)
