# SPDX-License-Identifier: Apache-2.0
"""Validate the firewall role's variables and render the nftables rules from the role's templates.

All functions are pure. Settings that the kernel would reject, or that would mean something other than was asked for,
are rejected here with a message.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.firewall import RULES_PATH, TABLE
from ansible_collections.firstlight.cluster.plugins.plugin_utils.templates import render

DEFAULTS: dict[str, Any] = {
    "firewall_state": "present",
    "firewall_ssh_ports": [22],
    "firewall_ssh_from": [],
    "firewall_fabric": {},
    "firewall_openings": [],
    "firewall_container_interfaces": ["docker0"],
}
"""The same as the role's defaults, for a plan that leaves them out."""

PROTOCOLS = ("tcp", "udp")
OPENING_KEYS = ("name", "protocol", "ports", "from")
FABRIC_KEYS = ("interfaces", "peers")

_LONGEST_NAME = 40
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_LONGEST_INTERFACE = 15
_INTERFACE_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@+")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Ports = tuple[tuple[int, int], ...]
"""First and last port of each range."""


class SettingError(ValueError):
    """An invalid setting: what was found, what was expected, and the remedy."""

    def __init__(self, found: str, expected: str, remedy: str) -> None:
        super().__init__(f"{found}, expected {expected}: {remedy}")
        self.found, self.expected, self.remedy = found, expected, remedy


@dataclass(frozen=True)
class Opening:
    """Ports that are open to these addresses."""

    name: str
    protocol: str
    ports: Ports
    sources: tuple[Network, ...]


@dataclass(frozen=True)
class Firewall:
    """All permitted inbound traffic."""

    ssh_ports: Ports
    ssh_from: tuple[Network, ...]
    """Permitted sources of SSH; empty means anywhere."""
    interfaces: tuple[str, ...]
    peers: tuple[Network, ...]
    openings: tuple[Opening, ...]
    container_interfaces: tuple[str, ...]


# --- reading ---------------------------------------------------------------------------------------------------------
def read_firewall(variables: Mapping[str, Any]) -> Firewall:
    """Parse and validate the role's variables. Raises SettingError."""
    settings = {**DEFAULTS, **variables}
    fabric = _mapping(settings["firewall_fabric"] or {}, "firewall_fabric", FABRIC_KEYS)
    ssh_ports = read_ports(settings["firewall_ssh_ports"], "firewall_ssh_ports")
    openings = tuple(
        read_opening(one, f"firewall_openings[{number}]")
        for number, one in enumerate(_list(settings["firewall_openings"], "firewall_openings"))
    )
    names = [opening.name for opening in openings]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingError(
            f"firewall_openings has two entries named {', '.join(twice)}", "each name once", "rename one of them"
        )
    return Firewall(
        ssh_ports=ssh_ports,
        ssh_from=read_networks(settings["firewall_ssh_from"], "firewall_ssh_from"),
        interfaces=_interfaces(fabric.get("interfaces") or [], "firewall_fabric.interfaces"),
        peers=_peers(fabric.get("peers") or []),
        openings=openings,
        container_interfaces=_interfaces(
            settings["firewall_container_interfaces"], "firewall_container_interfaces", pattern=True
        ),
    )


def read_opening(value: Any, where: str) -> Opening:
    """Parse and validate one opening. Raises SettingError."""
    given = _mapping(value, where, OPENING_KEYS)
    name = given.get("name")
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME or set(name) - _NAME_CHARACTERS:
        raise SettingError(
            f"{where}.name is {name!r}",
            f"up to {_LONGEST_NAME} lowercase letters, digits, - and _",
            "give the opening a name such as endpoint",
        )
    protocol = given.get("protocol")
    if protocol not in PROTOCOLS:
        raise SettingError(f"{where}.protocol is {protocol!r}", " or ".join(PROTOCOLS), "write one of them")
    ports = read_ports(given.get("ports"), f"{where}.ports")
    sources = read_networks(given.get("from"), f"{where}.from")
    if not sources:
        raise SettingError(
            f"{where}.from is empty",
            "at least one network",
            "name the permitted sources, or write 0.0.0.0/0 and ::/0 for everybody",
        )
    return Opening(name, str(protocol), ports, sources)


def read_ports(value: Any, where: str) -> Ports:
    """Parse ports and ranges, merging those that overlap or adjoin. Raises SettingError."""
    found = []
    for one in _list(value, where):
        first, dash, last = ("", "", "") if isinstance(one, bool) else str(one).partition("-")
        numbers = [first, last if dash else first]
        if not all(number.isascii() and number.isdecimal() and len(number) <= 5 for number in numbers) or not (
            1 <= int(numbers[0]) <= int(numbers[1]) <= 65535
        ):
            raise SettingError(
                f"{where} has {one!r}", "a port from 1 to 65535 or a range such as 8000-8010", "correct it"
            )
        found.append((int(numbers[0]), int(numbers[1])))
    if not found:
        raise SettingError(f"{where} is empty", "at least one port", "list it, such as [22]")
    merged: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def read_networks(value: Any, where: str) -> tuple[Network, ...]:
    """Parse IPv4 and IPv6 networks, collapsing nested ones. Raises SettingError."""
    return _collapsed(_network(one, where) for one in _list(value, where))


