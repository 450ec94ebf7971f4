# SPDX-License-Identifier: Apache-2.0
"""The largest packet that passes a path, found with few questions: each one that fails costs a whole second."""

from __future__ import annotations

from collections.abc import Callable

SMALL = 84
"""The packet of an ordinary ping: what does not even pass this is dead."""
USUAL = (1500, 1504, 4200, 2044, 8996)
"""Sizes at which devices are left: Ethernet's own, with and without a VLAN tag, and those of RDMA and InfiniBand."""
MOST_QUESTIONS = 24


def largest_packet(passes: Callable[[int], bool], mtu: int, most: int = MOST_QUESTIONS) -> int:
    """The largest size below `mtu` that passes; 0 where not even a small one does.

    A path is nearly always cut off at one of a few sizes, so those are asked first: one that passes while the next
    byte does not is the answer. Else it is found by halves, as far as `most` questions lead; it is never too large.
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
