# SPDX-License-Identifier: Apache-2.0
"""Locate faults of paths whose ends look healthy: a host's switch port, the switch itself, or a single pair.

If every path of a host fails while the others reach each other, the fault is on that host's side. If all paths fail, it
is in what they share. Anything left is reported per pair.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

Pair = frozenset[str]


@dataclass(frozen=True)
class FaultIsolation:
    """Hosts at fault; `everybody` if all paths fail; and pairs that no common host explains."""

    hosts: tuple[str, ...] = ()
    everybody: bool = False
    pairs: tuple[Pair, ...] = ()


def isolate_fault(bad: Collection[Pair], tested: Collection[Pair]) -> FaultIsolation:
    """Isolate the fault behind the bad pairs among those tested.

    A single tested pair cannot tell its two ends apart. If all paths of three hosts fail, none can be singled out.
    """
    if not bad:
        return FaultIsolation()
    hosts = sorted({host for pair in tested for host in pair})
    if set(bad) == set(tested) and len(hosts) > 2:
        return FaultIsolation(everybody=True)
    guilty = [host for host in hosts if _all_bad(host, bad, tested)]
    left = [pair for pair in bad if not pair & set(guilty)]
    return FaultIsolation(hosts=tuple(guilty), pairs=tuple(sorted(left, key=sorted)))


def _all_bad(host: str, bad: Collection[Pair], tested: Collection[Pair]) -> bool:
    own = [pair for pair in tested if host in pair]
    return len(own) > 1 and all(pair in bad for pair in own)
