# SPDX-License-Identifier: Apache-2.0
"""Addresses of the fabric: a host's number decides its address in every rail's subnet, and nothing else does.

The number is the host's place in the inventory, so a host appended to it never moves the others, or one that the
inventory gives it, so that racks can be numbered as their owner likes.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Sequence

FIRST_HOST = 10
"""Host number of the first host; the ones below stay free for switches and gateways."""


class AddressingError(ValueError):
    """A subnet that cannot be used as written."""


def parse_subnet(text: object) -> ipaddress.IPv4Network:
    """An IPv4 subnet written as its network address and prefix length."""
    if not isinstance(text, str) or "/" not in text:
        raise AddressingError(f"{text!r} is not a subnet, expected a form like 192.168.100.0/24")
    return _parse_subnet(text)


# A rail's subnet is asked for once a host and rail, and for every pair of them.
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
    """The address with prefix length of the host with this number in `subnet`."""
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
    """The subnet of an address that is written with its prefix length; None where it is none."""
    try:
        return str(ipaddress.ip_network(address, strict=False))
    except ValueError:
        return None


def overlapping(subnets: Sequence[str]) -> list[tuple[str, str]]:
    """Every pair of subnets that share addresses, in the order written. Unusable ones are passed over."""
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
