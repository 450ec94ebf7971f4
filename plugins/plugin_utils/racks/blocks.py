# SPDX-License-Identifier: Apache-2.0
"""Address blocks of a rack: a node's place in them depends on nothing but its position."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.addressing import (
    FIRST_HOST,
    AddressingError,
    is_ipv4_address,
    parse_subnet,
)

FABRIC_MOST = 60_000
"""The highest place in a rail's subnet: a /16 has hardly more."""

_FABRIC = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")


@dataclass(frozen=True)
class Block:
    """Integers from `first` to `last`, inclusive."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def at(self, position: int) -> int:
        """Return the number of the node at this position; positions start at 1."""
        return self.first + position - 1

    def has(self, one: int) -> bool:
        return self.first <= one <= self.last

    def overlaps(self, other: Block) -> bool:
        return self.first <= other.last and other.first <= self.last


def parse_management(text: object) -> Block:
    """Parse a subnet, in which the first node gets .10, or a range of addresses. Raises AddressingError."""
    if isinstance(text, str) and "/" in text:
        network = parse_subnet(text)
        # The last address of a subnet is its broadcast address.
        first, last = int(network[0]) + FIRST_HOST, int(network[-1]) - 1
        if last < first:
            raise AddressingError(f"{text} has {network.num_addresses} addresses, expected more than {FIRST_HOST + 1}")
        return Block(first, last)
    ends = [one.strip() for one in text.split("-")] if isinstance(text, str) else []
    if len(ends) != 2 or not all(is_ipv4_address(one) for one in ends):
        raise AddressingError(f"{text!r} is neither a range of IPv4 addresses nor a subnet")
    first, last = (number(one) for one in ends)
    if last < first:
        raise AddressingError(f"{text} ends before it begins")
    return Block(first, last)


def parse_fabric(text: object) -> Block:
    """Parse a range of places in the subnet of every rail, such as 10-41. Raises AddressingError."""
    match = _FABRIC.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise AddressingError(f"{text!r} is not a range of places")
    first, last = (int(one) for one in match.groups())
    if not FIRST_HOST <= first <= last <= FABRIC_MOST:
        raise AddressingError(f"{text} is not within {FIRST_HOST} to {FABRIC_MOST}, the lower one first")
    return Block(first, last)


def address(number: int) -> str:
    """Convert a number to an IPv4 address."""
    return str(ipaddress.IPv4Address(number))


def number(text: str) -> int:
    """Convert an IPv4 address to its number, the inverse of `address`."""
    return int(ipaddress.IPv4Address(text))
