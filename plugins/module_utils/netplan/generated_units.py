# SPDX-License-Identifier: Apache-2.0
"""Parse what netplan generates from its files: systemd-networkd units and NetworkManager keyfiles.

The rules by which netplan merges its files are easy to get wrong: lists are merged, a later file overrides single
values, and a stanza can match a port by a pattern, a MAC address or a driver. The generator's output has all of that
resolved, so that is what is evaluated.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from ..parsers.text import parse_json_list

NETWORKD = "networkd"
NETWORK_MANAGER = "NetworkManager"

Sections = list[tuple[str, list[tuple[str, str]]]]

_MEMBERS = ("Bond", "Bridge", "VRF", "BatmanAdvanced")
_NO = ("", "no", "false", "off", "0", "none")


@dataclass(frozen=True)
class PortIdentity:
    """Properties by which a unit can match a port."""

    name: str
    other_names: frozenset[str] = frozenset()
    mac: str = ""
    permanent_mac: str = ""
    driver: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Given:
    """The settings that a unit gives to the port that it matches."""

    addresses: tuple[str, ...] = ()
    dhcp: str = ""
    routes: tuple[str, ...] = ()
    mtu: int | None = None
    member: str = ""

    def words(self) -> list[str]:
        """Describe each setting in a few words."""
        found = [f"the address {address}" for address in self.addresses]
        found += [f"DHCP ({self.dhcp})"] if self.dhcp else []
        found += [f"the route {route}" for route in self.routes]
        found += [f"MTU {self.mtu}"] if self.mtu is not None else []
        found += [f"membership in {self.member}"] if self.member else []
        return found

    def sentence(self) -> str:
        return ", ".join(self.words()) or "nothing"


@dataclass(frozen=True)
class Unit:
    """One file that a renderer reads."""

    name: str
    renderer: str
    sections: Sections = field(hash=False)

    @property
    def given(self) -> Given:
        return _networkd_gives(self.sections) if self.renderer == NETWORKD else _keyfile_gives(self.sections)

    @property
    def subject(self) -> str:
        """What the unit matches: a port's name, a pattern, a MAC address."""
        wanted = [value for section, key, value in _flat(self.sections) if _is_match(section, key) and value]
        return " ".join(wanted).rstrip(";") or "every port"

    def match(self, port: PortIdentity) -> str:
        """Return how it matches this port: "itself" by name or MAC address, "pattern" if wider, "" if not at all."""
        if self.renderer == NETWORKD:
            return _networkd_match(self.sections, port)
        return _keyfile_match(self.sections, port)


def our_unit_name(port: str, renderer: str) -> str:
    """Return the name of the file that netplan writes for a stanza named like its port."""
    return f"10-netplan-{port}.network" if renderer == NETWORKD else f"netplan-{port}.nmconnection"


def our_unit_names(port: str, renderer: str) -> list[str]:
    """Return the names used by all netplan releases: newer ones (seen in 1.1.2) escape characters special in a URL."""
    return [our_unit_name(name, renderer) for name in dict.fromkeys((port, quote(port, safe="")))]


def parse_sections(text: str) -> Sections:
    """Parse sections and settings, keeping order and repetitions: both are significant to networkd."""
    found: Sections = []
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and line.endswith("]"):
            found.append((line[1:-1], []))
        elif "=" in line and found:
            key, _, value = line.partition("=")
            found[-1][1].append((key.strip(), value.strip()))
    return found


def read_units(files: Mapping[str, str], renderer: str) -> list[Unit]:
    """Parse units from texts by name, in the order of networkd; an empty one only masks others and is left out."""
    ending = ".network" if renderer == NETWORKD else ".nmconnection"
    return [
        Unit(name, renderer, parse_sections(text))
        for name, text in sorted(files.items())
        if name.endswith(ending) and text.strip()
    ]


def parse_identities(text: str, drivers: Mapping[str, str]) -> dict[str, PortIdentity]:
    """Parse `ip -d -j link show` into what units can match each port by. Raises ValueError for other text."""
    found = {}
    for entry in parse_json_list(text, "ip -d -j link"):
        name = entry.get("ifname")
        if not name:
            continue
        mac = str(entry.get("address") or "").lower()
        found[str(name)] = PortIdentity(
            name=str(name),
            other_names=frozenset(str(other) for other in entry.get("altnames") or []),
            mac=mac,
            permanent_mac=str(entry.get("permaddr") or mac).lower(),
            driver=drivers.get(str(name), ""),
            kind=str((entry.get("linkinfo") or {}).get("info_kind") or ""),
        )
    return found


def _flat(sections: Sections) -> Iterable[tuple[str, str, str]]:
    return ((section, key, value) for section, settings in sections for key, value in settings)


def _values(sections: Sections, section: str, key: str) -> list[str]:
    return [value for found, name, value in _flat(sections) if (found, name) == (section, key) and value]


