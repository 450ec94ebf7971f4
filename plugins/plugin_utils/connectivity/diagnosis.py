# SPDX-License-Identifier: Apache-2.0
"""A fabric fault as one line, with the records it explains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

SWITCH_MTU = 9216
"""MTU that a switch port needs so that 9000-byte packets fit with their headers."""
ETHERNET_MTU = 1500

Key = tuple[str, str, str, str]
"""Identifies a record: host, test (ping, tcp, rdma, route, duplicate...), port, peer (empty if there is none)."""


@dataclass
class Diagnosis:
    """One fault with its location and remedy."""

    finding: str
    remedy: str
    explains: set[Key] = field(default_factory=set)

    @property
    def routes(self) -> list[Key]:
        """The explained records of routes."""
        return [key for key in self.explains if key[1] == "route"]

    @property
    def line(self) -> str:
        """The fault as text."""
        return f"{self.finding}: {self.remedy}"


def listed(names: Iterable[str], most: int = 6) -> str:
    """Join names for a sentence; of many only the first."""
    found = list(dict.fromkeys(names))
    if len(found) > most:
        return f"{', '.join(found[:most])} and {len(found) - most} more"
    return found[0] if len(found) == 1 else " and ".join([", ".join(found[:-1]), found[-1]]) if found else "none"
