# SPDX-License-Identifier: Apache-2.0
"""ARP frames on Ethernet: probe whether another host has an address, without claiming it (RFC 5227).

A probe has no sender address, so it changes nobody's ARP cache. The twin port of the same card often answers for its
host as well; callers have to exclude their own MAC addresses.
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
    """Return the ARP probe "who has this address", with this MAC and no sender address."""
    sender, target = mac_bytes(mac), ipaddress.IPv4Address(address).packed
    body = _ARP.pack(_ETHERNET, _IPV4, 6, 4, _REQUEST, sender, b"\0" * 4, b"\0" * 6, target)
    return _HEADER.pack(BROADCAST, sender, ETHERTYPE) + body


def claimant(frame: bytes, address: str) -> str | None:
    """Return the MAC that claims the address in this frame, be it a request or a reply; None if none does."""
    if len(frame) < _HEADER.size + _ARP.size:
        return None
    _, _, ethertype = _HEADER.unpack_from(frame)
    hardware, protocol, hardware_size, size, _, sender, claimed, _, _ = _ARP.unpack_from(frame, _HEADER.size)
    if (ethertype, hardware, protocol, hardware_size, size) != (ETHERTYPE, _ETHERNET, _IPV4, 6, 4):
        return None
    return mac_text(sender) if claimed == ipaddress.IPv4Address(address).packed else None


def mac_bytes(mac: str) -> bytes:
    """Return a MAC in binary. Raises ValueError if it is not an Ethernet address."""
    data = bytes.fromhex(mac.replace(":", ""))
    if len(data) != 6:
        raise ValueError(f"{mac} is no Ethernet address")
    return data


def mac_text(data: bytes) -> str:
    """Return a MAC as `ip link` prints it."""
    return ":".join(f"{byte:02x}" for byte in data)
