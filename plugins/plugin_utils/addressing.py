# SPDX-License-Identifier: Apache-2.0
"""Addresses of the fabric: a host's place in the inventory decides its address in every rail's subnet.

Nothing else does, so a host appended to the inventory never moves the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from netaddr import AddrFormatError, IPNetwork

FIRST_HOST = 10
"""Host number of the first host; the ones below stay free for switches and gateways."""


class AddressingError(ValueError):
    """A subnet that cannot be used as written."""


def parse_subnet(text: object) -> IPNetwork:
    """An IPv4 subnet written as its network address and prefix length."""
    if not isinstance(text, str) or "/" not in text:
        raise AddressingError(f"{text!r} is not a subnet, expected a form like 192.168.100.0/24")
    try:
        network = IPNetwork(text)
    except (AddrFormatError, ValueError) as error:
        raise AddressingError(f"{text!r} is not a subnet, expected a form like 192.168.100.0/24") from error
    if network.version != 4:
        raise AddressingError(f"{text} is an IPv6 subnet, expected IPv4")
    if network.ip != network.network:
        raise AddressingError(f"{text} has host bits set, expected {network.cidr}")
    return network


def host_address(subnet: str, index: int) -> str:
    """The address with prefix length of the host at `index` in `subnet`."""
    network = parse_subnet(subnet)
    number = FIRST_HOST + index
    # The last address of a subnet is its broadcast address.
    if index < 0 or number >= network.size - 1:
        raise AddressingError(
            f"{subnet} has no address for host number {index + 1} (.{number} in it), "
            f"expected a subnet with more than {number + 1} addresses"
        )
    return f"{network.network + number}/{network.prefixlen}"


def overlapping(subnets: Sequence[str]) -> list[tuple[str, str]]:
    """Every pair of subnets that share addresses, in the order written. Unusable ones are passed over."""
    usable: list[tuple[str, IPNetwork]] = []
    pairs: list[tuple[str, str]] = []
    for text in subnets:
        try:
            network = parse_subnet(text)
        except AddressingError:
            continue
        pairs += [(other, text) for other, seen in usable if seen in network or network in seen]
        usable.append((text, network))
    return pairs
