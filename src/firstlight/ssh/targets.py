# SPDX-License-Identifier: Apache-2.0
"""Target nodes: addresses, ranges, names, and the document that `firstlight discover` writes. Pure functions."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firstlight.errors import UsageError

MOST = 4096
"""Maximum number of addresses per command: a larger network was hardly meant to be searched."""
FIELDS = ("name", "serial", "address", "mac", "hardware", "position")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_RANGE = re.compile(r"(?P<first>\d{1,3}(?:\.\d{1,3}){3})-(?P<last>\d{1,3}(?:\.\d{1,3}){0,3})")


@dataclass(frozen=True)
class Target:
    """A node, with the expected identity as far as known."""

    name: str
    address: str
    serial: str | None = None
    mac: str | None = None
    hardware: str | None = None
    position: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.name, self.address)))

    @property
    def hostname(self) -> str | None:
        """The name to give the host; one known only by its address keeps its own name."""
        return None if self.name == self.address else self.name


def expand(words: Sequence[str]) -> list[str]:
    """Expand `10.0.0.5`, `10.0.0.10-20`, `10.0.0.10-10.0.1.5` and `10.0.0.0/24` into unique addresses in order."""
    found: dict[str, None] = {}
    for word in words:
        for address in _addresses(word):
            found[address] = None
            if len(found) > MOST:
                raise UsageError(f"{word} extends the search to over {MOST} addresses; expected fewer. Name a part.")
    return list(found)


def _addresses(word: str) -> list[str]:
    ranged = _RANGE.fullmatch(word)
    try:
        if ranged:
            ending = ranged["last"].split(".")
            last = ".".join(ranged["first"].split(".")[: 4 - len(ending)] + ending)
            low, high = int(ipaddress.IPv4Address(ranged["first"])), int(ipaddress.IPv4Address(last))
            if high < low:
                raise ValueError("it ends before it begins")
            return [str(ipaddress.IPv4Address(number)) for number in range(low, min(high, low + MOST) + 1)]
        if "/" in word:
            network = ipaddress.IPv4Network(word, strict=False)
            if network.num_addresses > 2 * MOST:
                raise ValueError(f"it has {network.num_addresses} addresses, more than {MOST}")
            return [str(address) for address in network.hosts()]
        return [str(ipaddress.IPv4Address(word))]
    except ValueError as error:
        raise UsageError(
            f"{word!r} is not an address or range ({error}); expected for example 10.0.0.5, 10.0.0.10-20 or "
            "10.0.0.0/24."
        ) from None


def named(words: Sequence[str]) -> list[Target]:
    """Parse nodes from the command line: `NAME=ADDRESS`, or addresses and ranges without names."""
    targets: list[Target] = []
    for word in words:
        name, equals, address = word.partition("=")
        if equals:
            targets.append(_target({"name": name, "address": address}, word))
        else:
            targets += [Target(one, one) for one in expand([word])]
    return targets


def is_name(text: str) -> bool:
    """Return whether a node may have this name. Not an address: a key pinned for it would be pinned for that host."""
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return bool(_NAME.fullmatch(text))
    return False


def listed(document: Any) -> list[Target]:
    """Parse a document with a list `nodes`, each with at least a name and an address. Raises UsageError."""
    nodes = document.get("nodes") if isinstance(document, Mapping) else None
    if not isinstance(nodes, list) or not all(isinstance(node, Mapping) for node in nodes):
        raise UsageError(
            "the list of nodes has no `nodes:` with one entry per node; expected what `firstlight discover --output` "
            "writes."
        )
    return [_target(node, f"node {number}") for number, node in enumerate(nodes, start=1)]


def _target(node: Mapping[str, Any], where: str) -> Target:
    values = {field: node.get(field) for field in FIELDS if node.get(field) is not None}
    name, address = str(values.get("name", "")), str(values.get("address", ""))
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        raise UsageError(f"{where} has the address {address!r}; expected an IPv4 address. Correct it.") from None
    if name and name != address and not is_name(name):
        raise UsageError(
            f"{where} has the name {name!r}; expected a host name: lower-case letters, digits and dashes. Correct it."
        )
    position = values.get("position")
    return Target(
        name=name or address,
        address=address,
        serial=str(values["serial"]) if "serial" in values else None,
        mac=str(values["mac"]).lower() if "mac" in values else None,
        hardware=str(values["hardware"]) if "hardware" in values else None,
        position=position if isinstance(position, int) else None,
    )


def chosen(targets: Sequence[Target], names: Sequence[str]) -> list[Target]:
    """Return the named targets, or all without names. Raises UsageError for an unknown name."""
    unknown = [name for name in names if not any(name in target.names for target in targets)]
    if unknown:
        known = ", ".join(target.name for target in targets)
        raise UsageError(f"there is no node {', '.join(unknown)}; expected some of {known}. Correct the name.")
    return [target for target in targets if not names or set(names) & set(target.names)]


def shared(targets: Sequence[Target]) -> dict[str, str]:
    """Return addresses listed for more than one node, with the names of these nodes."""
    owners: dict[str, list[str]] = {}
    for target in targets:
        owners.setdefault(target.address, []).append(target.name)
    return {address: ", ".join(names) for address, names in owners.items() if len(names) > 1}
