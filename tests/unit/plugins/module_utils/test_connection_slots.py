# SPDX-License-Identifier: Apache-2.0
"""Places at a door: strangers, however many, never take the one of somebody who is planned."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.connection_slots import LOOPBACK, Places, canonical
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.hostile

PLANNED = ("192.168.100.11", "192.168.100.12", "fd00::11")
EACH, OTHERS = 2, 5
STRANGER = st.tuples(
    st.sampled_from(["10.0.0.{}", "10.0.{}.1", "2001:db8::{}", "2001:db8:0:{}::1"]), st.integers(0, 99)
).map(lambda made: made[0].format(made[1]))


@given(st.lists(st.one_of(STRANGER, st.sampled_from(PLANNED)), max_size=60))
def test_whoever_comes_the_planned_ones_find_their_places(crowd: list[str]) -> None:
    places = Places(PLANNED, EACH, OTHERS)
    inside = [peer for peer in crowd if places.take(peer)]
    own = {canonical(peer) for peer in PLANNED}
    assert sum(canonical(peer) not in own for peer in inside) <= OTHERS
    for peer in PLANNED:
        taken = [one for one in inside if canonical(one) == canonical(peer)]
        assert len(taken) <= EACH
        assert all(places.take(peer) for _ in range(EACH - len(taken)))
        assert not places.take(peer)


@given(st.lists(st.one_of(STRANGER, st.sampled_from(PLANNED)), max_size=60))
def test_who_leaves_leaves_nothing_behind(crowd: list[str]) -> None:
    places = Places(PLANNED, EACH, OTHERS)
    for _ in range(2):
        inside = [peer for peer in crowd if places.take(peer)]
        for peer in inside:
            places.give_back(peer)
    assert all(places.take(f"10.0.0.{number}") for number in range(OTHERS))
    assert not places.take("10.0.0.200")


def test_one_machine_with_many_addresses_is_one() -> None:
    places = Places((), EACH, OTHERS)
    assert [places.take(f"2001:db8::{number}") for number in range(4)] == [True, True, False, False]
    assert places.take("2001:db8:0:1::1")


def test_all_of_loopback_is_one() -> None:
    assert {canonical(peer) for peer in ("127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.9")} == {LOOPBACK}
    assert canonical("::ffff:10.0.0.1") == "10.0.0.1"
    assert canonical("fe80::1%eth0") == "fe80::1"


def test_who_is_not_planned_has_no_place_where_there_are_none_for_others() -> None:
    assert not Places(PLANNED, EACH).take("10.0.0.1")
