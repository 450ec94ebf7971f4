# SPDX-License-Identifier: Apache-2.0
"""A fault of a fabric in one line, and the records it explains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

SWITCH_MTU = 9216
"""What a switch port needs so that 9000-byte packets still fit with their headers."""
ETHERNET_MTU = 1500

Key = tuple[str, str, str, str]
"""A record: host, what was tested (ping, tcp, rdma, route, duplicate), port, peer (empty where there is none)."""


@dataclass
class Diagnosis:
    """One fault: what is wrong, with whom, and what to do about it."""

    finding: str
    remedy: str
    explains: set[Key] = field(default_factory=set)

    @property
    def routes(self) -> list[Key]:
        """The routes among what it explains."""
        return [key for key in self.explains if key[1] == "route"]

    @property
    def line(self) -> str:
        """The fault for people."""
        return f"{self.finding}: {self.remedy}"


def listed(names: Iterable[str], most: int = 6) -> str:
    """Names as a sentence has them; of many only the first."""
    found = list(dict.fromkeys(names))
    if len(found) > most:
        return f"{', '.join(found[:most])} and {len(found) - most} more"
    return found[0] if len(found) == 1 else " and ".join([", ".join(found[:-1]), found[-1]]) if found else "none"
