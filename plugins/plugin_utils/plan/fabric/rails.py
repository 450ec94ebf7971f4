# SPDX-License-Identifier: Apache-2.0
"""The rails of the fabric as an intent describes them: their place on a host, and their subnet.

A rail's port is given by the kernel's name, as a cage of the hardware, or left out where every host has one cable.
Cages and cables are matched with real ports once a host has been observed (module_utils/fabric/rails.py).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.addressing import (
    AddressingError,
    host_address,
    overlapping,
    parse_subnet,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.fabric_network import is_port_name
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import check_keys

RAILS_ERRORS = {
    "fabric.missing": "Ranks on several hosts exchange activations for every token; over the management network that "
    "is unusably slow.",
    "fabric.port": "netplan, NCCL and Gloo use the kernel's name of the port; it is never guessed.",
    "fabric.cage": "A cage is two ports of one chip, and takes one cable; a number that the hardware lacks is wrong.",
    "fabric.mixed": "Rails by name, by cage and by cable could all mean the same port, which only one rail can have.",
    "fabric.subnet": "Every host needs an address in every rail's subnet.",
    "fabric.overlap": "Of two ports in one subnet the kernel answers on either, and traffic takes the wrong rail.",
}

_RAIL_KEYS = ("port", "subnet")
_HALVES = 2
_CAGE = re.compile(r"cage\s+(\S+)")
_DEVICE = re.compile(r"mlx[45]_\d+|bnxt_re\d+|irdma\d+")
_TO_FIND = "PORT_TO_FIND_{}"
"""Without a dash, which systemd escapes in unit names."""


@dataclass(frozen=True)
class Rail:
    """One rail of the fabric: its subnet, and its place on every host."""

    subnet: str
    port: str | None = None
    """The kernel's name, if the operator gave one."""
    cage: int | None = None
    half: int = 0
    """Which of the cage's two ports."""
    expected: str = ""
    """The name used before observation: the operator's, the profile's for the cage, or a placeholder."""

    @property
    def words(self) -> str:
        """The rail as messages name it."""
        if self.port:
            return f"port {self.port}"
        return f"half {self.half} of {'the cabled cage' if self.cage is None else f'cage {self.cage}'}"

    def entry(self) -> dict[str, Any]:
        """Return the rail as the plan carries it to the host."""
        return {"port": self.port, "cage": self.cage, "half": self.half}


def read_rails(
    fabric: Mapping[str, Any], numbers: Sequence[int], ports: Sequence[Mapping[str, Any]], errors: PlanErrors
) -> tuple[Rail, ...]:
    """Read the rails of the fabric; `ports` are those of the hardware profile."""
    entries = fabric.get("rails") or []
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, Mapping) for entry in entries):
        errors.add(
            "intent.type",
            f"firstlight_fabric.rails is {entries!r}",
            "rails is a list of mappings with port and subnet",
            "write each rail as {port: enp1s0f1np1, subnet: 192.168.100.0/24}",
        )
        return ()
    if len(numbers) > 1 and not entries:
        errors.add(
            "fabric.missing",
            f"{len(numbers)} hosts and no rail in firstlight_fabric.rails",
            "hosts of one cluster talk over a fabric",
            "name the fabric ports and their subnets in firstlight_fabric.rails",
        )
    places = [_place(number, entry, ports, errors) for number, entry in enumerate(entries)]
    subnets = [_subnet(number, entry, numbers, errors) for number, entry in enumerate(entries)]
    rails = _with_halves(places, subnets, ports)
    _check_together(rails, [place for place in places if place is not None], errors)
    return tuple(rails)


def _place(
    number: int, entry: Mapping[str, Any], ports: Sequence[Mapping[str, Any]], errors: PlanErrors
) -> str | int | bool | None:
    """Return a rail's port by name, its cage by number, or True if left out; None if it is refused."""
    where = f"firstlight_fabric.rails[{number}]"
    check_keys(entry, _RAIL_KEYS, where, errors)
    port = entry.get("port")
    if "port" not in entry:
        return True
    caged = _CAGE.fullmatch(port.strip()) if isinstance(port, str) else None
    if caged:
        return _cage(where, caged[1], ports, errors)
    if not isinstance(port, str) or not is_port_name(port):
        errors.add(
            "fabric.port",
            f"{where}.port is {port!r}",
            "a port is the kernel's name of a network interface, 1 to 15 letters, digits or ._-@+; or cage 0 or 1",
            "take the name from `ip -br link` on the host, or leave port out where every host has one cable",
        )
        return None
    return None if _is_slip(f"{where}.port", port, ports, errors) else port


def _is_slip(where: str, port: str, ports: Sequence[Mapping[str, Any]], errors: PlanErrors) -> bool:
    """Refuse a name with the wrong case, which to the kernel is another port, and the name of an RDMA device."""
    by_device = {str(one.get("rdma_device")).lower(): str(one["port"]) for one in ports}
    by_case = {str(one["port"]).lower(): str(one["port"]) for one in ports}
    device = by_device.get(port.lower())
    if device or _DEVICE.fullmatch(port.lower()):
        rule = "a port is a network interface; the RDMA device behind it is looked up on the host"
        remedy = f"write {device}" if device else "take the name from `rdma link` on the host, after netdev"
        errors.add("fabric.port", f"{where} is {port}, an RDMA device", rule, remedy)
        return True
    meant = by_case.get(port.lower(), "" if any(letter.islower() for letter in port) else port.lower())
    if not meant or meant == port or not any(letter.isalpha() for letter in port):
        return False
    errors.add(
        "fabric.port",
        f"{where} is {port}",
        "port names are case-sensitive, and no port has this name",
        f"did you mean {meant}? Take the name from `ip -br link` on the host",
    )
    return True


