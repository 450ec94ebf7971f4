# SPDX-License-Identifier: Apache-2.0
"""Checks of fabric ports from captures: each looks at the ports of one host and yields findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .rdma import roce_mtu
from .read_rows import Row, cage

WRONG = "wrong"
NOTE = "note"
SLOWER = "speed.slower"
"""Id of the finding for a link that is slower than the hardware allows but acceptable."""
FULL_RDMA_MTU = 4096
_PORT_MTUS = {1024: "1500", 2048: "less than 4200"}


@dataclass(frozen=True)
class Expected:
    """What a hardware profile specifies for its fabric; every field may be unknown."""

    profile: str | None = None
    speed_mbit: int | None = None
    ports: tuple[str, ...] = ()
    halves: bool = False
    """Whether a cage has two ports, which only together reach its speed."""
    slower: tuple[tuple[int, str], ...] = ()
    """Speeds below `speed_mbit` that a cluster can be served with, each with its cost."""


def name_of(row: Mapping[str, Any]) -> str:
    """Return the display name of a port: its network name, which operators know, else its RDMA device."""
    if row["netdev"]:
        return str(row["netdev"])
    if row["device"]:
        return str(row["device"]) if row["port"] in (None, 1) else f"{row['device']}/{row['port']}"
    return "a port that the capture does not name"


def is_up(row: Mapping[str, Any]) -> bool | None:
    """Whether a port carries traffic, from whichever tool reported it; None if none did."""
    if row["state"] is not None:
        return bool(row["state"] == "ACTIVE")
    if row["phys_state"] is not None and row["phys_state"] != "LINK_UP":
        return False
    if row["link"] is not None:
        return bool(row["link"])
    return True if row["speed_mbit"] else None


def speed_of(row: Mapping[str, Any]) -> int | None:
    """Return the link speed in Mb/s; None if the link is down, because tools then print a fallback value."""
    if is_up(row) is False:
        return None
    if row["speed_mbit"] is not None:
        return int(row["speed_mbit"])
    return round(row["rate_gbit"] * 1000) if row["rate_gbit"] is not None else None


def finding(level: str, check: str, rows: Sequence[Row], found: str, remedy: str) -> dict[str, Any]:
    """Return a finding: one sentence about ports, and what to do, which may be empty for a note."""
    return {
        "level": level,
        "id": check,
        "ports": [name_of(row) for row in rows],
        "found": found,
        "remedy": remedy,
    }


def _names(rows: Sequence[Row]) -> str:
    return ", ".join(name_of(row) for row in rows)


def _is_are(rows: Sequence[Row]) -> str:
    return "is" if len(rows) == 1 else "are"


def _down_word(row: Row) -> str:
    told = [word for word in (row["state"], row["phys_state"]) if word]
    return "/".join(told) or "without link"


def _check_down(rows: Sequence[Row], expected: Expected) -> Iterator[dict[str, Any]]:
    """Ports that are down: half a cage is a fault; a whole cage is just without a cable, unless none is up."""
    waiting = [row for row in rows if row["state"] in ("INIT", "ARMED")]
    if waiting:
        yield finding(
            WRONG,
            "port.init",
            waiting,
            f"{_names(waiting)} {_is_are(waiting)} {waiting[0]['state']}, expected ACTIVE: no subnet manager has "
            "brought the link up",
            "start the subnet manager of the InfiniBand fabric (opensm, or the switch's own)",
        )
    down = [row for row in rows if is_up(row) is False and row not in waiting]
    if expected.halves:
        yield from _check_cages(rows, down)
        down = [row for row in down if cage(row) is None]
    yield from _check_kinds(rows, down)


def _check_cages(rows: Sequence[Row], down: Sequence[Row]) -> Iterator[dict[str, Any]]:
    cages: dict[int, list[Row]] = {}
    for row in rows:
        place = cage(row)
        if place:
            cages.setdefault(place[0], []).append(row)
    dark = {number: own for number, own in cages.items() if all(row in down for row in own)}
    if dark and len(dark) == len(cages):
        lost = [row for own in dark.values() for row in own]
        yield finding(
            WRONG,
            "cage.none",
            lost,
            f"no fabric port has a link ({_names(lost)}), expected both halves of one cage up",
            "check the QSFP cable, that its other end is in a switch port or a peer that is on, and that the ports are "
            "not set down",
        )
        return
    for number, own in sorted(cages.items()):
        lost = [row for row in own if row in down]
        up = [row for row in own if is_up(row)]
        if lost and up:
            yield finding(
                WRONG,
                "cage.half",
                lost,
                f"only one half of cage {number} is up: {_names(up)} is, {_names(lost)} is {_down_word(lost[0])}; one "
                "half is one PCIe x4 function, about half of the cable's speed",
                f"bring {_names(lost)} up (`ip link set {name_of(lost[0])} up`, and in its netplan file); if it stays "
                "down, reseat the cable",
            )
        elif number in dark:
            yield finding(
                NOTE,
                "cage.dark",
                own,
                f"{_names(own)} (cage {number}) {_is_are(own)} {_down_word(own[0])}: normal for the cage without a "
                "cable",
                "",
            )


def _check_kinds(rows: Sequence[Row], down: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Without cages: one port down among many equal ones is suspicious, one of a few may just have no cable."""
    for kind, own in _kinds(rows).items():
        lost = [row for row in own if row in down]
        if not lost:
            continue
        up = [row for row in own if is_up(row)]
        word = f"{_names(lost)} {_is_are(lost)} {_down_word(lost[0])}"
        if len(up) > len(lost):
            yield finding(
                WRONG,
                "port.down",
                lost,
                f"{word}, while {len(up)} other ports{kind} are up",
                "check the cable, the switch port and that the port is not set down",
            )
        elif up or any(is_up(row) for row in rows):
            yield finding(
                NOTE,
                "port.down",
                lost,
                f"{word}: normal for a port without a cable",
                "if it should have one, check the cable and the switch port",
            )
        else:
            yield finding(
                WRONG,
                "port.down",
                lost,
                f"no fabric port has a link: {word}, expected ACTIVE",
                "check cables and switch ports, and that the ports are not set down",
            )


