# SPDX-License-Identifier: Apache-2.0
"""Poll a job on a host for its result and report its progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.transfer import progress_words

SLICE = 4.0
"""Seconds a call waits for the job to end before it returns the progress."""

LOST = 180.0
"""Seconds a host may be unreachable before we give up; the job continues on the host."""


def watch(
    ask: Callable[[dict[str, Any]], dict[str, Any] | None],
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any] | None:
    """Return the job's result; None if the host stayed unreachable.

    `ask` runs the module with these additional arguments, and returns None if the host is unreachable.
    """
    found = ask({"wait": SLICE})
    while found is not None and found.get("unfinished"):
        say(progress_words(found.get("progress") or {}))
        found = ask({"wait": SLICE, "attach": True})
        since = clock()
        while found is None and clock() - since < LOST:
            say("unreachable, the job continues there")
            pause(2.0)
            found = ask({"wait": SLICE, "attach": True})
    return found