def _network(value: Any, where: str) -> Network:
    try:
        if not isinstance(value, str) or "%" in value:
            raise ValueError("an address is written as text, without a zone")
        return ipaddress.ip_network(value, strict=True)
    except ValueError as error:
        raise SettingError(
            f"{where} has {value!r}, which is not a network ({error})",
            "an address or a network without host bits",
            "write it as 10.20.0.0/16, 10.20.0.5 or fd00:20::/64",
        ) from error


def _peers(value: Any) -> tuple[Network, ...]:
    peers = tuple(_list(value, "firewall_fabric.peers"))
    if not all(isinstance(one, str) for one in peers):
        return _peer_networks.__wrapped__(peers)  # uncached, as it may be unhashable; raises SettingError
    return _peer_networks(peers)


# The list is the same for every host of a plan, and grows with the cluster.
@functools.lru_cache(maxsize=4)
def _peer_networks(peers: tuple[Any, ...]) -> tuple[Network, ...]:
    where = "firewall_fabric.peers"
    found = []
    for one in peers:
        network = _network(one, where)
        address = network.network_address
        if network.num_addresses != 1 or address.is_multicast or address.is_unspecified or address.is_loopback:
            raise SettingError(
                f"{where} has {one!r}", "the address of a node on the fabric", "name every node by its own address"
            )
        found.append(network)
    return tuple(sorted(set(found), key=lambda network: (network.version, int(network.network_address))))


def _collapsed(networks: Iterable[Network]) -> tuple[Network, ...]:
    """Collapse networks per family: intervals of a kernel set must not overlap."""
    listed = list(networks)
    four = [network for network in listed if isinstance(network, ipaddress.IPv4Network)]
    six = [network for network in listed if isinstance(network, ipaddress.IPv6Network)]
    return (*ipaddress.collapse_addresses(four), *ipaddress.collapse_addresses(six))


def _interfaces(value: Any, where: str, *, pattern: bool = False) -> tuple[str, ...]:
    found = []
    for one in _list(value, where):
        stem = one[:-1] if pattern and isinstance(one, str) and one.endswith("*") else one
        if not isinstance(stem, str) or not 1 <= len(stem) <= _LONGEST_INTERFACE or set(stem) - _INTERFACE_CHARACTERS:
            expected = "the name of a network interface" + (", optionally ending in *" if pattern else "")
            raise SettingError(f"{where} has {one!r}", expected, "see `ip link` on the host")
        if stem == "lo":
            raise SettingError(f"{where} has lo, which is always open", "another interface", "remove it")
        found.append(one)
    return tuple(sorted(set(found)))


def _list(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise SettingError(f"{where} is {value!r}", "a list", "write it as a YAML list")
    return value


def _mapping(value: Any, where: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingError(f"{where} is {value!r}", f"a mapping with {', '.join(known)}", "write it as a mapping")
    unknown = sorted(str(key) for key in value if key not in known)
    if unknown:
        raise SettingError(
            f"{where} has {', '.join(unknown)}", f"only {', '.join(known)}", "correct the spelling, or remove it"
        )
    return value


# --- writing ---------------------------------------------------------------------------------------------------------
def render_rules(firewall: Firewall) -> str:
    """Render the rules file, which replaces the table atomically and touches no other table."""
    return render(
        "firewall",
        "firewall.nft",
        table=TABLE,
        ssh_ports=", ".join(_port_texts(firewall.ssh_ports)),
        ssh_from=_sources(firewall.ssh_from),
        interfaces=", ".join(f'"{name}"' for name in firewall.interfaces),
        peers=_sources(firewall.peers),
        peers_of_ipv6=any(network.version == 6 for network in firewall.peers),
        openings=[
            {
                "name": opening.name,
                "protocol": opening.protocol,
                "ports": _port_texts(opening.ports),
                "sources": _sources(opening.sources),
            }
            for opening in firewall.openings
        ],
        container_interfaces=firewall.container_interfaces,
    )


def render_service(path: str = RULES_PATH) -> str:
    """Render the systemd unit that loads the rules at boot."""
    return render("firewall", "firewall.service", path=path, table=TABLE)


def _port_texts(ports: Ports) -> list[str]:
    return [str(first) if first == last else f"{first}-{last}" for first, last in ports]


def _sources(networks: Iterable[Network]) -> list[str]:
    """Return one match per address family; a prefix of length 0 matches the family instead of a set of addresses."""
    listed, found = list(networks), []
    for version, word, family in ((4, "ip", "ipv4"), (6, "ip6", "ipv6")):
        mine = [network for network in listed if network.version == version]
        if any(network.prefixlen == 0 for network in mine):
            found.append(f"meta nfproto {family}")
        elif mine:
            found.append(f"{word} saddr {{ {', '.join(_written(network) for network in mine)} }}")
    return found


# Cached because every node of the fabric appears in the rules of every host.
@functools.cache
def _written(network: Network) -> str:
    return str(network.network_address) if network.num_addresses == 1 else str(network)
