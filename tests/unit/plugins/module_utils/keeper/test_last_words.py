# SPDX-License-Identifier: Apache-2.0
"""What a keeper writes last is how it ended, also when its disk is slow."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.keeper.background import Background
from ansible_collections.firstlight.cluster.plugins.module_utils.keeper.keeper import GIVEN_UP, Keeper


class Leaver(Keeper):
    """A keeper with nothing but a state, and a disk that takes its time."""

    def __init__(self) -> None:
        self.phase = "stopping"
        self.written: list[str] = []
        self.writing, self.disk = threading.Event(), threading.Event()
        parts: dict[str, Any] = {
            "_systemd": SimpleNamespace(status=lambda _: None),
            "_picture": SimpleNamespace(line=lambda _: "", state=lambda *_: self.phase, news=lambda: True),
            "_files": SimpleNamespace(state_path="keeper.json", show=self.write),
            "_tools": SimpleNamespace(background=Background(), interval=1.0),
            "_clock": time.monotonic,
            "_server": None,
            "_problem": "",
            "_unwritten": False,
            "_showing": None,
            "_shown_at": 0.0,
        }
        vars(self).update(parts)

    def write(self, phase: str) -> str:
        self.writing.set()
        self.disk.wait(60)
        self.written.append(phase)
        return ""


def test_an_older_state_that_is_being_written_is_not_the_last() -> None:
    async def leave(keeper: Leaver) -> int:
        keeper._show()
        await asyncio.to_thread(keeper.writing.wait, 60)
        keeper.phase = "given-up"
        # As soon as the keeper that leaves waits for its disk.
        asyncio.get_running_loop().call_soon(keeper.disk.set)
        return await keeper._leave()

    leaver = Leaver()
    assert asyncio.run(leave(leaver)) == GIVEN_UP
    assert leaver.written == ["stopping", "given-up"]
