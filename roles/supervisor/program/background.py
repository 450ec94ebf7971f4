# SPDX-License-Identifier: Apache-2.0
"""Work that may hang, outside the event loop: a disk, driver or daemon that never answers costs one thread and no
more."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class NoAnswerError(Exception):
    """The work has not finished in time, or is still running from an earlier call."""


class Background:
    """Runs functions in threads of their own, at most one at a time per name.

    The threads are daemons: one that hangs in the kernel does not keep the program from exiting.
    """

    def __init__(self) -> None:
        self._busy: set[str] = set()

    async def ask(self, name: str, work: Callable[[], Answer], limit: float) -> Answer:
        """Return or raise what `work` does; raises NoAnswerError if it takes more than `limit` seconds."""
        if name in self._busy:
            raise NoAnswerError(f"{name} has still not answered")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._busy.add(name)

        def settle(result: object, error: BaseException | None) -> None:
            self._busy.discard(name)
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        def run() -> None:
            result: object = None
            problem: BaseException | None = None
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
                problem = error
            # The program, and its loop with it, may have ended in the meantime.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, result, problem)

        try:
            threading.Thread(target=run, name=name, daemon=True).start()
        except RuntimeError as error:
            # The machine is out of memory or process IDs; it may have some again the next time.
            self._busy.discard(name)
            raise NoAnswerError(f"{name} cannot be queried ({error})") from error
        done, _ = await asyncio.wait({future}, timeout=limit)
        if not done:
            future.cancel()
            raise NoAnswerError(f"{name} gave no answer within {limit:g} s")
        answer: Answer = future.result()
        return answer
