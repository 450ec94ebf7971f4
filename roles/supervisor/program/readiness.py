# SPDX-License-Identifier: Apache-2.0
"""Whether a node could start a group now, checked without blocking the loop and only as often as is worth its cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import GroupConfig

from . import needs
from .background import Background, NoAnswerError
from .notify import WARNING, say

SLOW_SECONDS = 10.0
"""How long results of Docker and the file system about image and weights are cached."""
DROP_SECONDS = 30.0
LOADING_DROP_SECONDS = 5.0
"""The interval between two drops while the engine loads: a disk reads some gigabytes in that time, and a drop takes 1
s."""
BUSY_SECONDS = 30.0
"""The interval for reading GPU memory while the group runs, when it is only displayed."""
LIMIT = 60.0


class Readiness:
    """The check results of one group, and when they were obtained."""

    def __init__(
        self, group: GroupConfig, tokens: Sequence[str], host: Host, background: Background, clock: Callable[[], float]
    ) -> None:
        self._group = group
        self._tokens = tokens
        self._host = host
        self._background = background
        self._clock = clock
        self._known: dict[str, tuple[float, str]] = {}
        self._free = needs.Free()
        self._looked = float("-inf")
        self._dropped = float("-inf")
        self._trouble = ""
        """Why the last drop while loading failed, so that it is logged once."""

    @property
    def memory_free(self) -> int:
        return self._free.bytes

    async def while_running(self, *, loading: bool = False) -> None:
        """Measure only what is displayed; image and weights are checked anew once the group is down.

        While the engine loads, drop the cache of the files it has read if that is in its way.
        """
        self._known.clear()
        if self._clock() - self._looked >= (BUSY_SECONDS if self._group.needs.memory.kind == "discrete" else 0):
            await self._memory()
        due = loading and self._clock() - self._dropped >= LOADING_DROP_SECONDS
        if due and self._group.needs.drop_caches and needs.worth_dropping(self._free):
            problem = await self.drop_caches()
            if problem and problem != self._trouble:
                say(problem, WARNING)
            self._trouble = problem

    async def problems(self) -> list[str]:
        """Return why nothing can be started, one sentence each."""
        host, wanted = self._host, self._group.needs
        found = [
            await self._slow("the image", partial(needs.image_problem, host, wanted)),
            await self._slow("the weights", partial(needs.weights_problem, host, wanted.weights)),
            await self._memory_problem(),
        ]
        if self._tokens:
            found.append(await self._slow("the tokens", partial(needs.token_problem, host, self._tokens)))
        return [problem for problem in found if problem]

    async def drop_caches(self) -> str:
        """Drop the page cache if so configured; return an error message, or an empty string."""
        if not self._group.needs.drop_caches:
            return ""
        self._dropped = self._clock()
        try:
            return await self._background.ask(f"dropping caches for {self._group.name}", needs.drop_caches, LIMIT)
        except NoAnswerError as error:
            return str(error)

    async def _slow(self, what: str, work: Callable[[], str]) -> str:
        at, problem = self._known.get(what, (float("-inf"), ""))
        if self._clock() - at < SLOW_SECONDS:
            return problem
        try:
            problem = await self._background.ask(f"{what} of group {self._group.name}", work, LIMIT)
        except NoAnswerError as error:
            problem = f"{error}, expected its file system or Docker to answer: see dmesg"
        self._known[what] = (self._clock(), problem)
        return problem

    async def _memory_problem(self) -> str:
        memory = self._group.needs.memory
        problem = await self._memory() or needs.memory_problem(self._free, memory)
        if problem and self._clock() - self._dropped >= DROP_SECONDS and self._group.needs.drop_caches:
            # The page cache of weights that were just read is memory that nobody needs.
            await self.drop_caches()
            problem = await self._memory() or needs.memory_problem(self._free, memory)
        return problem

    async def _memory(self) -> str:
        """Measure the free memory; return an error message, or an empty string."""
        self._looked = self._clock()
        work = partial(needs.free_memory, self._host, self._group.needs.memory)
        try:
            self._free = await self._background.ask(f"the memory of group {self._group.name}", work, LIMIT)
        except NoAnswerError as error:
            return f"{error}, expected nvidia-smi or the kernel to report it: see dmesg"
        return ""
