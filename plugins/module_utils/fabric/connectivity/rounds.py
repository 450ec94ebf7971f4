# SPDX-License-Identifier: Apache-2.0
"""Schedule all pairs of a cluster in rounds, so that no host is in two tests at a time.

This is the circle method of round-robin tournaments: one host stays, the others move on by one place each round. An
even number of hosts n takes n - 1 rounds, an odd number n rounds, with one host pausing in each. Every host computes
the same rounds from the same list, so they need not be distributed.
"""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[str, str]

MEMBER_SECONDS = 4
"""Extra seconds of start delay to allow for each host, because a controller starts only a few hosts at a time."""


def rounds(hosts: Sequence[str]) -> list[list[Pair]]:
    """Return rounds of disjoint pairs in which every two hosts meet exactly once. A pair is in the order of the list.

    Raises ValueError for a duplicate name, which would be in two tests at a time.
    """
    if len(set(hosts)) != len(hosts):
        twice = sorted({name for name in hosts if list(hosts).count(name) > 1})
        raise ValueError(f"hosts are listed twice: {', '.join(twice)}: list each host of the fabric once")
    # With an odd number, the host that is paired with None pauses.
    circle: list[int | None] = [*range(len(hosts)), *([None] if len(hosts) % 2 else [])]
    listed = []
    for _ in range(len(circle) - 1):
        met = [(one, other) for one, other in zip(circle, reversed(circle), strict=True)][: len(circle) // 2]
        listed.append(
            [
                (hosts[min(one, other)], hosts[max(one, other)])
                for one, other in met
                if one is not None and other is not None
            ]
        )
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return listed


def partners(host: str, schedule: Sequence[Sequence[Pair]]) -> list[str | None]:
    """Return the host's partner in each round; None where it pauses."""
    return [next((_other(host, pair) for pair in met if host in pair), None) for met in schedule]


def patience(start: float, hosts: Sequence[str]) -> float:
    """Return how many seconds apart hosts may start, which grows with their number."""
    return start + MEMBER_SECONDS * len(hosts)


def _other(host: str, pair: Pair) -> str:
    return pair[1] if pair[0] == host else pair[0]
