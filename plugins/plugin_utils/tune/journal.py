# SPDX-License-Identifier: Apache-2.0
"""The journal of a run of trials: a document, and pure functions that decide the next step.

The document is written after every step. A killed run is resumed with the same functions: what is being served is never
trusted but served again, and a step without a recorded outcome is repeated.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.decision import by_answers, by_speed
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.rungs import (
    STREAMS,
    Change,
    Rung,
    is_precision,
    merged,
    settings,
    size,
    tuned,
)

FORMAT = 1
KEPT, REFUSED, ILLEGAL, FAILED, PENDING, MEASURED = "kept", "refused", "illegal", "failed", "pending", "measured"
PLAN, SERVE, MEASURE, ANSWERS, ASSESS, FINISH = "plan", "serve", "measure", "answers", "assess", "finish"
RUNNING, TUNED, FORMER = "running", "tuned", "former"
"""What the hosts serve according to the document: a trial of an unfinished run, its result, or the former settings."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """The next step. `change` is what must be served for it."""

    kind: str
    change: Change
    rung: int | None = None


@dataclass(frozen=True)
class Run:
    """The identity and the initial state of a run."""

    cluster: str
    name: str
    started: str
    ladder: str
    rungs: Sequence[Rung]
    workload: Mapping[str, Any]
    """The workload, including `streams`."""
    plan_sha256: str
    former: Mapping[str, Any]
    """The inventory's firstlight_serving."""
    start: Mapping[str, Any] = field(default_factory=dict)
    """Changes to it before the first rung."""
    compare: bool = False
    """Whether rungs are only measured and compared: none is kept, and the former settings are restored."""
    place: str = "firstlight_serving"
    """The inventory file with the settings."""
    restore: str = ""
    """The command that restores them."""


def new_document(run: Run) -> Document:
    """Create the document of a run that has not started."""
    nothing = {"decision": PENDING, "reason": "", "summary": None, "quality": None}
    return {
        "format": FORMAT,
        "cluster": run.cluster,
        "run": run.name,
        "ladder": run.ladder,
        "started": run.started,
        "finished": None,
        "workload": dict(run.workload),
        "baseline": None,
        "rungs": [{"name": one.name, "stage": one.stage, "change": dict(one.change), **nothing} for one in run.rungs],
        "result": None,
        "journal": {
            "state": RUNNING,
            "plan_sha256": run.plan_sha256,
            "former": dict(run.former),
            "start": dict(run.start),
            "compare": run.compare,
            "answers": None,
            "planned": None,
            "put_back": False,
            "place": run.place,
            "restore": run.restore,
        },
    }


def best(document: Mapping[str, Any]) -> Change:
    """Return the settings kept so far, as a change to the inventory's."""
    found: Change = dict(document["journal"]["start"])
    for rung in document["rungs"]:
        if rung["decision"] == KEPT:
            found = merged(found, rung["change"])
    return found


def result_of(document: Mapping[str, Any]) -> Change:
    """Return what is served at the end: the kept settings, or the inventory's own if none were kept, as a ladder's
    starting point is no better than these."""
    kept = [rung["change"] for rung in document["rungs"] if rung["decision"] == KEPT]
    found = best(document)
    return (
        found if any(settings(change) for change in kept) else {path: found[path] for path in found if path == STREAMS}
    )


def last_kept(document: Mapping[str, Any]) -> Any:
    """Return the figures that a rung has to beat."""
    kept = [rung["summary"] for rung in document["rungs"] if rung["decision"] == KEPT]
    return kept[-1] if kept else document["baseline"]


def streams_of(document: Mapping[str, Any], change: Mapping[str, Any]) -> int:
    """Return the number of streams at which a change is measured."""
    return int(change.get(STREAMS, document["workload"]["streams"]))


def next_step(document: Mapping[str, Any], served: Mapping[str, Any] | None) -> Step | None:
    """Return the next step; None if the run is finished. `served` is what currently serves; None if unknown."""
    if document["finished"]:
        return None
    own = document["journal"]
    kept = best(document)
    open_rungs = any(rung["decision"] == PENDING for rung in document["rungs"])
    if own["put_back"] and open_rungs and served != settings(kept):
        return Step(SERVE, kept)
    if not own["compare"]:
        if document["baseline"] is None:
            return _served(Step(MEASURE, kept), served)
        if own["answers"] is None:
            return _served(Step(ANSWERS, kept), served)
    for number, rung in enumerate(document["rungs"]):
        if rung["decision"] == PENDING:
            wanted = merged(kept, rung["change"])
            if own["planned"] != number:
                return Step(PLAN, wanted, number)
            return _served(Step(ASSESS if rung["summary"] else MEASURE, wanted, number), served)
    return _served(Step(FINISH, result_of(document)), served)


