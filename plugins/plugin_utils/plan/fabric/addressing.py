# SPDX-License-Identifier: Apache-2.0
"""Addresses of the fabric: a host's number alone decides its address in every rail's subnet.

The number is the host's place in the inventory, so that appending a host never moves the others, or a number set in
the inventory, so that owners can number their racks as they like.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Sequence

FIRST_HOST = 10
"""Offset of the first host in a subnet; the addresses below it stay free for switches and gateways."""


class AddressingError(ValueError):
    """A subnet that cannot be used as written."""


def parse_subnet(text: object) -> ipaddress.IPv4Network:
    """Parse an IPv4 subnet written as its network address and prefix length."""
    if not isinstance(text, str) or "/" not in text:
        raise AddressingError(f"{text!r} is not a subnet, expected a form like 192.168.100.0/24")
    return _parse_subnet(text)


# A rail's subnet is parsed once per host and rail, and for every pair of rails.
@functools.cache
def _parse_subnet(text: str) -> ipaddress.IPv4Network:
    try:
        written = ipaddress.ip_interface(text)
    except ValueError as error:
        raise AddressingError(f"{text!r} is not a subnet, expected a form like 192.168.100.0/24") from error
    if isinstance(written, ipaddress.IPv6Interface):
        raise AddressingError(f"{text} is an IPv6 subnet, expected IPv4")
    if written.ip != written.network.network_address:
        raise AddressingError(f"{text} has host bits set, expected {written.network}")
    return written.network


@functools.cache
def host_address(subnet: str, number: int) -> str:
    """Return the address, with prefix length, of host `number` in `subnet`."""
    network = parse_subnet(subnet)
    place = FIRST_HOST + number
    # The last address of a subnet is its broadcast address.
    if number < 0 or place >= network.num_addresses - 1:
        raise AddressingError(
            f"{subnet} has no address for host number {number} (address {place} in it), "
            f"expected a subnet with more than {place + 1} addresses"
        )
    return f"{network.network_address + place}/{network.prefixlen}"


def is_ipv4_address(text: object) -> bool:
    """Whether this is an IPv4 address, and not a name."""
    try:
        return isinstance(text, str) and bool(ipaddress.IPv4Address(text))
    except ValueError:
        return False


def network_of(address: str) -> str | None:
    """Return the subnet of an address with prefix length; None if it cannot be parsed."""
    try:
        return str(ipaddress.ip_network(address, strict=False))
    except ValueError:
        return None


def overlapping(subnets: Sequence[str]) -> list[tuple[str, str]]:
    """Return every pair of subnets that share addresses, in the order written. Invalid ones are skipped."""
    usable: list[tuple[str, ipaddress.IPv4Network]] = []
    pairs: list[tuple[str, str]] = []
    for text in subnets:
        try:
            network = parse_subnet(text)
        except AddressingError:
            continue
        pairs += [(other, text) for other, seen in usable if seen.overlaps(network)]
        usable.append((text, network))
    return pairs