def _last(sections: Sections, section: str, key: str) -> str:
    return (_values(sections, section, key) or [""])[-1]


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _is_match(section: str, key: str) -> bool:
    return section.lower() == "match" or key in ("interface-name", "mac-address")


# --- systemd-networkd ------------------------------------------------------------------------------------------------
def _networkd_gives(sections: Sections) -> Given:
    addresses = [*_values(sections, "Network", "Address"), *_values(sections, "Address", "Address")]
    dhcp = _last(sections, "Network", "DHCP").lower()
    routes = [f"default via {gateway}" for gateway in _values(sections, "Network", "Gateway")]
    routes += [_route(dict(settings)) for name, settings in sections if name == "Route"]
    members = [f"{kind.lower()} {value}" for kind in _MEMBERS for value in _values(sections, "Network", kind)]
    return Given(
        addresses=tuple(sorted(set(addresses))),
        dhcp="" if dhcp in _NO else dhcp,
        routes=tuple(sorted(set(routes))),
        mtu=_number(_last(sections, "Link", "MTUBytes")),
        member=", ".join(members),
    )


def _route(settings: Mapping[str, str]) -> str:
    destination = settings.get("Destination", "default")
    destination = "default" if destination in ("0.0.0.0/0", "::/0") else destination
    return f"{destination} via {settings['Gateway']}" if settings.get("Gateway") else destination


def _networkd_match(sections: Sections, port: PortIdentity) -> str:
    """Match a port; conditions on other things (a host's name, a kernel) are assumed to be met."""
    facts: dict[str, tuple[str, ...]] = {
        "Name": (port.name, *sorted(port.other_names)),
        "OriginalName": (port.name,),
        "MACAddress": (port.mac,),
        "PermanentMACAddress": (port.permanent_mac,),
        "Driver": (port.driver,),
        "Kind": (port.kind,),
        "Type": ("ether",),
    }
    itself = False
    for section, key, value in _flat(sections):
        if section != "Match" or key not in facts or not value:
            continue
        patterns = value.lower().split() if key.endswith("MACAddress") else value.split()
        if not _any_matches(patterns, facts[key]):
            return ""
        itself = itself or key.endswith("MACAddress") or (key == "Name" and port.name in patterns)
    return "itself" if itself else "pattern"


def _any_matches(patterns: list[str], facts: Iterable[str]) -> bool:
    """Match a list of patterns like systemd: a leading "!" means none of them."""
    if patterns and patterns[0].startswith("!"):
        patterns = [patterns[0][1:], *patterns[1:]]
        return not any(fnmatch.fnmatchcase(fact, pattern) for fact in facts for pattern in patterns)
    return any(fact and fnmatch.fnmatchcase(fact, pattern) for fact in facts for pattern in patterns)


# --- NetworkManager --------------------------------------------------------------------------------------------------
def _keyfile_gives(sections: Sections) -> Given:
    addresses, routes, dhcp = [], [], []
    for section in ("ipv4", "ipv6"):
        settings = [(key, value) for found, key, value in _flat(sections) if found == section]
        addresses += [value.partition(",")[0] for key, value in settings if _numbered(key, "address")]
        routes += [_keyfile_route(value) for key, value in settings if _numbered(key, "route")]
        routes += [f"default via {value}" for key, value in settings if key == "gateway"]
        dhcp += [section for key, value in settings if key == "method" and value in ("auto", "dhcp")]
    return Given(
        addresses=tuple(sorted(set(addresses))),
        dhcp="yes" if len(dhcp) > 1 else "".join(dhcp),
        routes=tuple(sorted(set(routes))),
        mtu=_number(_last(sections, "ethernet", "mtu")) or None,
        member=_last(sections, "connection", "master") or _last(sections, "connection", "controller"),
    )


def _numbered(key: str, word: str) -> bool:
    return key.startswith(word) and key[len(word) :].isdecimal()


def _keyfile_route(value: str) -> str:
    destination, _, rest = value.partition(",")
    destination = "default" if destination in ("0.0.0.0/0", "::/0") else destination
    gateway = rest.partition(",")[0]
    return f"{destination} via {gateway}" if gateway else destination


def _keyfile_match(sections: Sections, port: PortIdentity) -> str:
    if _last(sections, "connection", "type") not in ("ethernet", "802-3-ethernet"):
        return ""
    name = _last(sections, "connection", "interface-name")
    mac = _last(sections, "ethernet", "mac-address").lower()
    patterns = [text for text in _last(sections, "match", "interface-name").split(";") if text]
    if name and name != port.name:
        return ""
    if mac and mac not in (port.mac, port.permanent_mac):
        return ""
    if patterns and not _any_matches([text.lstrip("|&") for text in patterns], [port.name]):
        return ""
    return "itself" if name or mac or port.name in patterns else "pattern"
