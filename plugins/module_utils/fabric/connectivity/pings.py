# SPDX-License-Identifier: Apache-2.0
"""Ping one peer on one rail with full-size packets; if they fail, find the largest size that passes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ...host import Host
from . import ping
from .sizes import largest_packet


@dataclass(frozen=True)
class Pinger:
    """How often and how long this host pings."""

    host: Host
    count: int
    wait: int
    settled: float
    """The time (monotonic) until which a failure may come from a port that has only just come up."""
    cut: dict[str, int] = field(default_factory=dict)
    """By port, the largest packet that passed on an earlier path, if below the MTU."""

    def path(self, peer: Mapping[str, Any]) -> dict[str, Any]:
        """Test one path: whether packets that fill the MTU come back, and the largest that do if not."""
        port, address, mtu = str(peer["port"]), str(peer["address"]), int(peer["mtu"])
        if self._without_carrier(port) and time.monotonic() >= self.settled:
            return _told(ping.PingResult(reason="no-carrier", detail="the port has no carrier"), 0)
        if port in self.cut:
            found = self._cut_again(port, address, mtu)
            if found:
                return found
        result = self._ask(port, address, mtu, self.count)
        # One lost packet proves nothing: retry, and for longer while ports may still be settling.
        again = True
        while ping.worth_retrying(result) and (again or time.monotonic() < self.settled):
            again = False
            time.sleep(0.3)
            result = self._ask(port, address, mtu, self.count + 1)
        largest = mtu if result.received else 0
        if not result.received and result.sent:
            largest = largest_packet(lambda size: self._ask(port, address, size, 2).received > 0, mtu)
            if largest:
                self.cut[port] = largest
        return _told(result, largest)

    def _cut_again(self, port: str, address: str, mtu: int) -> dict[str, Any] | None:
        """Test a path of a port with a known size limit, all sizes at once; None if that limit does not apply here.

        Every failing ping takes a second or more, and a misconfigured switch port fails for every peer.
        """
        size = self.cut[port]
        with ThreadPoolExecutor(max_workers=3) as pool:
            full, same, more = pool.map(lambda asked: self._ask(port, address, asked, 2), (mtu, size, size + 1))
        if full.ok:
            return _told(full, mtu)
        return _told(full, size) if same.received and not more.received and not full.received else None

    def _without_carrier(self, port: str) -> bool:
        return (self.host.read_text(f"/sys/class/net/{port}/carrier") or "").strip() == "0"

    def _ask(self, port: str, address: str, size: int, count: int) -> ping.PingResult:
        ran = self.host.run(ping.argv(port, address, size, count, self.wait), timeout=count * (self.wait + 1) + 5.0)
        return ping.parse(ran.stdout, ran.stderr or ran.problem)


def _told(result: ping.PingResult, largest: int) -> dict[str, Any]:
    return {
        "ok": result.ok,
        "sent": result.sent,
        "received": result.received,
        "average_ms": result.average_ms,
        "reason": result.reason,
        "detail": result.detail,
        "largest": largest,
    }
