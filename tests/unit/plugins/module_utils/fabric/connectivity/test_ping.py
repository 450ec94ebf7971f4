# SPDX-License-Identifier: Apache-2.0
"""Ping as iputils 20221126 and 20240905 print it, and the record of a connectivity test."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity import ping
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.ping import PingResult
from hypothesis import given
from hypothesis import strategies as st

PEER: dict[str, Any] = {"host": "spark1", "port": "enp1s0f1np1", "address": "192.168.100.11", "mtu": 9000}

HEADER = "PING 192.168.100.11 (192.168.100.11) from 192.168.100.10 enp1s0f1np1: 8972(9000) bytes of data.\n"
STATISTICS = "\n--- 192.168.100.11 ping statistics ---\n"

ANSWERED = (
    HEADER
    + "8980 bytes from 192.168.100.11: icmp_seq=1 ttl=64 time=0.071 ms\n"
    + "8980 bytes from 192.168.100.11: icmp_seq=2 ttl=64 time=0.049 ms\n"
    + STATISTICS
    + "2 packets transmitted, 2 received, 0% packet loss, time 201ms\n"
    + "rtt min/avg/max/mdev = 0.049/0.060/0.071/0.011 ms\n"
)
LOST = HEADER + STATISTICS + "2 packets transmitted, 0 received, 100% packet loss, time 1013ms\n\n"
HALF = (
    HEADER
    + "8980 bytes from 192.168.100.11: icmp_seq=2 ttl=64 time=0.049 ms\n"
    + STATISTICS
    + "2 packets transmitted, 1 received, 50% packet loss, time 1013ms\n"
    + "rtt min/avg/max/mdev = 0.049/0.049/0.049/0.000 ms\n"
)
TOO_LONG = HEADER + STATISTICS + "2 packets transmitted, 0 received, +2 errors, 100% packet loss, time 1026ms\n\n"
TOO_LONG_ERROR = "ping: local error: message too long, mtu=1500\nping: local error: message too long, mtu=1500\n"
TOO_LONG_OLD_ERROR = "ping: local error: Message too long, mtu=1500\n"
FRAGMENTATION = (
    HEADER
    + "From 192.168.100.1 icmp_seq=1 Frag needed and DF set (mtu = 1500)\n"
    + STATISTICS
    + "2 packets transmitted, 0 received, +1 errors, 100% packet loss, time 1002ms\n\n"
)
UNREACHABLE = (
    HEADER
    + "From 192.168.100.10 icmp_seq=1 Destination Host Unreachable\n"
    + STATISTICS
    + "2 packets transmitted, 0 received, +2 errors, 100% packet loss, time 1024ms\npipe 2\n"
)


@pytest.mark.parametrize(
    ("stdout", "stderr", "expected"),
    [
        pytest.param(ANSWERED, "", PingResult(2, 2, 0.06), id="answered"),
        pytest.param(LOST, "", PingResult(2, 0, None, "loss", "2 of 2 packets lost"), id="lost"),
        pytest.param(HALF, "", PingResult(2, 1, 0.049, "loss", "1 of 2 packets lost"), id="half"),
        pytest.param(
            TOO_LONG,
            TOO_LONG_ERROR,
            PingResult(2, 0, None, "local-mtu", "this host's own port sends at most 1500 bytes", 1500),
            id="message-too-long",
        ),
        pytest.param(
            TOO_LONG,
            TOO_LONG_OLD_ERROR,
            PingResult(2, 0, None, "local-mtu", "this host's own port sends at most 1500 bytes", 1500),
            id="message-too-long-iputils-2019",
        ),
        pytest.param(
            FRAGMENTATION,
            "",
            PingResult(2, 0, None, "path-mtu", "192.168.100.1 passes at most 1500 bytes", 1500),
            id="frag-needed",
        ),
        pytest.param(
            UNREACHABLE,
            "",
            PingResult(2, 0, None, "unreachable", "no host answers for the address on this link"),
            id="host-unreachable",
        ),
        pytest.param(
            "",
            "ping: connect: Network is unreachable\n",
            PingResult(0, 0, None, "unreachable", "no host answers for the address on this link"),
            id="network-unreachable",
        ),
        pytest.param(
            "",
            "ping: spark9: Name or service not known\n",
            PingResult(0, 0, None, "unknown-host", "the address cannot be resolved"),
            id="unknown-host",
        ),
        pytest.param(
            "",
            "ping: unknown iface: enp1s0f1np1\n",
            PingResult(0, 0, None, "no-device", "ping: unknown iface: enp1s0f1np1"),
            id="unknown-interface",
        ),
        pytest.param(
            "",
            "ping: SO_BINDTODEVICE enp1s0f1np1: No such device\n",
            PingResult(0, 0, None, "no-device", "ping: SO_BINDTODEVICE enp1s0f1np1: No such device"),
            id="no-such-device",
        ),
        pytest.param("", "", PingResult(0, 0, None, "unreadable", "ping printed nothing"), id="empty"),
        pytest.param(
            "",
            "ping hung",
            PingResult(0, 0, None, "unreadable", "ping hung"),
            id="hung",
        ),
    ],
)
def test_parse(stdout: str, stderr: str, expected: PingResult) -> None:
    assert ping.parse(stdout, stderr) == expected


@given(st.text(), st.text())
def test_any_text_is_read_without_an_error(stdout: str, stderr: str) -> None:
    result = ping.parse(stdout, stderr)
    assert result.ok or result.reason


def test_the_packet_fills_the_mtu_and_stays_whole() -> None:
    assert ping.argv("enp1s0f1np1", "192.168.100.11", 9000, 2, 1) == [
        *("ping", "-4", "-n", "-M", "do", "-s", "8972", "-c", "2", "-i", "0.2", "-W", "1"),
        *("-I", "enp1s0f1np1", "192.168.100.11"),
    ]
    assert ping.argv("p", "192.168.100.11", 1500, 2, 1)[5:7] == ["-s", "1472"]


@pytest.mark.parametrize(("text", "again"), [(LOST, True), (UNREACHABLE, True), (ANSWERED, False), ("", False)])
def test_only_what_may_settle_is_asked_again(text: str, again: bool) -> None:
    assert ping.worth_retrying(ping.parse(text)) is again


def test_the_record_names_every_path() -> None:
    assert json.loads(ping.record_text([PEER])) == {"tested": [PEER]}
