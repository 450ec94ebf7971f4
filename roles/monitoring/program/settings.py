# SPDX-License-Identifier: Apache-2.0
"""The settings of the metrics program: where it listens, who may read, and what it reads."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.firstlight.cluster.plugins.module_utils.connection_slots import LOOPBACK, canonical

CONFIG_PATH = "/etc/firstlight/metrics.json"
VERSION = 1

_KEYS = frozenset(
    {
        "version",
        "node",
        "listen",
        "port",
        "hosts",
        "sources",
        "pins",
        "certificates",
        "firewall_tables",
        "gpus",
        "supervisor",
        "targets",
    }
)


@dataclass(frozen=True)
class Source:
    """A program on this node with a page of its own."""

    name: str
    url: str
    allowed: tuple[str, ...]
    """Prefixes of the names that are passed on; everything else stays here."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """The whole configuration of the program."""

    node: str
    listen: str
    port: int
    hosts: frozenset[str]
    sources: tuple[Source, ...] = ()
    pins: Mapping[str, str] = field(default_factory=dict)
    certificates: tuple[str, ...] = ()
    firewall_tables: tuple[str, ...] = ()
    gpus: int = 0
    supervisor: bool = True
    targets: Mapping[str, float] = field(default_factory=dict)
    """Targets in milliseconds, by their names in firstlight_targets."""

    @property
    def readers(self) -> frozenset[str]:
        """The addresses that may read: the named hosts, and the node itself, which connects from its own address."""
        return self.hosts | {self.listen}


def parse_settings(document: object) -> Settings:
    """Parse the settings. Raises ValueError for an invalid document."""
    if not isinstance(document, Mapping) or document.get("version") != VERSION:
        raise ValueError(f"{CONFIG_PATH} is not version {VERSION} of this file: run the role monitoring again")
    strange = sorted(str(key) for key in document if key not in _KEYS)
    if strange:
        raise ValueError(f"{CONFIG_PATH} has unknown keys {', '.join(strange)}: run the role monitoring again")
    return Settings(
        node=str(document.get("node") or ""),
        listen=address(document.get("listen"), "listen"),
        port=port(document.get("port"), "port"),
        hosts=frozenset(address(one, "hosts") for one in document.get("hosts") or ()),
        sources=tuple(_source(one) for one in document.get("sources") or ()),
        pins={str(name): str(version) for name, version in dict(document.get("pins") or {}).items()},
        certificates=tuple(absolute(one, "certificates") for one in document.get("certificates") or ()),
        firewall_tables=tuple(firewall_table(one, "firewall_tables") for one in document.get("firewall_tables") or ()),
        gpus=int(document.get("gpus") or 0),
        supervisor=bool(document.get("supervisor", True)),
        targets=targets(document.get("targets") or {}, "targets"),
    )


def is_allowed(peer: str, readers: frozenset[str]) -> bool:
    """Whether this address may read: it is one of `readers`, or loopback."""
    try:
        found = canonical(peer)
    except ValueError:
        return False
    return found == LOOPBACK or found in readers


def address(value: object, where: str) -> str:
    """Normalise an IP address to its canonical short form."""
    try:
        return str(ipaddress.ip_address(str(value)))
    except ValueError:
        raise ValueError(
            f"{where} has {value!r}, expected an IP address: a name may mean another host tomorrow"
        ) from None


def port(value: object, where: str) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise ValueError(f"{where} is {value!r}, expected a port from 1 to 65535: correct it")
    return int(text)


def absolute(value: object, where: str) -> str:
    if not str(value).startswith("/"):
        raise ValueError(f"{where} has {value!r}, expected an absolute path: correct it")
    return str(value)


def firewall_table(value: object, where: str) -> str:
    """Validate a table as nft names it: "inet firstlight"."""
    words = str(value).split()
    if len(words) != 2 or words[0] not in ("inet", "ip", "ip6", "arp", "bridge", "netdev") or words[1].startswith("-"):
        raise ValueError(f"{where} has {value!r}, expected FAMILY NAME such as `inet firstlight`: correct it")
    return " ".join(words)


def targets(value: object, where: str) -> dict[str, float]:
    """Validate a mapping of numbers by name; their meaning is up to the code that compares them."""
    if not isinstance(value, Mapping) or not all(
        isinstance(one, (int, float)) and not isinstance(one, bool) and one >= 0 for one in value.values()
    ):
        raise ValueError(f"{where} is {value!r}, expected numbers by name, such as ttft_p95_ms: 800: correct it")
    return {str(name): one for name, one in value.items()}


def page_url(value: object, where: str) -> str:
    """Validate an http URL with an IP address, meant to be this node's: what is read there is passed on unencrypted."""
    parts = urlsplit(str(value))
    try:
        ipaddress.ip_address(parts.hostname or "")
        port(parts.port, where)
    except ValueError:
        raise ValueError(
            f"{where} is {value!r}, expected http://ADDRESS:PORT/PATH with an IP address: correct it"
        ) from None
    if parts.scheme != "http" or parts.username or parts.query or parts.fragment:
        raise ValueError(f"{where} is {value!r}, expected http://ADDRESS:PORT/PATH and nothing more: correct it")
    return str(value)


def _source(value: Mapping[str, Any]) -> Source:
    allowed = tuple(str(one) for one in value.get("allowed") or ())
    if not allowed or not all(allowed):
        raise ValueError(f"source {value.get('name')!r} allows nothing, expected prefixes of names: correct it")
    return Source(
        name=str(value["name"]),
        url=page_url(value.get("url"), f"source {value['name']}"),
        allowed=allowed,
        labels={str(name): str(one) for name, one in dict(value.get("labels") or {}).items()},
    )
