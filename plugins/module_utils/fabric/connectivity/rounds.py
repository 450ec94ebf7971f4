# SPDX-License-Identifier: Apache-2.0
"""All pairs of a cluster in rounds, so that no host is in two tests at a time.

The circle method of round-robin tournaments: one host stays, the others move on by one place from round to round. An
even number of hosts meets in one round less than there are hosts, an odd number in as many rounds as there are hosts,
with one of them resting in each. Every host computes the same rounds from the same list, so nobody hands them out.
"""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[str, str]

MEMBER_SECONDS = 4
"""A controller starts a few hosts at a time: how much later each further one may begin."""


def rounds(hosts: Sequence[str]) -> list[list[Pair]]:
    """Rounds of disjoint pairs; every two hosts meet exactly once. A pair is in the order of the list.

    Raises ValueError when a name is there twice: its rounds would have it in two tests at a time.
    """
    if len(set(hosts)) != len(hosts):
        twice = sorted({name for name in hosts if list(hosts).count(name) > 1})
        raise ValueError(f"hosts are listed twice: {', '.join(twice)}: list each host of the fabric once")
    # With an odd number somebody rests in each round: whoever meets nobody.
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
    """Whom a host meets in each round; nobody where it rests."""
    return [next((_other(host, pair) for pair in met if host in pair), None) for met in schedule]


def patience(start: float, hosts: Sequence[str]) -> float:
    """Seconds that hosts may start apart from each other; more of them take longer."""
    return start + MEMBER_SECONDS * len(hosts)


def _other(host: str, pair: Pair) -> str:
    return pair[1] if pair[0] == host else pair[0]
