# SPDX-License-Identifier: Apache-2.0
"""Many nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

AT_ONCE = 32
Item = TypeVar("Item")
Result = TypeVar("Result")


def together(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
    """Each item with its result, in the order in which they end."""
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        jobs = {pool.submit(work, item): item for item in items}
        try:
            for job in as_completed(jobs):
                yield jobs[job], job.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # who interrupts does not wait for those not begun
            raise
