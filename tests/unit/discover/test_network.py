# SPDX-License-Identifier: Apache-2.0
"""What this machine's tools and the network say, as recorded text and packets."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.discover import arp, mdns
from firstlight.discover.network import Port, parse_lldp, parse_neighbours, parse_port

PORT = Port("eth1", "02:42:ac:1d:02:01", "10.0.0.1", ipaddress.IPv4Network("10.0.0.0/24"))
ADDRESSES = json.dumps(
    [
        {
            "ifname": "lo",
            "address": "00:00:00:00:00:00",
            "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}],
        },
        {
            "ifname": "eth1",
            "address": "02:42:ac:1d:02:01",
            "addr_info": [
                {"family": "inet6", "local": "fe80::1", "prefixlen": 64},
                {"family": "inet", "local": "10.0.0.1", "prefixlen": 24},
            ],
        },
        {"ifname": "eth2", "address": "02:42:ac:1d:02:02", "addr_info": []},
    ]
)
NEIGHBOURS = json.dumps(
    [
        {"dst": "10.0.0.5", "dev": "eth1", "lladdr": "02:42:AC:1D:02:0A", "state": ["REACHABLE"]},
        {"dst": "10.0.0.5", "dev": "eth2", "lladdr": "02:42:ac:1d:02:0b", "state": ["STALE"]},
        {"dst": "10.0.0.6", "dev": "eth1", "state": ["FAILED"]},
        {"dst": "10.0.0.7", "dev": "eth1", "lladdr": "02:42:ac:1d:02:0c", "state": ["FAILED"]},
        {"dst": "fe80::2", "dev": "eth1", "lladdr": "02:42:ac:1d:02:0d", "state": ["STALE"]},
    ]
)
HOST = {
    "chassis": {
        "spark0": {
            "id": {"type": "mac", "value": "02:42:AC:1D:02:0A"},
            "mgmt-ip": ["10.0.0.5", "fe80::5"],
            "capability": [{"type": "Bridge", "enabled": False}, {"type": "Station", "enabled": True}],
        }
    },
    "port": {"id": {"type": "mac", "value": "02:42:ac:1d:02:0a"}, "descr": "enP7s7"},
}
SWITCH = {
    "chassis": {
        "leaf1": {
            "id": {"type": "mac", "value": "02:42:ac:1d:03:01"},
            "mgmt-ip": "10.0.0.250",
            "capability": {"type": "Bridge", "enabled": True},
        }
    },
    "port": {"id": {"type": "ifname", "value": "swp7"}},
}
NAMELESS = {"chassis": {"id": {"type": "local", "value": "box"}}, "port": {}}


def test_the_port_and_its_network() -> None:
    assert parse_port(ADDRESSES, "eth1") == PORT
    assert parse_port(ADDRESSES, "eth2") is None
    assert parse_port(ADDRESSES, "eth9") is None


def test_neighbours_that_were_really_seen() -> None:
    assert parse_neighbours(NEIGHBOURS) == {"10.0.0.5": ["02:42:ac:1d:02:0a", "02:42:ac:1d:02:0b"]}
    assert parse_neighbours("") == {}


def test_several_neighbours_and_a_single_one_are_written_differently() -> None:
    several = parse_lldp(json.dumps({"lldp": {"interface": [{"eth1": HOST}, {"eth2": SWITCH}, {"eth3": NAMELESS}]}}))
    assert [(one.name, one.port, one.switch) for one in several] == [
        ("spark0", "enP7s7", False),
        ("leaf1", "swp7", True),
        ("", "", False),
    ]
    assert several[0].addresses == ("10.0.0.5", "fe80::5")
    assert several[0].mac == "02:42:ac:1d:02:0a"
    assert parse_lldp(json.dumps({"lldp": {"interface": {"eth2": SWITCH}}})) == [several[1]]
    assert parse_lldp("") == []


def test_other_text_is_refused() -> None:
    with pytest.raises(ValueError, match="lldpctl"):
        parse_lldp("lldpd is not running")


@pytest.mark.slow  # deep documents
@given(
    st.recursive(
        st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_lldp_document_is_read(document: object) -> None:
    parse_lldp(json.dumps({"lldp": {"interface": document}}))
    parse_lldp(json.dumps(document))


def test_a_question_and_its_answer() -> None:
    asked = arp.request(PORT, "10.0.0.5")
    assert (len(asked), asked[:6], arp.parse_reply(asked)) == (42, b"\xff" * 6, None)
    answer = bytearray(arp.request(Port("eth0", "02:42:ac:1d:02:0a", "10.0.0.5", PORT.network), "10.0.0.1"))
    answer[21] = 2
    assert arp.parse_reply(bytes(answer) + b"\0" * 18) == ("10.0.0.5", "02:42:ac:1d:02:0a")


@given(st.binary(max_size=80))
def test_any_frame_is_read(frame: bytes) -> None:
    arp.parse_reply(frame)


def answer() -> bytes:
    """As avahi answers: the service names the host, whose address comes with it, with names that point back."""
    service = b"\x04_ssh\x04_tcp\x05local\0"
    packet = struct.pack("!6H", 0, 0x8400, 0, 1, 0, 1) + service
    instance = b"\x06spark0" + struct.pack("!H", 0xC000 | 12)
    packet += struct.pack("!2HIH", 12, 1, 10, len(instance)) + instance
    packet += b"\x06spark0" + struct.pack("!H", 0xC000 | (12 + 10)) + struct.pack("!2HIH", 1, 0x8001, 10, 4)
    return packet + bytes([10, 0, 0, 5])


def test_hosts_that_announce_themselves() -> None:
    assert mdns.parse_answer(answer()) == {"10.0.0.5": "spark0"}
    assert mdns.parse_answer(mdns.question()) == {}


def test_a_name_that_points_at_itself_has_an_end() -> None:
    packet = struct.pack("!6H", 0, 0x8400, 0, 1, 0, 0) + struct.pack("!H", 0xC000 | 12)
    with pytest.raises(ValueError, match="no end"):
        mdns.parse_answer(packet)


@given(st.binary(max_size=200), st.integers(0, 60))
def test_a_broken_packet_is_refused(noise: bytes, cut: int) -> None:
    for packet in (noise, answer()[:cut] + noise, struct.pack("!6H", 0, 0x8400, 1, 3, 0, 0) + noise):
        with contextlib.suppress(ValueError):
            mdns.parse_answer(packet)
