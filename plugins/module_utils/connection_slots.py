# SPDX-License-Identifier: Apache-2.0
"""Limits on unauthenticated connections, so that strangers cannot take the slots of planned peers."""

from __future__ import annotations

import ipaddress
import threading
from collections import Counter
from collections.abc import Iterable

LOOPBACK = "127.0.0.1"


def canonical(peer: str) -> str:
    """Return an address in canonical form for comparison; all loopback addresses become one. Raises ValueError."""
    found = ipaddress.ip_address(peer.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    return LOOPBACK if found.is_loopback else str(found)


class Places:
    """A number of slots for each planned address, and a shared number for all others. Thread-safe.

    No address gets more than `each` slots. Unplanned addresses share `others`; an IPv6 address counts as its whole /64,
    because a single machine may have a /64 to itself.
    """

    def __init__(self, planned: Iterable[str], each: int, others: int = 0) -> None:
        self._planned = frozenset(map(canonical, planned))
        self._each, self._others = each, others
        self._taken: Counter[str] = Counter()
        self._strange = 0
        self._lock = threading.Lock()

    def take(self, peer: str) -> bool:
        """Take a slot for this address; return whether there was one."""
        key, is_planned = self._key(peer)
        with self._lock:
            if self._taken[key] >= self._each or not (is_planned or self._strange < self._others):
                return False
            self._taken[key] += 1
            self._strange += not is_planned
            return True

    def give_back(self, peer: str) -> None:
        """Release a slot that was taken."""
        key, is_planned = self._key(peer)
        with self._lock:
            self._taken[key] -= 1
            self._taken += Counter()  # drops counters that are zero
            self._strange -= not is_planned

    def _key(self, peer: str) -> tuple[str, bool]:
        address = canonical(peer)
        if address in self._planned:
            return address, True
        return str(ipaddress.ip_network((address, 64), strict=False)) if ":" in address else address, False
