# SPDX-License-Identifier: Apache-2.0
"""The steps common to all changes that are rolled back unless confirmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..host import Host
from .change import Change


class ConfirmedSteps:
    """Base class of network and firewall changes."""

    outcome_words: Callable[[Mapping[str, Any], str], str]

    def __init__(self, params: Mapping[str, Any], host: Host, change: Change) -> None:
        self.params = params
        self.host = host
        self.places = change.places
        self.change = change

    def apply(self, *, check_mode: bool) -> dict[str, Any]:
        """Check the change and start it; if the result has `change`, that change awaits its confirmation."""
        raise NotImplementedError

    def begin(self, *, check_mode: bool) -> dict[str, Any]:
        """Apply the change, unless another run has a pending change here and has not been reported as ended."""
        journal = self.change.journal() or {}
        other = journal.get("run")
        mine = (self.params.get("run"), self.params.get("ended"))
        if other and self.change.is_armed() and other != mine[0] and journal["id"] != mine[1] and not check_mode:
            return {"changed": False, "busy": {"change": journal["id"], "run": other}}
        return self.apply(check_mode=check_mode)

    def leftovers(self, *, check_mode: bool) -> list[str]:
        """Finish what an interrupted run left, and return messages about rollbacks that nobody has read yet."""
        if check_mode:
            words = f"A {self.change.places.subject} of an interrupted run is pending; a run would roll it back first."
            return [words] if self.change.is_open() else []
        said = self.change.finish_leftover()
        outcome = self.change.outcome()
        if outcome is not None and not said:
            told = self.outcome_words(outcome, self.params["path"])
            said = f"An earlier change was rolled back: {outcome['reason']}. {told}"
        self.change.forget_outcome()
        return [said] if said else []

    def journal(self) -> dict[str, Any] | None:
        """Return the journal of the change that this step belongs to; None if it is no longer pending."""
        journal = self.change.journal()
        if journal is None or journal["id"] != self.params["change"] or not self.change.is_armed():
            return None
        return journal

    def over(self) -> dict[str, Any]:
        """Report on a change that is no longer pending: rolled back, or confirmed by a call whose answer was lost."""
        outcome = self.change.outcome()
        if outcome is None and self.change.is_open() and not self.change.is_armed():
            return {"changed": False, "waiting": True}  # rollback in progress
        if outcome is not None and outcome["change"] == self.params["change"]:
            return {"changed": False, "waiting": False, "works": False, "outcome": outcome}
        return {"changed": False, "waiting": False, "works": True, "over": True}

    def confirm(self) -> dict[str, Any]:
        """Keep the change: the controller has reconnected after it."""
        journal = self.change.journal()
        if journal is None or journal["id"] != self.params["change"] or not self.change.confirm():
            return self.over()
        return {"changed": False, "waiting": False, "works": True}

    def forget(self) -> dict[str, Any]:
        """Drop the outcome, which the controller has read."""
        self.change.forget_outcome()
        return {"changed": False}
