# SPDX-License-Identifier: Apache-2.0
"""What a supervisor writes last is how it ended, also when its disk is slow."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

from ansible_collections.firstlight.cluster.roles.supervisor.program.background import Background
from ansible_collections.firstlight.cluster.roles.supervisor.program.supervisor import GIVEN_UP, Supervisor


class Leaver(Supervisor):
    """A supervisor with nothing but a state, and a disk that takes its time."""

    def __init__(self) -> None:
        self.phase = "stopping"
        self.written: list[str] = []
        self.writing, self.disk = threading.Event(), threading.Event()
        parts: dict[str, Any] = {
            "_systemd": SimpleNamespace(status=lambda _: None),
            "_picture": SimpleNamespace(line=lambda _: "", state=lambda *_: self.phase, news=lambda: True),
            "_files": SimpleNamespace(state_path="supervisor.json", show=self.write),
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
    async def leave(supervisor: Leaver) -> int:
        supervisor._show()
        await asyncio.to_thread(supervisor.writing.wait, 60)
        supervisor.phase = "failed"
        # As soon as the supervisor that leaves waits for its disk.
        asyncio.get_running_loop().call_soon(supervisor.disk.set)
        return await supervisor._leave()

    leaver = Leaver()
    assert asyncio.run(leave(leaver)) == GIVEN_UP
    assert leaver.written == ["stopping", "failed"]
