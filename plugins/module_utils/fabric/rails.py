# SPDX-License-Identifier: Apache-2.0
"""Find the port of each rail of the plan on a host, and explain in one line if there is none.

A rail is planned on a port by name, on one half of a cage, or, with neither, on the one cage that has a cable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .ports import cages, shown

Rail = Mapping[str, Any]
"""{port: name or null, cage: number or null, half: 0 or 1, mtu}."""
Ports = Mapping[str, Mapping[str, Any]]

IPOIB_MTU = 4092
"""The largest MTU of IP over InfiniBand in datagram mode, the only mode that today's cards support."""


class Problem(NamedTuple):
    """Why a rail cannot be on its port, and what to do."""

    found: str
    remedy: str

    @property
    def sentence(self) -> str:
        """Problem and remedy in one line."""
        return f"{self.found}: {self.remedy}"


def find_port(subnet: str, rail: Rail, ports: Ports) -> tuple[str | None, Problem | None]:
    """Return the port of a rail on a host with these ports, and the problem with it if there is one."""
    if rail.get("port"):
        name: str | None = str(rail["port"])
        problem = None if _is_there(name, ports) else _missing(subnet, str(name), ports)
    elif rail.get("cage") is not None:
        name, problem = _in_cage(subnet, int(rail["cage"]), int(rail.get("half") or 0), ports)
    else:
        name, problem = _cabled(subnet, int(rail.get("half") or 0), ports)
    if name is None or problem is not None:
        return name, problem
    return name, _misused(subnet, name, rail, ports) or _without_carrier(subnet, name, ports)


def _is_there(name: str | None, ports: Ports) -> bool:
    return bool((ports.get(name or "") or {}).get("port"))


def _missing(subnet: str, name: str, ports: Ports) -> Problem:
    return Problem(
        f"rail {subnet} is planned on {name}, which the host does not have; it has {_listed(ports.values())}",
        f"correct {name} in firstlight_fabric.rails, or fit the network card it belongs to",
    )


def _in_cage(subnet: str, cage: int, half: int, ports: Ports) -> tuple[str | None, Problem | None]:
    halves = cages(ports).get(cage)
    if not halves:
        return None, Problem(
            f"rail {subnet} is planned on cage {cage}, but the host shows no port of it; it has "
            f"{_listed(ports.values())}",
            "name the port of every rail in firstlight_fabric.rails",
        )
    if half not in halves:
        return None, Problem(
            f"rail {subnet} is planned on half {half} of cage {cage}, but the host shows only "
            f"{', '.join(halves.values())}",
            "look for the other half with `lspci -d 15b3:` and in `dmesg`, then power the host off and on",
        )
    return halves[half], None


def _cabled(subnet: str, half: int, ports: Ports) -> tuple[str | None, Problem | None]:
    """Return the port in the one cage that has a cable."""
    known = cages(ports)
    with_cable = [cage for cage, halves in known.items() if any(ports[name]["carrier"] for name in halves.values())]
    if len(with_cable) == 1:
        return _in_cage(subnet, with_cable[0], half, ports)
    begin = f"rail {subnet} has no port in the plan, and"
    if not known:
        return None, Problem(
            f"{begin} the host shows no cages to choose from; it has {_listed(ports.values())}",
            "name the port of every rail in firstlight_fabric.rails",
        )
    those = _listed(ports[name] for halves in known.values() for name in halves.values())
    choice = " or ".join(f"port: cage {cage}" for cage in with_cable or known)
    if with_cable:
        return None, Problem(f"{begin} more than one cage has a carrier ({those})", f"write {choice}")
    down = [name for halves in known.values() for name in halves.values() if ports[name]["carrier"] is None]
    remedy = f"plug the cable in and enable its port of the switch, or write {choice}"
    if down:
        remedy = f"bring them up to see which has a cable (`ip link set {down[0]} up`), or write {choice}"
    return None, Problem(f"{begin} no cage has a carrier ({those})", remedy)


def _misused(subnet: str, name: str, rail: Rail, ports: Ports) -> Problem | None:
    port = ports[name]
    if port.get("master") and str(port.get("master")) in ports:
        bond = port["master"]
        return Problem(
            f"rail {subnet} is planned on {name}, which is a member of {bond}",
            f"write port: {bond}, which has the addresses, or remove {name} from it",
        )
    mtu = int(rail.get("mtu") or 0)
    if port.get("link_layer") == "InfiniBand" and mtu > IPOIB_MTU:
        return Problem(
            f"rail {subnet} is planned on {name} with an MTU of {mtu}, and {name} is InfiniBand, where IP allows at "
            f"most {IPOIB_MTU}",
            f"set firstlight_fabric.mtu to {IPOIB_MTU} or less, or remove the rail: RDMA over InfiniBand needs none",
        )
    return None


def _without_carrier(subnet: str, name: str, ports: Ports) -> Problem | None:
    """Report a port without carrier only if it is up: a port that is down does not know whether it has a cable."""
    port = ports[name]
    if port["carrier"] is not False:
        return None
    cage = "" if port["cage"] is None else f" (cage {port['cage']})"
    begin = f"rail {subnet} is planned on {name}{cage}, which has no carrier"
    others = [one for one in ports.values() if _is_cabled_elsewhere(one, port)]
    if others:
        other = min(others, key=lambda one: (one["cage"], one["half"] != port["half"], str(one["port"])))
        return Problem(
            f"{begin}; {other['port']} (cage {other['cage']}) has one",
            f"move the cable to the other cage, or write port: cage {other['cage']}",
        )
    twin = ports.get(port["twin"] or "") or {}
    if twin.get("carrier"):
        return Problem(
            f"{begin}; {twin['port']}, the other half of the cage, has one",
            f"bring {name} up (`ip link set {name} up`), look at `ethtool {name}`, and power the host off and on",
        )
    return Problem(begin, "plug its cable in and enable its port of the switch")


def _is_cabled_elsewhere(one: Mapping[str, Any], port: Mapping[str, Any]) -> bool:
    return bool(one["carrier"]) and None not in (one["cage"], port["cage"]) and one["cage"] != port["cage"]


def _listed(ports: Iterable[Mapping[str, Any]]) -> str:
    listed = [shown(port) for port in ports]
    more = f" and {len(listed) - 12} more" if len(listed) > 12 else ""
    return ", ".join(listed[:12]) + more if listed else "no suitable port"
