# SPDX-License-Identifier: Apache-2.0
"""The questions to the server of one epoch: when the next one is due, and how many in a row were not answered."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import Probe

BRISK = 2.0
"""Seconds between questions while an answer is missed: the first one, or the one after a failure."""


class Questions:
    """Begun anew with every epoch: what came of an earlier one's questions says nothing of this one."""

    def __init__(self) -> None:
        self.failures = 0
        """In a row."""
        self.trouble = ""
        """What the last one brought instead of an answer."""
        self._served = False
        self._seen = self._due = 0.0

    def begin(self, now: float, *, served: bool) -> None:
        """`served`: this epoch has given a completion before, to a supervisor that has been restarted since."""
        self.failures, self.trouble, self._served = 0, "", served
        self._seen = self._due = now

    def is_due(self, now: float) -> bool:
        return now >= self._due

    def take(self, probe: Probe | None, every: float) -> bool:
        """Whether there is news, and it is that the server serves; the next question follows `every` seconds later.

        Until the first completion nothing else counts: a proxy refuses before its engine is there, and may do so for
        ever. A server that has completed before and refuses now is alive.
        """
        if probe is None or probe.at <= self._seen:
            return False
        self._served = self._served or probe.answered
        serves = probe.answered or (self._served and probe.alive)
        self._seen, self.failures = probe.at, 0 if serves else self.failures + 1
        self.trouble = "" if probe.answered else probe.words or "no answer"
        self._due = probe.at + (every if serves else min(BRISK, every))
        return serves
