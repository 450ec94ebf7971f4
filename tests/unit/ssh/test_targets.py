# SPDX-License-Identifier: Apache-2.0
"""Which nodes are meant."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.errors import FirstlightError
from firstlight.ssh.targets import MOST, Target, chosen, expand, listed, named, shared


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["10.0.0.5"], ["10.0.0.5"]),
        (["10.0.0.5-7"], ["10.0.0.5", "10.0.0.6", "10.0.0.7"]),
        (["10.0.0.254-10.0.1.1"], ["10.0.0.254", "10.0.0.255", "10.0.1.0", "10.0.1.1"]),
        (["10.0.0.254-1.1"], ["10.0.0.254", "10.0.0.255", "10.0.1.0", "10.0.1.1"]),
        (["10.0.0.0/30"], ["10.0.0.1", "10.0.0.2"]),
        (["10.0.0.6", "10.0.0.5-6"], ["10.0.0.6", "10.0.0.5"]),
    ],
)
def test_ranges(words: list[str], expected: list[str]) -> None:
    assert expand(words) == expected


@pytest.mark.parametrize(
    "word", ["", "spark0", "10.0.0.9-5", "10.0.0.300", "10.0.0.0/33", "::1", "10.0.0.0/8", "0.0.0.0-255.255.255.255"]
)
def test_what_is_no_range_or_too_large_is_refused(word: str) -> None:
    with pytest.raises(FirstlightError, match="expected"):
        expand([word])


@given(st.integers(0, 2**32 - 1 - MOST), st.integers(0, MOST - 1))
def test_a_range_has_every_address_once(first: int, more: int) -> None:
    low, high = ipaddress.IPv4Address(first), ipaddress.IPv4Address(first + more)
    found = expand([f"{low}-{high}"])
    assert len(found) == len(set(found)) == more + 1
    assert (found[0], found[-1]) == (str(low), str(high))


def test_nodes_have_names_or_keep_their_own() -> None:
    first, second = named(["spark0=10.0.0.5", "10.0.0.6"])
    assert (first.hostname, first.names) == ("spark0", ("spark0", "10.0.0.5"))
    assert (second.hostname, second.names) == (None, ("10.0.0.6",))


def test_the_written_list_is_read() -> None:
    node = {"name": "spark0", "serial": 1234, "address": "10.0.0.5", "mac": "AA:BB:CC:00:11:22", "hardware": "gb10"}
    (target,) = listed({"nodes": [{**node, "position": 1, "comment": "passed over"}]})
    assert target == Target("spark0", "10.0.0.5", "1234", "aa:bb:cc:00:11:22", "gb10", 1)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"nodes": "spark0"},
        {"nodes": ["spark0"]},
        {"nodes": [{"name": "spark0"}]},
        {"nodes": [{"name": "spark0", "address": "spark0.example"}]},
        {"nodes": [{"name": "Spark 0; reboot", "address": "10.0.0.5"}]},
        {"nodes": [{"name": "10.0.0.6", "address": "10.0.0.5"}]},
    ],
)
def test_a_list_of_another_form_is_refused(document: Any) -> None:
    with pytest.raises(FirstlightError, match="expected"):
        listed(document)


def test_names_choose_among_the_list() -> None:
    targets = named(["spark0=10.0.0.5", "spark1=10.0.0.6"])
    assert chosen(targets, []) == targets
    assert chosen(targets, ["10.0.0.6"]) == [targets[1]]
    with pytest.raises(FirstlightError, match="no node spark9"):
        chosen(targets, ["spark9"])


def test_an_address_at_two_nodes_is_seen() -> None:
    assert shared(named(["a=10.0.0.5", "b=10.0.0.5", "c=10.0.0.6"])) == {"10.0.0.5": "a, b"}