def _kinds(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Group the ports by card and link layer; the card by its type, else by the generation of its firmware."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        family = row["type"] or (f"firmware {row['firmware'].split('.')[0]}.x" if row["firmware"] else "")
        words = [word for word in (family, row["link_layer"]) if word]
        kinds.setdefault(f" of the same kind ({', '.join(words)})" if words else "", []).append(row)
    return kinds


def _check_speed(rows: Sequence[Row], expected: Expected) -> Iterator[dict[str, Any]]:
    """Compare the speed with the profile's; without one, with the other ports of the same kind."""
    told = [(row, speed) for row in rows if (speed := speed_of(row)) is not None]
    if expected.speed_mbit is None:
        yield from _check_rates(told)
        return
    for speed in sorted({speed for _, speed in told if speed < expected.speed_mbit}):
        slow = [row for row, one in told if one == speed]
        mode = " (200G-baseCR4)" if expected.speed_mbit == 200000 else ""
        remedy = f"set it to {expected.speed_mbit // 1000}G{mode}, autonegotiation and FEC on the switch"
        if any(row["autonegotiation"] is False for row in slow):
            remedy += "; autonegotiation is off on the host's side, too: `ethtool -s PORT autoneg on`"
        cost = dict(expected.slower).get(speed)
        words = (
            f"{_names(slow)} {_is_are(slow)} at {speed} Mb/s, expected {expected.speed_mbit}: the switch port "
            f"negotiated {speed // 1000}G"
        )
        if cost is None:
            yield finding(WRONG, "speed.low", slow, words, remedy)
        else:
            yield finding(NOTE, SLOWER, slow, f"{words}, which serves: {cost}", remedy)


def _check_rates(told: Sequence[tuple[Row, int]]) -> Iterator[dict[str, Any]]:
    for kind, own in _kinds([row for row, _ in told]).items():
        speeds = {name_of(row): speed for row, speed in told if row in own}
        if len(set(speeds.values())) < 2:
            continue
        most = max(speeds.values())
        slow = [row for row, speed in told if row in own and speed < most]
        rates = ", ".join(f"{name_of(row)} at {speeds[name_of(row)]}" for row in slow)
        sure = bool(own[0]["type"]) or (len(slow) == 1 and len(own) > 2)
        yield finding(
            WRONG if sure else NOTE,
            "speed.mixed",
            slow,
            f"ports{kind} have different speeds: {rates} Mb/s, the others at {most}",
            "set the switch ports to one speed, autonegotiation and FEC on the switch"
            if sure
            else "right if these are other cards, such as for storage; name the profile to have it evaluated",
        )


def _check_layer(rows: Sequence[Row], expected: Expected) -> Iterator[dict[str, Any]]:
    infiniband = [row for row in rows if row["link_layer"] == "InfiniBand"]
    ethernet = [row for row in rows if row["link_layer"] == "Ethernet"]
    if infiniband and expected.halves:
        yield finding(
            WRONG,
            "layer.infiniband",
            infiniband,
            f"{_names(infiniband)} {_is_are(infiniband)} InfiniBand, expected Ethernet (RoCE), the only mode of this "
            "hardware",
            "check that the capture is of this hardware, else set the ports' LINK_TYPE to Ethernet",
        )
    elif infiniband and ethernet:
        yield finding(
            NOTE,
            "layer.mixed",
            [*infiniband, *ethernet],
            f"{_names(infiniband)} {_is_are(infiniband)} InfiniBand, {_names(ethernet)} Ethernet (RoCE)",
            "rails are of one kind: name those of one kind in firstlight_fabric",
        )
    elif infiniband:
        yield finding(
            NOTE,
            "layer.infiniband",
            infiniband,
            "the ports are InfiniBand, not Ethernet (RoCE): RDMA needs no addresses, TCP needs IPoIB",
            "",
        )


def _check_mtu(rows: Sequence[Row], expected: Expected) -> Iterator[dict[str, Any]]:
    """RoCE packets have to fit into the port's MTU, so a small RDMA MTU reveals a small port MTU."""
    up = [row for row in rows if is_up(row) is not False and row["link_layer"] != "InfiniBand"]
    for active in sorted({row["active_mtu"] for row in up if (row["active_mtu"] or FULL_RDMA_MTU) < FULL_RDMA_MTU}):
        small = [row for row in up if row["active_mtu"] == active]
        ports = sorted({row["mtu"] for row in small if row["mtu"]})
        whose = f"the port MTU is {ports[0]}" if ports else f"the port MTU is {_PORT_MTUS.get(active, 'too small')}"
        yield finding(
            WRONG,
            "mtu.rdma",
            small,
            f"RDMA MTU of {_names(small)} is {active}, expected {FULL_RDMA_MTU}: {whose}",
            "set firstlight_fabric.mtu to 9000 (at least 4200) on every host, and jumbo frames on the switch",
        )
    untold = [row for row in up if row["active_mtu"] is None and row["mtu"] is not None and row["mtu"] < 4200]
    fabric = [row for row in untold if row["device"] or name_of(row) in expected.ports]
    for mtu in sorted({row["mtu"] for row in fabric}):
        small = [row for row in fabric if row["mtu"] == mtu]
        yield finding(
            WRONG,
            "mtu.port",
            small,
            f"MTU of {_names(small)} is {mtu}, so the RDMA MTU is at most {roce_mtu(mtu)}, expected {FULL_RDMA_MTU}",
            "set firstlight_fabric.mtu to 9000 (at least 4200) on every host, and jumbo frames on the switch",
        )
    sizes = {row["mtu"] for row in up if row["mtu"]}
    if len(sizes) > 1 and min(sizes) >= 4200:
        yield finding(
            NOTE, "mtu.mixed", up, f"the ports have different MTUs: {', '.join(map(str, sorted(sizes)))}", "use one MTU"
        )


def _check_firmware(rows: Sequence[Row], _: Expected) -> Iterator[dict[str, Any]]:
    """Cards of one generation should have the same firmware; if not, one was probably missed in an update."""
    families: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        if row["firmware"]:
            families.setdefault(row["firmware"].split(".")[0], {}).setdefault(row["firmware"], []).append(row)
    for versions in families.values():
        if len(versions) > 1:
            listed = "; ".join(f"{version} on {_names(own)}" for version, own in sorted(versions.items()))
            yield finding(
                WRONG,
                "firmware.mixed",
                [row for own in versions.values() for row in own],
                f"ports of one generation have different firmware: {listed}",
                "update them to one version and power-cycle the host",
            )


CHECKS = (_check_down, _check_speed, _check_layer, _check_mtu, _check_firmware)


def check_hosts(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Values that differ between hosts although each host by itself is fine."""
    for field, what in (("firmware", "firmware"), ("mtu", "MTU")):
        per_name: dict[str, dict[Any, set[str]]] = {}
        for row in rows:
            if row[field] is not None and is_up(row) is not False:
                per_name.setdefault(name_of(row), {}).setdefault(row[field], set()).add(row["host"])
        for name, values in per_name.items():
            if len(values) > 1:
                listed = "; ".join(f"{value} on {', '.join(sorted(hosts))}" for value, hosts in sorted(values.items()))
                yield finding(WRONG, f"hosts.{field}", [], f"{what} of {name} differs: {listed}", "use one everywhere")
