# SPDX-License-Identifier: Apache-2.0
"""The probes of one epoch's server: when the next one is due, and how many in a row have failed."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import Probe

BRISK = 2.0
"""Seconds between probes without a completion: before the first one, or after a failure."""


class Questions:
    """Reset with every epoch, as results of an earlier epoch's probes do not apply to this one."""

    def __init__(self) -> None:
        self.failures = 0
        """The number of failures in a row."""
        self.trouble = ""
        """What the last probe got instead of a completion."""
        self._served = False
        self._seen = self._due = 0.0

    def begin(self, now: float, *, served: bool) -> None:
        """Reset for an epoch; `served` if it has already returned a completion to an earlier supervisor."""
        self.failures, self.trouble, self._served = 0, "", served
        self._seen = self._due = now

    def is_due(self, now: float) -> bool:
        return now >= self._due

    def take(self, probe: Probe | None, every: float) -> bool:
        """Whether this is a new result that shows the server serving; the next probe follows `every` seconds later.

        Before the first completion nothing else counts: a proxy refuses requests before its engine is ready, and may do
        so forever. A server that has completed before and refuses now is alive.
        """
        if probe is None or probe.at <= self._seen:
            return False
        self._served = self._served or probe.answered
        serves = probe.answered or (self._served and probe.alive)
        self._seen, self.failures = probe.at, 0 if serves else self.failures + 1
        self.trouble = "" if probe.answered else probe.words or "no answer"
        self._due = probe.at + (every if serves else min(BRISK, every))
        return serves
