# SPDX-License-Identifier: Apache-2.0
"""The loop of serving, measuring, assessing answers and deciding, for a cluster or a single machine with one GPU."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.journal import (
    ANSWERS,
    ASSESS,
    FINISH,
    MEASURE,
    PLAN,
    SERVE,
    Document,
    Step,
    best,
    next_step,
    record,
    streams_of,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.rungs import settings


class RungError(Exception):
    """These settings cannot be served or measured; others may."""


class TrialError(Exception):
    """No further trial is possible; the message includes the remedy. The journal has what was done."""


class Trial(Protocol):
    """What a run of trials needs from the machines. Each method may be repeated after an interruption."""

    def plan(self, change: Mapping[str, Any]) -> str:
        """Return a fingerprint of what would be served with a change. Raises RungError if that is invalid."""

    def serve(self, change: Mapping[str, Any]) -> None:
        """Serve the inventory's settings with a change, and wait for a completion. Raises RungError."""

    def measure(self, change: Mapping[str, Any], streams: int) -> dict[str, Any]:
        """Measure at this number of streams, and return the summary. Raises RungError, or TrialError if others will
        fail too."""

    def keep_answers(self, change: Mapping[str, Any]) -> bool:
        """Get and store the reference answers; return false if answers are not assessed."""

    def assess(self, change: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the assessment of the answers (docs/quality.md); None if they are not assessed."""


Save = Callable[[Document], None]
Tell = Callable[[str], None]


def run_trials(document: Document, trial: Trial, save: Save, tell: Tell = lambda _: None) -> Document:
    """Continue a run from its document to the end. Raises TrialError; the document is saved after every step."""
    served: Mapping[str, Any] | None = None
    while (step := next_step(document, served)) is not None:
        tell(step_words(document, step))
        outcome, problem = None, ""
        try:
            outcome = _outcome(document, trial, step)
        except RungError as error:
            if step.rung is None:
                raise TrialError(f"{_what(step)}: {error}") from error
            problem = str(error)
        if step.kind == SERVE:
            served = None if problem else settings(step.change)
        elif problem and step.kind != PLAN:
            # The failure may have crashed the server.
            served = None
        document = record(document, step, outcome, problem)
        save(document)
        if step.rung is not None and document["rungs"][step.rung]["decision"] != "pending":
            rung = document["rungs"][step.rung]
            tell(f"  {rung['decision']}: {rung['reason']}" if rung["reason"] else f"  {rung['decision']}")
    return document


def _outcome(document: Document, trial: Trial, step: Step) -> Any:
    change = settings(step.change)
    if step.kind == PLAN:
        wanted, kept = trial.plan(change), best(document)
        # Another load requires another measurement, even if the plan stays the same.
        if document["journal"]["compare"] or streams_of(document, step.change) != streams_of(document, kept):
            return True
        return wanted != trial.plan(settings(kept))
    if step.kind == SERVE:
        return trial.serve(change)
    if step.kind == MEASURE:
        return trial.measure(change, streams_of(document, step.change))
    if step.kind == ANSWERS:
        return trial.keep_answers(change)
    if step.kind == ASSESS:
        return trial.assess(change) if document["journal"]["answers"] else None
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()


def step_words(document: Mapping[str, Any], step: Step) -> str:
    """Describe a step for the progress display."""
    if step.rung is None:
        return _what(step)
    rung = document["rungs"][step.rung]
    place = f"rung {step.rung + 1} of {len(document['rungs'])}, {rung['stage']}: {rung['name']}"
    return f"{place}: {_VERBS[step.kind]}"


_VERBS = {
    PLAN: "plan it",
    SERVE: "serve it",
    MEASURE: "measure it",
    ANSWERS: "keep the answers",
    ASSESS: "assess the answers",
    FINISH: "done",
}


def _what(step: Step) -> str:
    if step.kind == SERVE:
        return "serve what was kept" if settings(step.change) else "serve the inventory's settings"
    return "measure the baseline" if step.kind == MEASURE else _VERBS[step.kind]
