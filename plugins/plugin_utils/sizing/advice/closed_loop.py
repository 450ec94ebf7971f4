# SPDX-License-Identifier: Apache-2.0
"""Simulate what clients see of a group of GPUs: its scheduler, step by step, as vLLM's works.

All clients send a request at once, and another as soon as they have the answer (or requests arrive at a rate). In every
step all decoding requests get a token; the rest of the step's token budget goes to prompts, first come first served, in
chunks. Deterministic, and fast: steps that only decode are taken together until something changes.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import deque
from dataclasses import dataclass, field

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.performance import (
    FRONT_SECONDS,
    PREFILL_CHUNK,
    REQUEST_SECONDS,
    TOKENISE_SECONDS,
    Group,
    Step,
)

ROUNDS = 6
"""Answers that each client gets. The first of them starts with all clients at once, as a benchmark does."""
FEW_ROUNDS = 3
"""The same for bundles: enough for a steady state, and no longer to compute."""
LEAST_REQUESTS = 10
PACES = (0.5, 1.0, 1.5)
"""Paces of the front end to simulate: whether a prompt makes it into a step is chance, and moves the median."""
BUNDLES = 192
"""More clients than this are simulated in bundles that act together."""


@dataclass(frozen=True)
class Demand:
    """The load on a group."""

    prompt: int
    output: int
    clients: int
    slots: int
    """Requests of this length that are processed at once; the others wait."""
    chunk: int = PREFILL_CHUNK
    """Tokens of a step (max_num_batched_tokens)."""
    rate: float | None = None
    """Requests per second, at random, with at most `clients` in progress; None: each client asks again at once."""


@dataclass(frozen=True)
class Seen:
    """What the clients saw, as medians, and the dominant bound."""

    output_tokens_per_s: float
    ttft_seconds: float
    tpot_seconds: float
    bound_by: str


@dataclass
class _Request:
    """A request, or a bundle of them."""

    sent: float
    left: int
    """Tokens of its prompt that are not processed yet."""
    first: float = 0.0
    """Time of its first token; `began` is the step."""
    began: int = 0


@dataclass
class _Run:
    group: Group
    demand: Demand
    size: int
    """Requests of a bundle."""
    steps_each: int
    """Steps that a request decodes."""
    pace: float = 1.0
    """Pace of the front end, which reads requests."""
    now: float = 0.0
    begun: float = 0.0
    """When the last step began: the engine schedules a step while the one before it runs."""
    steps: int = 0
    front: float = 0.0
    """When the front end is done with the previous request."""
    arriving: deque[tuple[float, float]] = field(default_factory=deque)
    waiting: list[_Request] = field(default_factory=list)
    decoding: deque[_Request] = field(default_factory=deque)
    """In the order in which they began, which is the order in which they end."""
    began: int = 0
    """Sum of the steps at which these began."""
    ttft: list[float] = field(default_factory=list)
    tpot: list[float] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=dict)

    def send(self, at: float) -> None:
        """Send a request; it is read and tokenised after those before it."""
        self.front = max(self.front, at) + self.pace * self.size * (
            REQUEST_SECONDS + TOKENISE_SECONDS * self.demand.prompt
        )
        self.arriving.append((self.front + FRONT_SECONDS, at))

    def admit(self) -> None:
        """Admit the requests that had arrived when the next step was scheduled."""
        seen = self.begun if self.decoding or self.waiting else self.now
        while self.arriving and self.arriving[0][0] <= seen:
            self.waiting.append(_Request(self.arriving.popleft()[1], self.demand.prompt * self.size))

    def prefill(self, room: int) -> None:
        """Run one step with as much of the waiting prompts as fits."""
        whole, decoding = self.demand.prompt * self.size, len(self.decoding) * self.size
        budget = free = max(1, self.demand.chunk - decoding)
        alone = (self.waiting[0].left - 1) // budget
        if self.decoding:
            alone = min(alone, self._until_the_next_ends())
        if alone > 1:
            # Full chunks of one long prompt: the same step, again and again.
            done = whole - self.waiting[0].left
            self.waiting[0].left -= alone * budget
            pairs = budget * (done + alone * budget / 2) / self.size
            self._advance(self.group.step(decoding, self._context(alone / 2), prompt=budget, pairs=pairs), alone)
            return
        pairs, ready = 0.0, []
        for one in self.waiting[:room]:
            taken = min(free, one.left)
            pairs += taken * (whole - one.left + taken / 2) / self.size
            one.left -= taken
            free -= taken
            if not one.left:
                ready.append(one)
            if not free:
                break
        first = len(ready) * self.size
        self._advance(self.group.step(decoding, self._context(), prompt=budget - free, pairs=pairs, first=first))
        self.waiting = [one for one in self.waiting if one.left]
        for one in ready:
            one.first, one.began = self.now, self.steps
            self.ttft.append(self.now - one.sent)
            self.decoding.append(one)
            self.began += self.steps

    def decode(self) -> None:
        """Run steps without prompts, until a request ends or another arrives."""
        times = self._until_the_next_ends()
        step = self.group.step(len(self.decoding) * self.size, self._context(times / 2))
        if self.arriving:
            times = max(1, min(times, math.ceil((self.arriving[0][0] - self.now) / step.seconds)))
        self._advance(step, times)

    def finish(self) -> int:
        """Remove the requests that have all their tokens; return how many."""
        before = len(self.tpot)
        while self.decoding and self._until_the_next_ends() <= 0:
            one = self.decoding.popleft()
            self.began -= one.began
            self.tpot.append((self.now - one.first) / max(1, self.demand.output - 1))
        return len(self.tpot) - before

    def _until_the_next_ends(self) -> int:
        return self.decoding[0].began + self.steps_each - self.steps

    def _context(self, ahead: float = 0.0) -> float:
        """Return the mean tokens in the cache of the decoding requests, `ahead` steps from now."""
        if not self.decoding:
            return 0.0
        done = self.steps + ahead - self.began / len(self.decoding)
        return self.demand.prompt + done * self.group.tokens_per_step

    def _advance(self, step: Step, times: int = 1) -> None:
        self.begun = self.now + (times - 1) * step.seconds
        self.now += times * step.seconds
        self.steps += times
        self.spent[step.bound_by] = self.spent.get(step.bound_by, 0.0) + times * step.seconds


def simulate(group: Group, demand: Demand) -> Seen:
    """Return what `demand.clients` clients see of the group."""
    found = [_simulate(group, demand, pace) for pace in (PACES if 1 < demand.clients <= BUNDLES else (1.0,))]
    return Seen(
        output_tokens_per_s=statistics.mean(one.output_tokens_per_s for one in found),
        ttft_seconds=statistics.mean(one.ttft_seconds for one in found),
        tpot_seconds=statistics.mean(one.tpot_seconds for one in found),
        bound_by=found[0].bound_by,
    )


def _simulate(group: Group, demand: Demand, pace: float) -> Seen:
    # Requests that arrive one by one wait less than a bundle of them would.
    size = math.ceil(demand.clients / BUNDLES) if demand.rate is None else 1
    bundles, slots = math.ceil(demand.clients / size), max(1, demand.slots // size)
    count = max((ROUNDS if size == 1 else FEW_ROUNDS) * min(bundles, BUNDLES), math.ceil(LEAST_REQUESTS / size))
    run = _Run(group, demand, size, round((demand.output - 1) / group.tokens_per_step), pace)
    unsent = count
    if demand.rate is None:
        for _client in range(bundles):
            run.send(0.0)
        unsent -= bundles
    else:
        chance = random.Random(0)  # noqa: S311 - reproducible arrivals, not a secret
        at, unsent, slots = 0.0, 0, min(slots, bundles)
        for _request in range(count):
            at += chance.expovariate(demand.rate / size)
            run.send(at)
    while len(run.tpot) < count:
        run.admit()
        if run.waiting and len(run.decoding) < slots:
            run.prefill(slots - len(run.decoding))
        elif run.decoding:
            run.decode()
        else:
            run.now = max(run.now, run.arriving[0][0])
            continue
        again = min(run.finish(), unsent)
        unsent -= again
        for _client in range(again):
            run.send(run.now)
    return Seen(
        output_tokens_per_s=count * size * demand.output / run.now * demand.clients / (bundles * size),
        ttft_seconds=statistics.median(run.ttft),
        tpot_seconds=statistics.median(run.tpot),
        bound_by=max(run.spent, key=run.spent.__getitem__),
    )
