# SPDX-License-Identifier: Apache-2.0
"""Asks a job on a host for its result, and says meanwhile how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.transfer import progress_words

SLICE = 4.0
"""Seconds a call waits for the end before it says how far the job is."""

LOST = 180.0
"""Seconds a host may be out of reach before the job is given up; on the host it goes on."""


def watch(
    ask: Callable[[dict[str, Any]], dict[str, Any] | None],
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any] | None:
    """The job's result; None when the host stayed out of reach.

    `ask` runs the module with these arguments beside its own, and gives None when the host is out of reach.
    """
    found = ask({"wait": SLICE})
    while found is not None and found.get("unfinished"):
        say(progress_words(found.get("progress") or {}))
        found = ask({"wait": SLICE, "attach": True})
        since = clock()
        while found is None and clock() - since < LOST:
            say("out of reach, it goes on there")
            pause(2.0)
            found = ask({"wait": SLICE, "attach": True})
    return found
