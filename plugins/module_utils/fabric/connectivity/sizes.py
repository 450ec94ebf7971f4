# SPDX-License-Identifier: Apache-2.0
"""Find the largest packet that passes a path, with few pings: each one that fails costs a whole second."""

from __future__ import annotations

from collections.abc import Callable

SMALL = 84
"""Packet size of an ordinary ping; a path that does not pass even this is dead."""
USUAL = (1500, 1504, 4200, 2044, 8996)
"""Sizes commonly left configured: Ethernet's default with and without a VLAN tag, and those of RDMA and InfiniBand."""
MOST_QUESTIONS = 24


def largest_packet(passes: Callable[[int], bool], mtu: int, most: int = MOST_QUESTIONS) -> int:
    """Return the largest size below `mtu` that passes; 0 if not even a small one does.

    The limit of a path is nearly always one of a few sizes, so those are tried first: if one passes and one byte more
    does not, it is the answer. Otherwise the limit is bisected for at most `most` pings; the result is never too large.
    """
    asked = 0

    def ask(size: int) -> bool:
        nonlocal asked
        asked += 1
        return passes(size)

    if not ask(SMALL):
        return 0
    low, high = SMALL, mtu
    for size in USUAL:
        if not low < size < high:
            continue
        if not ask(size):
            high = size
            continue
        low = size
        if size + 1 >= high:
            break
        if not ask(size + 1):
            return size
        low = size + 1
    while high - low > 1 and asked < most:
        middle = (low + high) // 2
        if ask(middle):
            low = middle
        else:
            high = middle
    return low
