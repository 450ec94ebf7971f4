# SPDX-License-Identifier: Apache-2.0
"""The questions to the server of one epoch: when the next one is due, and how many in a row were not answered."""

from __future__ import annotations

from .model import Probe

BRISK = 2.0
"""Seconds between questions while an answer is missed: the first one, or the one after a failure."""


class Questions:
    """Begun anew with every epoch: what came of an earlier one's questions says nothing of this one."""

    def __init__(self) -> None:
        self.failures = 0
        """In a row."""
        self.trouble = ""
        """What the last one brought instead of an answer."""
        self._seen = self._due = 0.0

    def begin(self, now: float) -> None:
        self.failures, self.trouble = 0, ""
        self._seen = self._due = now

    def is_due(self, now: float) -> bool:
        return now >= self._due

    def take(self, probe: Probe | None, every: float) -> bool:
        """Whether there is news, and it is that the server lives; the next question follows `every` seconds later."""
        if probe is None or probe.at <= self._seen:
            return False
        lives = probe.answered or probe.alive
        self._seen, self.failures = probe.at, 0 if lives else self.failures + 1
        self.trouble = "" if probe.answered else probe.words or "no answer"
        self._due = probe.at + (every if lives else min(BRISK, every))
        return lives
