# SPDX-License-Identifier: Apache-2.0
"""Who is to blame for paths that fail although both ends look right: a host's switch port, the switch, or one pair.

If every path of a host fails while the others reach each other, it is that host's side. If all paths fail, it is what
they share. What is left is told as a pair.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

Pair = frozenset[str]


@dataclass(frozen=True)
class FaultIsolation:
    """Hosts to blame, one by one; all of them together when `everybody`; and pairs that nothing shared explains."""

    hosts: tuple[str, ...] = ()
    everybody: bool = False
    pairs: tuple[Pair, ...] = ()


def isolate_fault(bad: Collection[Pair], tested: Collection[Pair]) -> FaultIsolation:
    """Who is to blame for the bad pairs among those that were tested.

    One tested pair alone cannot tell its two ends apart. Of three hosts whose paths all fail nobody can be singled out.
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
