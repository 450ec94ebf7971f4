# SPDX-License-Identifier: Apache-2.0
"""Find hosts that offer SSH over multicast DNS (RFC 6762). Packets are pure functions; `ask` sends one and listens."""

from __future__ import annotations

import ipaddress
import socket
import struct
import time

from .network import Port

GROUP, PORT = "224.0.0.251", 5353
SERVICES = ("_ssh._tcp.local", "_workstation._tcp.local", "_sftp-ssh._tcp.local")
_A, _PTR = 1, 12
_IN = 1
_MOST_JUMPS = 32
_MOST_RECORDS = 256


def question(names: tuple[str, ...] = SERVICES) -> bytes:
    """Build one packet that queries all services; answers return to its source port."""
    packet = struct.pack("!6H", 0, 0, len(names), 0, 0, 0)
    for name in names:
        labels = b"".join(bytes([len(label)]) + label.encode("ascii") for label in name.split("."))
        packet += labels + b"\0" + struct.pack("!2H", _PTR, _IN)
    return packet


def parse_answer(packet: bytes) -> dict[str, str]:
    """Parse IPv4 address -> host name from an answer's A records. Raises ValueError for a malformed packet."""
    try:
        _, flags, questions, *counts = struct.unpack_from("!6H", packet)
        if not flags & 0x8000:
            return {}
        offset = 12
        for _ in range(min(questions, _MOST_RECORDS)):
            _, offset = _name(packet, offset)
            offset += 4
        found: dict[str, str] = {}
        for _ in range(min(sum(counts), _MOST_RECORDS)):
            name, offset = _name(packet, offset)
            kind, _, _, length = struct.unpack_from("!2HIH", packet, offset)
            offset += 10
            if kind == _A and length == 4:
                found[str(ipaddress.IPv4Address(packet[offset : offset + 4]))] = name.removesuffix(".local")
            offset += length
    except (struct.error, IndexError, ipaddress.AddressValueError) as error:
        raise ValueError(f"a multicast DNS answer ends too early ({error})") from error
    return found


def _name(packet: bytes, offset: int) -> tuple[str, int]:
    """Decode a name, following compression pointers, and return it with the offset after it."""
    labels: list[str] = []
    after = None
    for _ in range(_MOST_JUMPS):
        length = packet[offset]
        if length >= 0xC0:
            after = offset + 2 if after is None else after
            offset = struct.unpack_from("!H", packet, offset)[0] & 0x3FFF
        elif length == 0:
            return ".".join(labels), offset + 1 if after is None else after
        else:
            labels.append(packet[offset + 1 : offset + 1 + length].decode("utf-8", "replace"))
            offset += 1 + length
    raise ValueError("a multicast DNS name has no end")


def ask(port: Port, seconds: float = 1.5) -> dict[str, str]:
    """Query the port's own network and return the names of the hosts that answered, by address."""
    found: dict[str, str] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plug:
        plug.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(port.address))
        plug.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)
        plug.bind((port.address, 0))
        plug.sendto(question(), (GROUP, PORT))
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            plug.settimeout(left)
            try:
                packet, _ = plug.recvfrom(9000)
                answer = parse_answer(packet)
            except (TimeoutError, ValueError):
                continue
            found |= {one: name for one, name in answer.items() if ipaddress.IPv4Address(one) in port.network}
    return found
