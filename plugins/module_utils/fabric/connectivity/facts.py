# SPDX-License-Identifier: Apache-2.0
"""What a host finds out by itself: its ports, who else has its addresses, and its routes to the peers."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...host import Host
from ...parsers.ip_route import batch, parse_routes
from . import arp
from .ports import bare, parse_ports

PROBES = 2
"""ARP probes per address: the first may be lost."""


def read_ports(host: Host, root: str = "/") -> tuple[dict[str, dict[str, Any]], str]:
    """Return all ports with speed and RDMA device, and the error if they cannot be read."""
    ran = host.run(["ip", "-j", "-d", "addr"], timeout=10)
    if not ran.ok:
        return {}, ran.summary
    try:
        ports = parse_ports(ran.stdout)
    except ValueError as error:
        return {}, str(error)
    for name, port in ports.items():
        place = os.path.join(root, "sys/class/net", name)
        speed = (host.read_text(os.path.join(place, "speed")) or "").strip()
        port["speed_mbit"] = int(speed) if speed.isdigit() else None
        port["rdma_device"] = _first_entry(os.path.join(place, "device/infiniband"))
    return ports, ""


def _first_entry(directory: str) -> str | None:
    try:
        return min(os.listdir(directory), default=None)
    except OSError:
        return None


def claimants(port: str, address: str, own: Mapping[str, str], wait: float = 0.6) -> dict[str, Any]:
    """Return other hosts' MACs that claim this address on this rail, and this host's other ports that answer for it.

    `own`: the ports of this host by their MACs.
    """
    found: list[str] = []
    answering: list[str] = []
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(arp.ETHERTYPE)) as wire:
            wire.bind((port, arp.ETHERTYPE))
            frame = arp.probe_frame(arp.mac_text(wire.getsockname()[4]), address)
            for _ in range(PROBES):
                wire.send(frame)
                deadline = time.monotonic() + wait
                while (left := deadline - time.monotonic()) > 0:
                    wire.settimeout(left)
                    with contextlib.suppress(TimeoutError):
                        mac = arp.claimant(wire.recv(256), address)
                        if mac:
                            (answering if mac in own else found).append(own.get(mac, mac))
    except (OSError, ValueError) as error:
        return {"claimants": found, "answering": [], "problem": f"no ARP on {port}: {error}"}
    return {
        "claimants": list(dict.fromkeys(found)),
        "answering": sorted({name for name in answering if name != port}),
        "problem": "",
    }


def read_routes(
    host: Host, rails: Sequence[Mapping[str, Any]], peers: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Read the routes from this host's address on each rail to each peer's, in one call of `ip`."""
    own = {rail["port"]: bare(rail["address"]) for rail in rails}
    asked = [peer for peer in peers if own.get(peer["port"])]
    if not asked:
        return []
    questions = [(own[peer["port"]], str(peer["address"])) for peer in asked]
    ran = host.run(["ip", "-j", "-force", "-batch", "-"], timeout=15, stdin=batch(questions))
    found, complaints = parse_routes(ran.stdout, ran.stderr)
    ways = []
    for number, (peer, question) in enumerate(zip(asked, questions, strict=True)):
        way = found.get(question)
        problem = "" if way else complaints.get(number) or ran.problem or "ip gave no answer"
        told = way or {"dev": None, "gateway": None, "type": None}
        ways.append(
            {"peer": peer["host"], "port": peer["port"], "address": peer["address"], **told, "problem": problem}
        )
    return ways