def _cage(where: str, text: str, ports: Sequence[Mapping[str, Any]], errors: PlanErrors) -> int | None:
    known = sorted({port["cage"] for port in ports if port.get("cage") is not None})
    if text.isdecimal() and text.isascii() and int(text) in known:
        return int(text)
    have = " and ".join(f"cage {cage}" for cage in known) or "no cages"
    errors.add(
        "fabric.cage",
        f"{where}.port is cage {text}",
        f"the hardware has {have}, according to its profile",
        "correct the number: cage 0 is the one nearest to the RJ45 socket" if known else "name the port of every rail",
    )
    return None


def _subnet(number: int, entry: Mapping[str, Any], numbers: Sequence[int], errors: PlanErrors) -> str | None:
    subnet = entry.get("subnet")
    try:
        parse_subnet(subnet)
        host_address(str(subnet), max(numbers, default=0))
    except AddressingError as error:
        errors.add(
            "fabric.subnet",
            f"firstlight_fabric.rails[{number}].subnet: {error}",
            "a rail's subnet contains .10 for the first host and one more address for each further host",
            "write a subnet of its own for the rail, as 192.168.100.0/24, or a larger one as 192.168.96.0/20",
        )
        return None
    if ipaddress.ip_network(str(subnet)).is_global:
        errors.add(
            "fabric.subnet",
            f"firstlight_fabric.rails[{number}].subnet is {subnet}, which has public addresses",
            "a rail has private addresses: hosts trust its whole subnet, and no longer reach the owners of public ones",
            "write a private subnet, as 192.168.100.0/24",
        )
    return str(subnet)


def _with_halves(
    places: Sequence[str | int | bool | None], subnets: Sequence[str | None], ports: Sequence[Mapping[str, Any]]
) -> list[Rail]:
    """Build the rails; the first rail on a cage gets its first half, the second its second."""
    rails: list[Rail] = []
    used: dict[int | None, int] = {}
    by_name = {str(port["port"]): at for at, port in known_ports(ports).items()}
    names = {at: port for port, at in by_name.items()}
    for number, (place, subnet) in enumerate(zip(places, subnets, strict=True)):
        if place is None or subnet is None:
            continue
        if isinstance(place, str):
            cage, half = by_name.get(place, (None, 0))
            rails.append(Rail(subnet, place, cage, half, place))
            continue
        caged = None if isinstance(place, bool) else place
        half = used.get(caged, 0)
        used[caged] = half + 1
        expected = (names.get((caged, half)) if caged is not None else None) or _TO_FIND.format(number)
        rails.append(Rail(subnet, None, caged, half, expected))
    return rails


def known_ports(ports: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], Mapping[str, Any]]:
    """Return the profile's ports by cage and half: the port of a cage that is listed first is half 0."""
    found: dict[tuple[int, int], Mapping[str, Any]] = {}
    for port in ports:
        if port.get("cage") is not None:
            half = sum(1 for cage, _ in found if cage == port["cage"])
            found[port["cage"], half] = port
    return found


def _check_together(rails: Sequence[Rail], places: Sequence[str | int | bool], errors: PlanErrors) -> None:
    ways = {"by name": str, "by cage": int, "by its cable alone": bool}
    found = [way for way, kind in ways.items() if any(type(place) is kind for place in places)]
    if len(found) > 1:
        errors.add(
            "fabric.mixed",
            f"one of firstlight_fabric.rails is given {', another '.join(found)}",
            "all rails are given the same way: which port a cage or a cable is on is known only on the host",
            "name the port of every rail, or its cage, or leave port out of all of them",
        )
    for one, other in overlapping([rail.subnet for rail in rails]):
        errors.add(
            "fabric.overlap",
            f"subnets {one} and {other} of firstlight_fabric.rails overlap",
            "each rail has its own subnet: of two ports in one subnet the kernel answers on either",
            "give every rail another subnet, for example 192.168.100.0/24 and 192.168.101.0/24",
        )
    ports = [rail.port for rail in rails if rail.port]
    for port in sorted({port for port in ports if ports.count(port) > 1}):
        errors.add(
            "fabric.port",
            f"port {port} is in {ports.count(port)} rails",
            "a port belongs to one rail",
            "give every rail its own port",
        )
    for cage in dict.fromkeys(rail.cage for rail in rails if not rail.port and rail.half >= _HALVES):
        count = sum(1 for rail in rails if not rail.port and rail.cage == cage)
        errors.add(
            "fabric.cage",
            f"{count} rails are on {'the cabled cage' if cage is None else f'cage {cage}'}",
            f"a cage has {_HALVES} ports, each a rail",
            f"leave {_HALVES} of these rails, or put the others on another cage",
        )


def rail_notes(rails: Sequence[Rail], profile: Mapping[str, Any]) -> list[str]:
    """Return notes on layouts that work but waste half of the hardware."""
    wanted = profile.get("rails")
    if not rails or not wanted:
        return []
    if len(rails) < wanted:
        used = (
            f"{len(rails)} of the {wanted} rails that the hardware has on one cable is used: the rest of its bandwidth "
            "is unused. Add a rail for the other half of the cage, in a subnet of its own."
        )
        return [used]
    places = {(rail.cage, rail.half) for rail in rails if rail.cage is not None}
    if len(places) > 1 and len({half for _, half in places}) == 1:
        shared = (
            f"{' and '.join(rail.words for rail in rails)} are behind one PCIe link, which has half the bandwidth of "
            "a cable. Put the rails on the two halves of one cage."
        )
        return [shared]
    return []
