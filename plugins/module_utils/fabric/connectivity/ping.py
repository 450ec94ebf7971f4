# SPDX-License-Identifier: Apache-2.0
"""Run and parse `ping` on a path of the fabric, and render the record that a host keeps once all paths were tested."""

from __future__ import annotations

import functools
import itertools
import json
import operator
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...text import said_lines

ICMP_OVERHEAD = 28
"""Bytes of IPv4 and ICMP header that `ping -s` does not count."""

_STATISTICS = re.compile(r"(?P<sent>\d+) packets transmitted, (?P<received>\d+) (?:packets )?received")
_ROUND_TRIP = re.compile(r"(?:rtt|round-trip) min/avg/max(?:/mdev)? = [\d.]+/(?P<average>[\d.]+)/")
_LOCAL_TOO_LONG = re.compile(r"message too long,? ?\(?mtu\s*=\s*(?P<mtu>\d+)", re.IGNORECASE)
_FRAGMENTATION = re.compile(r"From (?P<hop>\S+) .*Frag(?:mentation)? needed.*\(mtu = (?P<mtu>\d+)\)", re.IGNORECASE)
_UNREACHABLE = re.compile(r"Destination (?:Host|Net|Port) Unreachable|Network is unreachable", re.IGNORECASE)
_NO_NAME = re.compile(
    r"Name or service not known|unknown host|Temporary failure in name resolution|No address associated",
    re.IGNORECASE,
)
_NO_DEVICE = re.compile(
    r"unknown iface|No such device|invalid interface|SO_BINDTODEVICE|Cannot assign requested address",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class PingResult:
    """The result of one run of ping. `reason` is a code for why packets did not come back; empty if all did."""

    sent: int = 0
    received: int = 0
    average_ms: float | None = None
    reason: str = ""
    detail: str = ""
    mtu: int | None = None

    @property
    def ok(self) -> bool:
        """Whether every packet came back: a fabric that loses every second packet cannot be served on."""
        return self.sent > 0 and self.received == self.sent


def argv(port: str, address: str, size: int, count: int, wait: int) -> list[str]:
    """Return the command for a ping of this packet size, not to be fragmented, bound to the rail's port.

    Packets are sent every 0.2 s instead of every second, because the connectivity test pings every pair on every rail.
    """
    return [
        "ping",
        "-4",
        "-n",
        "-M",
        "do",
        "-s",
        str(size - ICMP_OVERHEAD),
        "-c",
        str(count),
        "-i",
        "0.2",
        "-W",
        str(wait),
        "-I",
        port,
        address,
    ]


def parse(stdout: str, stderr: str = "") -> PingResult:
    """Parse the output of iputils ping, whatever its status; other text gives a result that is not ok."""
    text = f"{stdout}\n{stderr}"
    counted = _STATISTICS.search(text)
    sent, received = (int(counted["sent"]), int(counted["received"])) if counted else (0, 0)
    average = _ROUND_TRIP.search(text)
    average_ms = float(average["average"]) if average else None
    if sent and received == sent:
        return PingResult(sent, received, average_ms)
    reason, detail, mtu = _reason(text, sent, received)
    return PingResult(sent, received, average_ms, reason, detail, mtu)


def _reason(text: str, sent: int, received: int) -> tuple[str, str, int | None]:
    too_long = _LOCAL_TOO_LONG.search(text)
    if too_long:
        mtu = int(too_long["mtu"])
        return "local-mtu", f"this host's own port sends at most {mtu} bytes", mtu
    fragmentation = _FRAGMENTATION.search(text)
    if fragmentation:
        mtu = int(fragmentation["mtu"])
        return "path-mtu", f"{fragmentation['hop']} passes at most {mtu} bytes", mtu
    if _NO_NAME.search(text):
        return "unknown-host", "the address cannot be resolved", None
    if _NO_DEVICE.search(text):
        return "no-device", _first_complaint(text), None
    if _UNREACHABLE.search(text):
        return "unreachable", "no host answers for the address on this link", None
    if sent:
        return "loss", f"{sent - received} of {sent} packets lost", None
    return "unreadable", _first_complaint(text), None


def _first_complaint(text: str) -> str:
    lines = said_lines(text)
    complaints = [line for line in lines if line.startswith("ping:")]
    return ([*complaints, *lines] or ["ping printed nothing"])[0][:200]


def worth_retrying(result: PingResult) -> bool:
    """Whether to retry: a port that was just set up needs a moment until its switch port forwards."""
    return not result.ok and result.reason in ("loss", "unreachable", "path-mtu", "local-mtu")


def record_text(peers: Iterable[Mapping[str, Any]]) -> str:
    """Render the record kept once all of these peers answered; a different set of peers gives a different text."""
    found = sorted(map(_ENTRY, peers))
    return (
        json.dumps({"tested": []}, indent=2) + "\n"
        if not found
        else _TESTED.format(",\n".join(itertools.starmap(_tested_peer, found)))
    )


_ENTRY = operator.itemgetter("host", "port", "address", "mtu")
_TESTED = '{{\n  "tested": [\n{}\n  ]\n}}\n'


# Each host has an entry for every other host of its cluster, so nearly all entries are shared between hosts.
@functools.cache
def _tested_peer(host: Any, port: Any, address: Any, mtu: Any) -> str:
    entry = {"address": str(address), "host": str(host), "mtu": int(mtu), "port": str(port)}
    return textwrap.indent(json.dumps(entry, indent=2), "    ")
