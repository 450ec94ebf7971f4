# SPDX-License-Identifier: Apache-2.0
"""ARP requests, the only way to see two machines with one address. Frames are pure functions; `sweep` sends them."""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from collections.abc import Sequence

from .network import Port

_ETHERTYPE, _REQUEST, _REPLY = 0x0806, 1, 2
_FRAME = struct.Struct("!6s6sHHHBBH6s4s6s4s")
_PACE_SECONDS = 0.002
"""Pause between two requests: a burst overflows the queues of small switches."""


def request(port: Port, address: str) -> bytes:
    """Build the broadcast frame that requests one address."""
    mac = bytes.fromhex(port.mac.replace(":", ""))
    own, wanted = ipaddress.IPv4Address(port.address).packed, ipaddress.IPv4Address(address).packed
    return _FRAME.pack(
        *(b"\xff" * 6, mac, _ETHERTYPE, 1, 0x0800, 6, 4, _REQUEST),
        *(mac, own, b"\0" * 6, wanted),
    )


def parse_reply(frame: bytes) -> tuple[str, str] | None:
    """Parse the sender's address and MAC from an ARP reply; None for any other frame."""
    if len(frame) < _FRAME.size:
        return None
    _, _, ethertype, _, protocol, _, _, operation, mac, address, _, _ = _FRAME.unpack(frame[: _FRAME.size])
    if (ethertype, protocol, operation) != (_ETHERTYPE, 0x0800, _REPLY):
        return None
    return str(ipaddress.IPv4Address(address)), mac.hex(":")


def sweep(port: Port, addresses: Sequence[str], seconds: float = 1.5) -> dict[str, list[str]]:
    """Return, by address, all MACs that answered for it. Only addresses in the port's own network are requested.

    Raises PermissionError if this user may not send raw frames.
    """
    wanted = [one for one in addresses if ipaddress.IPv4Address(one) in port.network and one != port.address]
    found: dict[str, list[str]] = {}
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE)) as link:
        link.bind((port.name, _ETHERTYPE))
        link.settimeout(_PACE_SECONDS)
        for address in wanted:
            link.send(request(port, address))
            _take(link, found)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            _take(link, found)
    return {address: macs for address, macs in found.items() if address in set(wanted)}


def _take(link: socket.socket, found: dict[str, list[str]]) -> None:
    try:
        answer = parse_reply(link.recv(2048))
    except TimeoutError:
        return
    if answer is not None:
        macs = found.setdefault(answer[0], [])
        if answer[1] not in macs:
            macs.append(answer[1])
