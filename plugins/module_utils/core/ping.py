# SPDX-License-Identifier: Apache-2.0
"""What `ping` says about a fabric pair, and what it means: a dead link or a switch without jumbo frames."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .words import said_lines

ICMP_OVERHEAD = 28
"""Bytes of IPv4 and ICMP header that `ping -s` does not count."""

SMALL_PAYLOAD = 56
ETHERNET_MTU = 1500
SWITCH_MTU = 9216
"""What a switch port needs so that 9000-byte packets still fit with their headers."""

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
    """One run of ping. `reason` is a word for why packets did not come back, empty when all did."""

    sent: int = 0
    received: int = 0
    average_ms: float | None = None
    reason: str = ""
    detail: str = ""
    mtu: int | None = None

    @property
    def ok(self) -> bool:
        """Whether every packet came back: a fabric that loses one of two is not one to serve on."""
        return self.sent > 0 and self.received == self.sent


def argv(port: str, address: str, mtu: int, count: int, wait: int) -> list[str]:
    """A ping that fills the MTU and may not be fragmented, bound to the rail's own port.

    Packets follow each other after 0.2 s instead of one: the proof asks every pair of every rail.
    """
    return _command(port, address, mtu - ICMP_OVERHEAD, count, wait)


def small_argv(port: str, address: str, count: int, wait: int) -> list[str]:
    """A ping of the usual size, to tell a dead link from one that only drops large frames."""
    return _command(port, address, SMALL_PAYLOAD, count, wait)


def _command(port: str, address: str, payload: int, count: int, wait: int) -> list[str]:
    return [
        "ping",
        "-4",
        "-n",
        "-M",
        "do",
        "-s",
        str(payload),
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
    """Read iputils ping, whatever it returned; text that is no ping output gives a result that is not ok."""
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
        return "unreachable", "nobody answers for the address on this link", None
    if sent:
        return "loss", f"{sent - received} of {sent} packets lost", None
    return "unreadable", _first_complaint(text), None


def _first_complaint(text: str) -> str:
    lines = said_lines(text)
    complaints = [line for line in lines if line.startswith("ping:")]
    return ([*complaints, *lines] or ["ping said nothing"])[0][:200]


def worth_retrying(result: PingResult) -> bool:
    """Whether waiting may help: a port that was just set up needs moments until its switch port forwards."""
    return not result.ok and result.reason in ("loss", "unreachable", "path-mtu", "local-mtu")


def judge(host: str, peer: Mapping[str, Any], large: PingResult, small: PingResult | None) -> dict[str, Any]:
    """One record of the proof: what was expected of a pair, what was seen, and what to do about it.

    `small` is the ordinary ping that is only made when the large one failed.
    """
    mtu = int(peer["mtu"])
    observed, remedy = _finding(peer, mtu, large, small)
    return {
        "id": f"fabric.{peer['port']}.{peer['host']}",
        "host": host,
        "peer": str(peer["host"]),
        "port": str(peer["port"]),
        "address": str(peer["address"]),
        "expected": f"{mtu}-byte packets arrive unfragmented",
        "observed": observed,
        "verdict": "fail" if remedy else "pass",
        "remedy": remedy,
    }


def _finding(peer: Mapping[str, Any], mtu: int, large: PingResult, small: PingResult | None) -> tuple[str, str]:
    port, address = peer["port"], peer["address"]
    if large.ok:
        timing = "" if large.average_ms is None else f", {large.average_ms:g} ms"
        return f"{large.received} of {large.sent} answered{timing}", ""
    if large.reason == "local-mtu":
        return (
            large.detail,
            f"set the MTU of {port} on this host to {mtu}: run site.yml again",
        )
    if large.reason in ("no-device", "unknown-host", "unreadable"):
        return large.detail, f"check port {port} and address {address} in the plan of this host"
    if small is not None and small.ok and mtu > ETHERNET_MTU:
        return (
            f"{ETHERNET_MTU}-byte frames arrive, {mtu}-byte do not",
            (
                f"the switch does not pass jumbo frames: set the switch port MTU to >= {SWITCH_MTU} "
                f"(or firstlight_fabric.mtu to {ETHERNET_MTU})"
            ),
        )
    if small is not None and small.ok:
        return (
            f"small frames arrive, {mtu}-byte do not ({large.detail})",
            f"the switch passes less than {mtu} bytes: raise the switch port MTU",
        )
    if (small is not None and 0 < small.received < small.sent) or 0 < large.received < large.sent:
        return (
            f"the link loses packets ({large.detail})",
            f"reseat or replace the cable of {port}, and look at the error counters of `ethtool -S {port}`",
        )
    return (
        f"link dead, not even small frames arrive ({(small or large).detail})",
        f"check cable, switch port and VLAN of {port} on both hosts, and that {peer['host']} has {address}",
    )


def proof_text(peers: Iterable[Mapping[str, Any]]) -> str:
    """What a host keeps once every one of these peers answered; another set of peers makes another text."""
    proven = [
        {
            "host": str(peer["host"]),
            "port": str(peer["port"]),
            "address": str(peer["address"]),
            "mtu": int(peer["mtu"]),
        }
        for peer in peers
    ]
    proven.sort(key=lambda peer: (str(peer["host"]), str(peer["port"])))
    return json.dumps({"proven": proven}, indent=2, sort_keys=True) + "\n"


def failures(records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The records that did not pass."""
    return [record for record in records if record["verdict"] != "pass"]


def message(records: Sequence[Mapping[str, Any]]) -> str:
    """One message for all bad pairs; pairs with one finding share a line, so a bad switch is told once."""
    bad = failures(records)
    lines: dict[tuple[str, str], list[str]] = {}
    for record in bad:
        pair = f"{record['host']} -> {record['peer']} on {record['port']} ({record['address']})"
        lines.setdefault((str(record["observed"]), str(record["remedy"])), []).append(pair)
    told = [f"{', '.join(pairs)}: {observed}; {remedy}" for (observed, remedy), pairs in lines.items()]
    return f"The fabric is not usable, {len(bad)} of {len(records)} paths failed. " + " | ".join(told)
