# SPDX-License-Identifier: Apache-2.0
"""Who may hold a connection that has not proven anything yet: strangers do not take the places of the planned ones."""

from __future__ import annotations

import ipaddress
import threading
from collections import Counter
from collections.abc import Iterable

LOOPBACK = "127.0.0.1"


def canonical(peer: str) -> str:
    """An address in the one form in which addresses are compared; all of loopback is one. Raises ValueError."""
    found = ipaddress.ip_address(peer.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    return LOOPBACK if found.is_loopback else str(found)


class Places:
    """So many places for each address that is planned, and so many for all others together; may be used by threads.

    An address has `each` places at most. Strangers share `others`: an address of IPv6 counts with its whole /64, which
    one machine has for itself.
    """

    def __init__(self, planned: Iterable[str], each: int, others: int = 0) -> None:
        self._planned = frozenset(map(canonical, planned))
        self._each, self._others = each, others
        self._taken: Counter[str] = Counter()
        self._strange = 0
        self._lock = threading.Lock()

    def take(self, peer: str) -> bool:
        """Take a place for this address, if it may have one."""
        key, is_planned = self._key(peer)
        with self._lock:
            if self._taken[key] >= self._each or not (is_planned or self._strange < self._others):
                return False
            self._taken[key] += 1
            self._strange += not is_planned
            return True

    def give_back(self, peer: str) -> None:
        """Give back a place that was taken."""
        key, is_planned = self._key(peer)
        with self._lock:
            self._taken[key] -= 1
            self._taken += Counter()  # forgets those who have none
            self._strange -= not is_planned

    def _key(self, peer: str) -> tuple[str, bool]:
        address = canonical(peer)
        if address in self._planned:
            return address, True
        return str(ipaddress.ip_network((address, 64), strict=False)) if ":" in address else address, False
