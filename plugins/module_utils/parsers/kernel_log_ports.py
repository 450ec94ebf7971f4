# SPDX-License-Identifier: Apache-2.0
"""Network ports in a log: how often each lost its link, and whether it came back."""

from __future__ import annotations

import re
from typing import Any

from .log_stamps import stamp_seconds

_DAY = 86400.0
_PORT = r"(?P<port>[A-Za-z][\w.@-]{0,30})"
_BUS = r"(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
_EVENTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("carrier", re.compile(rf"(?<![\w.-]){_PORT}: (?:(?P<down>lost carrier)|(?P<up>gained carrier))\b", re.IGNORECASE)),
    ("driver", re.compile(rf"{_BUS} {_PORT}: (?:NIC )?Link (?:is )?(?:(?P<down>down)|(?P<up>up))\b", re.IGNORECASE)),
    ("bond", re.compile(rf"\(slave {_PORT}\): link status definitely (?:(?P<down>down)|(?P<up>up))\b")),
    ("rdma", re.compile(rf"{_BUS} {_PORT}: Port: \d+ Link (?:(?P<down>DOWN)|(?P<up>ACTIVE))\b")),
)
"""Several parts of the system report the same loss: each is counted separately, and the highest count is used."""
_QUICK = re.compile(r"carrier|[Ll]ink")
_VIRTUAL = re.compile(
    r"^(?:veth|docker|br-|cali|cni|flannel|lxc|lxd|tap|tun|vnet|virbr|vxlan|lo$|ovs|kube|podman|dummy)"
)
"""Ports of containers and virtual machines, which come and go with them."""


class Ports:
    """The events of every port, in log order."""

    def __init__(self) -> None:
        self._events: dict[str, list[tuple[str, bool, tuple[str, float] | None]]] = {}
        self._cards: dict[str, set[str]] = {}
        """The names that a card's network driver gives its ports, by PCI address."""
        self._rdma: dict[str, str] = {}

    def read(self, line: str) -> None:
        if not _QUICK.search(line):
            return
        for source, pattern in _EVENTS:
            found = pattern.search(line)
            if found and not _VIRTUAL.match(found["port"]):
                event = (source, bool(found["up"]), stamp_seconds(line))
                self._events.setdefault(found["port"], []).append(event)
                if source == "driver":
                    self._cards.setdefault(found["bus"], set()).add(found["port"])
                elif source == "rdma":
                    self._rdma[found["port"]] = found["bus"]
                return

    def summary(self) -> dict[str, dict[str, Any]]:
        """Summarise the events of each port.

        {port: {"down", "up", "most_in_24_h", "last": up or down, "ended_down": it was up, and is not now}}.
        """
        result: dict[str, dict[str, Any]] = {}
        for port, events in self._events.items():
            if self._cards.get(self._rdma.get(port, "")):
                continue  # the same port under its RDMA name
            sources = {source for source, _, _ in events}
            ups = {source: [up for own, up, _ in events if own == source] for source in sources}
            downs = {source: [when for own, up, when in events if own == source and not up] for source in sources}
            last_up = events[-1][1]
            result[port] = {
                "down": max(len(times) for times in downs.values()),
                "up": max(sum(one) for one in ups.values()),
                "most_in_24_h": max(_most_in_a_day(times) for times in downs.values()),
                "last": "up" if last_up else "down",
                "ended_down": not last_up and any(up for _, up, _ in events),
            }
        return result


def _most_in_a_day(times: list[tuple[str, float] | None]) -> int:
    """The most events within 24 hours; all of them if some have no time, or clocks are mixed."""
    if not times or None in times or len({one[0] for one in times if one}) != 1:
        return len(times)
    seconds = sorted(one[1] for one in times if one)
    most = begin = 0
    for end, when in enumerate(seconds):
        while when - seconds[begin] > _DAY:
            begin += 1
        most = max(most, end - begin + 1)
    return most
