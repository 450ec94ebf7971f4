# SPDX-License-Identifier: Apache-2.0
"""Pings against a host that plays the switch."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.pings import Pinger

from tests.unit.fake_host import Call, FakeHost

PEER: dict[str, Any] = {"host": "spark1", "port": "fab0", "address": "192.168.100.11", "mtu": 9000}


class Switch(FakeHost):
    """Passes packets up to a size, once it has been asked often enough."""

    def __init__(self, mtu: int, deaf_for: int = 0, carrier: str = "1\n") -> None:
        super().__init__({"ping": self.ping}, {"/sys/class/net/fab0/carrier": carrier})
        self.mtu, self.deaf_for = mtu, deaf_for
        self.sizes: list[int] = []

    def ping(self, call: Call) -> str:
        size, count = int(call.argv[call.argv.index("-s") + 1]) + 28, call.argv[call.argv.index("-c") + 1]
        self.sizes.append(size)
        passes = size <= self.mtu and len(self.sizes) > self.deaf_for
        return f"{count} packets transmitted, {count if passes else 0} received, x% packet loss, time 1ms\n"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: now[0])


def pinger(switch: Switch, settled: float = 0.0) -> Pinger:
    return Pinger(switch, count=2, wait=1, settled=settled)


def test_a_good_path_is_asked_once() -> None:
    switch = Switch(9216)
    found = pinger(switch).path(PEER)
    assert (found["ok"], found["largest"], switch.sizes) == (True, 9000, [9000])


def test_a_lost_packet_is_no_verdict() -> None:
    switch = Switch(9216, deaf_for=1)
    assert pinger(switch).path(PEER)["ok"]
    assert switch.sizes == [9000, 9000]


def test_a_path_may_settle() -> None:
    switch = Switch(9216, deaf_for=5)
    assert pinger(switch, settled=10).path(PEER)["ok"]


def test_a_path_that_is_cut_off_is_measured_and_the_next_one_is_quick() -> None:
    switch = Switch(1500)
    asking = pinger(switch)
    assert asking.path(PEER)["largest"] == 1500
    assert asking.cut == {"fab0": 1500}
    first = len(switch.sizes)
    found = asking.path({**PEER, "address": "192.168.100.12"})
    assert (found["ok"], found["largest"]) == (False, 1500)
    assert sorted(switch.sizes[first:]) == [1500, 1501, 9000]


def test_a_port_that_was_cut_off_to_one_peer_may_be_right_to_others() -> None:
    switch = Switch(1500)
    asking = pinger(switch)
    asking.path(PEER)
    switch.mtu = 9216
    assert asking.path(PEER)["ok"]
    switch.mtu = 4200
    assert asking.path(PEER)["largest"] == 4200


def test_a_dead_path() -> None:
    assert pinger(Switch(0)).path(PEER)["largest"] == 0


def test_a_port_without_carrier_sends_nothing() -> None:
    switch = Switch(9216, carrier="0\n")
    found = pinger(switch).path(PEER)
    assert (found["ok"], found["reason"], switch.sizes) == (False, "no-carrier", [])
