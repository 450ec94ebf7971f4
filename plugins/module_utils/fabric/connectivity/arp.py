# SPDX-License-Identifier: Apache-2.0
"""ARP as it is on an Ethernet wire: asking whether somebody else has an address, without claiming it (RFC 5227).

A probe carries no sender address, so that it changes nobody's idea of who has the address. The twin port of the same
card often answers for its host, too; who asks has to leave its own MAC addresses out.
"""

from __future__ import annotations

import ipaddress
import struct

BROADCAST = b"\xff" * 6
ETHERTYPE = 0x0806
_HEADER = struct.Struct("!6s6sH")
_ARP = struct.Struct("!HHBBH6s4s6s4s")
_ETHERNET, _IPV4, _REQUEST = 1, 0x0800, 1


def probe_frame(mac: str, address: str) -> bytes:
    """The question "who has this address", from this MAC and no address."""
    sender, target = mac_bytes(mac), ipaddress.IPv4Address(address).packed
    body = _ARP.pack(_ETHERNET, _IPV4, 6, 4, _REQUEST, sender, b"\0" * 4, b"\0" * 6, target)
    return _HEADER.pack(BROADCAST, sender, ETHERTYPE) + body


def claimant(frame: bytes, address: str) -> str | None:
    """The MAC of who says in this frame, asking or answering, that it has the address; None where nobody does."""
    if len(frame) < _HEADER.size + _ARP.size:
        return None
    _, _, ethertype = _HEADER.unpack_from(frame)
    hardware, protocol, hardware_size, size, _, sender, claimed, _, _ = _ARP.unpack_from(frame, _HEADER.size)
    if (ethertype, hardware, protocol, hardware_size, size) != (ETHERTYPE, _ETHERNET, _IPV4, 6, 4):
        return None
    return mac_text(sender) if claimed == ipaddress.IPv4Address(address).packed else None


def mac_bytes(mac: str) -> bytes:
    """A MAC as it is sent. Raises ValueError when it is none of an Ethernet port."""
    data = bytes.fromhex(mac.replace(":", ""))
    if len(data) != 6:
        raise ValueError(f"{mac} is no Ethernet address")
    return data


def mac_text(data: bytes) -> str:
    """A MAC as `ip link` writes it."""
    return ":".join(f"{byte:02x}" for byte in data)
