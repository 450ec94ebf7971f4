# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ipaddress

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.addressing import (
    AddressingError,
    host_address,
    overlapping,
    parse_subnet,
)
from hypothesis import given
from hypothesis import strategies as st

SUBNETS = st.tuples(st.integers(0, 2**32 - 1), st.integers(8, 26)).map(
    lambda pair: str(ipaddress.ip_network((pair[0] >> (32 - pair[1]) << (32 - pair[1]), pair[1])))
)


@given(SUBNETS, st.integers(1, 40))
def test_hosts_of_a_rail_never_clash_and_stay_in_the_subnet(subnet: str, count: int) -> None:
    addresses = [ipaddress.ip_interface(host_address(subnet, index)) for index in range(count)]
    network = ipaddress.ip_network(subnet)
    assert len({address.ip for address in addresses}) == count
    assert all(address.network == network for address in addresses)
    assert all(address.ip not in (network.network_address, network.broadcast_address) for address in addresses)


@given(st.lists(SUBNETS, min_size=2, max_size=4, unique=True), st.integers(1, 8))
def test_rails_that_do_not_overlap_never_clash(subnets: list[str], count: int) -> None:
    networks = [ipaddress.ip_network(subnet) for subnet in subnets]
    really = [
        (subnets[i], subnets[j]) for j in range(len(networks)) for i in range(j) if networks[i].overlaps(networks[j])
    ]
    assert sorted(overlapping(subnets)) == sorted(really)
    if not really:
        addresses = [host_address(subnet, index) for subnet in subnets for index in range(count)]
        assert len({address.partition("/")[0] for address in addresses}) == len(addresses)


def test_the_first_host_is_ten() -> None:
    assert [host_address("192.168.100.0/24", index) for index in (0, 1, 3)] == [
        "192.168.100.10/24",
        "192.168.100.11/24",
        "192.168.100.13/24",
    ]


def test_a_subnet_ends_before_its_broadcast_address() -> None:
    assert host_address("10.0.0.0/28", 4) == "10.0.0.14/28"
    with pytest.raises(AddressingError, match="no address for host number 5"):
        host_address("10.0.0.0/28", 5)
    with pytest.raises(AddressingError, match="no address"):
        host_address("10.0.0.0/24", -1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("192.168.100.1/24", "host bits"),
        ("192.168.100.0", "not a subnet"),
        ("192.168.100.0/33", "not a subnet"),
        ("fabric/24", "not a subnet"),
        ("fd00::/64", "IPv6"),
        (None, "not a subnet"),
        (24, "not a subnet"),
        ("", "not a subnet"),
    ],
)
def test_a_subnet_that_cannot_be_used_is_named(text: object, words: str) -> None:
    with pytest.raises(AddressingError, match=words):
        parse_subnet(text)


def test_unusable_subnets_are_passed_over_in_the_search_for_overlaps() -> None:
    assert overlapping(["junk", "10.0.0.0/8", "10.1.0.0/16"]) == [("10.0.0.0/8", "10.1.0.0/16")]