def _served(step: Step, served: Mapping[str, Any] | None) -> Step:
    """Return the step, or a step that first serves its settings."""
    return step if served == settings(step.change) else Step(SERVE, step.change, step.rung)


def record(document: Mapping[str, Any], step: Step, outcome: Any, problem: str = "") -> Document:
    """Return the document after a step with its `outcome`, or the `problem` that prevented one.

    - plan: the rung's plan is valid if there is no problem; the outcome is false if the plan does not change
    - measure: the outcome is the summary of the point
    - answers: whether there are answers to compare with; assess: the assessment, or None
    - finish: the time
    """
    new = copy.deepcopy(dict(document))
    own = new["journal"]
    if step.kind == FINISH:
        return _finished(new, step, str(outcome))
    if step.kind == SERVE and step.rung is None and not problem:
        own["put_back"] = False
    if step.kind == ANSWERS:
        own["answers"] = bool(outcome)
    if step.rung is None:
        if step.kind == MEASURE:
            new["baseline"] = outcome
        return new
    rung = new["rungs"][step.rung]
    if step.kind == PLAN:
        own["planned"] = step.rung
        if problem:
            _decide(rung, ILLEGAL, problem)
        elif not outcome:
            _decide(rung, REFUSED, "the plan is the same without it")
    elif problem:
        _decide(rung, FAILED, problem)
        own["put_back"] = True
    elif step.kind == MEASURE:
        rung["summary"] = outcome
        if own["compare"]:
            _decide(rung, MEASURED, "")
        else:
            _by_speed(new, step)
    elif step.kind == ASSESS:
        rung["quality"] = outcome
        _by_answers(new, step)
    return new


def _decide(rung: Document, decision: str, reason: str) -> None:
    rung["decision"], rung["reason"] = decision, reason


def _speed(document: Document, step: Step) -> Any:
    former, kept = document["journal"]["former"], best(document)
    return by_speed(
        last_kept(document),
        document["rungs"][step.rung]["summary"],
        document["workload"].get("targets"),
        fewer=size(tuned(former, step.change)) < size(tuned(former, kept)),
    )


def _by_speed(document: Document, step: Step) -> None:
    """Refuse a rung that is not better. A better one needs its answers assessed, unless only the load differs."""
    rung, speed = document["rungs"][step.rung], _speed(document, step)
    if not speed.kept:
        _decide(rung, REFUSED, speed.reason)
    elif set(rung["change"]) == {STREAMS}:
        _decide(rung, KEPT, speed.reason)


def _by_answers(document: Document, step: Step) -> None:
    rung, speed = document["rungs"][step.rung], _speed(document, step)
    answers = by_answers(rung["quality"], precision=is_precision(rung["change"]))
    if answers.kept:
        _decide(rung, KEPT, "; ".join(one for one in (speed.reason, answers.reason) if one))
    else:
        _decide(rung, REFUSED, f"{answers.reason}; {speed.reason}")


def _finished(document: Document, step: Step, at: str) -> Document:
    own, change = document["journal"], settings(step.change)
    document["finished"] = at
    own["state"] = TUNED if change else FORMER
    document["result"] = {
        "change": change,
        "streams": streams_of(document, step.change),
        "diff": settings_diff(own["former"], change, own["place"]),
        "restore": own["restore"] if change else "",
    }
    return document


def restored(document: Mapping[str, Any], at: str) -> Document:
    """Return the document after the former settings were restored."""
    new = copy.deepcopy(dict(document))
    new["finished"] = new["finished"] or at
    new["journal"]["state"] = FORMER
    return new


def settings_diff(former: Mapping[str, Any], change: Mapping[str, Any], place: str) -> str:
    """Return the change for the inventory, as a unified diff of firstlight_serving."""
    before, after = (_lines(one) for one in (former, tuned(former, change)))
    return "".join(difflib.unified_diff(before, after, place, place, n=2))


def _lines(serving: Mapping[str, Any]) -> list[str]:
    shown = {"firstlight_serving": dict(serving)} if serving else {}
    return yaml.safe_dump(shown, sort_keys=False).splitlines(keepends=True) if shown else []
