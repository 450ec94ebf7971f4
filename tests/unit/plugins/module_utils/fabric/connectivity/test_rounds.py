# SPDX-License-Identifier: Apache-2.0
"""Rounds of pairs: everybody meets everybody once, and nobody is in two tests at a time."""

from __future__ import annotations

from itertools import combinations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.rounds import (
    partners,
    patience,
    rounds,
)

SIZES = range(2, 65)


def names(count: int) -> list[str]:
    return [f"spark{index}" for index in range(count)]


@pytest.mark.parametrize("count", SIZES)
def test_every_two_hosts_meet_exactly_once(count: int) -> None:
    met = [frozenset(pair) for listed in rounds(names(count)) for pair in listed]
    assert len(met) == len(set(met))
    assert set(met) == {frozenset(pair) for pair in combinations(names(count), 2)}


@pytest.mark.parametrize("count", SIZES)
def test_no_host_is_in_two_tests_of_a_round(count: int) -> None:
    for listed in rounds(names(count)):
        hosts = [host for pair in listed for host in pair]
        assert len(hosts) == len(set(hosts))


@pytest.mark.parametrize("count", SIZES)
def test_the_rounds_are_as_few_as_can_be(count: int) -> None:
    listed = rounds(names(count))
    assert len(listed) == (count if count % 2 else count - 1)
    assert {len(pairs) for pairs in listed} == {count // 2}


@pytest.mark.parametrize("count", SIZES)
def test_every_host_comes_to_the_same_rounds(count: int) -> None:
    schedule = rounds(names(count))
    assert schedule == rounds(tuple(names(count)))
    met = {host: partners(host, schedule) for host in names(count)}
    for host, others in met.items():
        assert sorted(name for name in others if name) == sorted(set(names(count)) - {host})
        assert all(other is None or met[other][index] == host for index, other in enumerate(others))


def test_a_pair_is_in_the_order_of_the_list() -> None:
    order = ["zeta", "alpha", "mid"]
    for listed in rounds(order):
        for one, other in listed:
            assert order.index(one) < order.index(other)


@pytest.mark.parametrize("hosts", [[], ["spark0"]])
def test_a_host_alone_meets_nobody(hosts: list[str]) -> None:
    assert [pair for listed in rounds(hosts) for pair in listed] == []


def test_a_host_that_is_listed_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="listed twice: spark1"):
        rounds(["spark0", "spark1", "spark1"])


def test_more_hosts_may_start_further_apart() -> None:
    assert patience(60, names(2)) == 68
    assert patience(60, names(64)) == 316
