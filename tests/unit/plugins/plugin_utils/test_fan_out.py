# SPDX-License-Identifier: Apache-2.0
"""Who fetches, who shares, who takes part at all."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.fan_out import CONNECTIONS, fan_out
from hypothesis import given
from hypothesis import strategies as st

HOSTS = ["spark0", "spark1", "spark2"]


def parts(*lacking: str, hosts: list[str] = HOSTS, full: bool = False, shared: bool = True) -> tuple[object, ...]:
    found = fan_out("spark0", hosts, {host: [{}] for host in lacking}, full, shared)
    return found["fetches"], found["shares"], found["receives"]


def test_the_head_fetches_and_the_others_take_from_it() -> None:
    assert parts(*HOSTS) == (["spark0"], "spark0", ["spark1", "spark2"])


def test_a_head_that_has_everything_only_shares() -> None:
    assert parts("spark2") == ([], "spark0", ["spark2"])


def test_nobody_shares_where_nobody_lacks_anything() -> None:
    assert parts() == ([], "", [])
    assert parts("spark0") == (["spark0"], "", [])


def test_one_host_fetches_for_itself() -> None:
    assert parts("spark0", hosts=["spark0"], full=True) == (["spark0"], "", [])


def test_everyone_fetches_without_the_head_or_a_fabric() -> None:
    assert parts("spark1", hosts=["spark1", "spark2"]) == (["spark1"], "", [])
    assert parts(*HOSTS, shared=False) == (HOSTS, "", [])


@given(st.lists(st.sampled_from(HOSTS), unique=True), st.sets(st.sampled_from(HOSTS)), st.booleans(), st.booleans())
def test_whoever_lacks_something_gets_it_once(hosts: list[str], lacking: set[str], full: bool, shared: bool) -> None:
    found = fan_out("spark0", hosts, {host: [1] for host in lacking}, full, shared)
    assert sorted([*found["fetches"], *found["receives"]]) == sorted(h for h in hosts if full or h in lacking)
    assert bool(found["shares"]) == bool(found["receives"])
    assert found["shares"] in ("", "spark0")


@pytest.mark.parametrize("receivers", [1, 3, 63, 64, 200, 256])
def test_everyone_is_given_at_the_same_time(receivers: int) -> None:
    hosts = [f"h{number}" for number in range(receivers + 1)]
    streams = fan_out("h0", hosts, {host: [1] for host in hosts[1:]})["streams"]
    assert streams >= 1
    assert streams * receivers <= CONNECTIONS
