# SPDX-License-Identifier: Apache-2.0
"""Report the outcome of a re-pin, as a document and as a few lines of text."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

MOVED, PUT_BACK, UNTOUCHED, LEFT, LOST, FAILED = "moved", "put back", "untouched", "left alone", "lost", "failed"

_OUTCOMES = {
    "verified": MOVED,
    "rolled-back": PUT_BACK,
    "lost": LOST,
    "failed": FAILED,
    "unprepared": UNTOUCHED,
    "not-drained": UNTOUCHED,
}


UNREADABLE: Mapping[str, Any] = {
    "result": {
        "outcome": "failed",
        "problem": "it reports of its move what no journal can contain: find out who changed this host",
    }
}


def report(stack: str, previous: str | None, hosts: Mapping[str, Mapping[str, Any]], head: str) -> dict[str, Any]:
    """Build the document.

    A host has its `decision` and, if it was changed, the `result` of its move, possibly of its rollback (`back`), and
    the results of the serving gates (`served`, `served_back`). Invalid facts of one host must not break the report.
    """
    read = {name: facts if _is_readable(facts) else UNREADABLE for name, facts in hosts.items()}
    return _document(stack, previous, read, head)


def _is_readable(facts: Mapping[str, Any]) -> bool:
    try:
        lines(_document("", "", {"": facts}, ""))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return False
    return True


def _document(stack: str, previous: str | None, hosts: Mapping[str, Mapping[str, Any]], head: str) -> dict[str, Any]:
    told = {name: _host(facts) for name, facts in hosts.items()}
    endpoint = _endpoint(hosts.get(head) or {}, told.get(head) or {})
    problems = [f"{name}: {one['problem']}" for name, one in told.items() if one["problem"]]
    for facts in hosts.values():
        for gate, words in (("served", "does not serve with the new stack"), ("served_back", "does not serve again")):
            problem = (facts.get(gate) or {}).get("problem")
            if problem:
                problems.append(f"endpoint {words}: {problem}")
    right = [name for name, one in told.items() if one["outcome"] in (MOVED, UNTOUCHED) or one["given_up"]]
    return {
        "id": next((one["id"] for one in told.values() if one["id"]), None),
        "stack": stack,
        "previous_stack": previous,
        "done": len(right) == len(told) and not problems,
        "hosts": told,
        "endpoint": endpoint,
        "problems": list(dict.fromkeys(problems)),
    }


def _host(facts: Mapping[str, Any]) -> dict[str, Any]:
    decision, result, back = (facts.get(name) or {} for name in ("decision", "result", "back"))
    last = back if back.get("outcome") else result
    action = str(decision.get("action"))
    outcome = _OUTCOMES.get(str(last.get("outcome")), LEFT if action == "leave" else UNTOUCHED)
    problem = result.get("problem") or (back.get("problem") if outcome in (FAILED, LOST) else None)
    if outcome == LEFT:
        problem = "unhealthy before the re-pin, so neither moved nor rolled back: " + "; ".join(
            decision.get("reasons", ())
        )
    elif outcome == PUT_BACK and decision.get("given_up"):
        problem = None
    elif outcome == PUT_BACK and not result.get("problem"):
        problem = "rolled back with the rest: " + str(_reason(last.get("timeline") or ()))
    timeline = list(last.get("timeline") or ())
    return {
        "outcome": outcome,
        "problem": problem or None,
        "resumed_at": decision.get("resumes"),
        "given_up": outcome == PUT_BACK and bool(decision.get("given_up")),
        "id": (last.get("journal") or {}).get("id"),
        "verified": [
            words
            for entry in timeline
            if entry.get("state") in ("verified", "rolled-back")
            for words in (entry.get("detail") or {}).get("verified", ())
        ],
        "timeline": timeline,
    }


def _reason(timeline: Sequence[Mapping[str, Any]]) -> str:
    """Return why a host was rolled back, according to its journal."""
    for entry in timeline:
        if entry.get("state") == "failed":
            # A reason may include the end of a log; only its first line is repeated here.
            return str((entry.get("detail") or {}).get("reason") or "no reason was noted").splitlines()[0]
    return "no reason was noted"


def _endpoint(facts: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """Return when the endpoint was down, by the head's journal and the gate that got an answer.

    Supervisors are set up while the engine starts, and only then query it: a client may have had an answer earlier.
    """
    answered = (facts.get("served_back") or {}).get("answered_at") or (facts.get("served") or {}).get("answered_at")
    drained = next((entry["at"] for entry in head.get("timeline") or () if entry.get("state") == "drained"), None)
    seconds = None
    if drained and answered:
        seconds = (_time(str(answered)) - _time(str(drained))).total_seconds()
    return {"drained_at": drained, "answered_at": answered, "down_seconds": seconds}


def _time(text: str) -> datetime.datetime:
    found = datetime.datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def lines(document: Mapping[str, Any]) -> list[str]:
    """Render the document: a line per host with its times, the endpoint's downtime, and what to do next."""
    stack, previous = document["stack"], document["previous_stack"]
    shown = [f"Re-pin {previous or 'as installed'} -> {stack}: " + ("done" if document["done"] else "NOT DONE")]
    for name, host in document["hosts"].items():
        resumed = f", resumed at {host['resumed_at']}" if host["resumed_at"] else ""
        shown.append(f"  {name}: {host['outcome']}{resumed}{_times(host['timeline'])}")
    if document["endpoint"].get("down_seconds") is not None:
        shown.append(f"  endpoint: down for at most {document['endpoint']['down_seconds']:.0f} s")
    shown += [f"  {problem}" for problem in document["problems"]]
    if document["done"] and previous != stack:
        shown.append(f"  Set firstlight_stack to {stack} in the inventory: the next run of site.yml uses it.")
    return shown


def _times(timeline: Sequence[Mapping[str, Any]]) -> str:
    steps = []
    for entry in timeline:
        back = " (back)" if entry.get("direction") == "back" else ""
        steps.append(f"{entry['state']}{back} +{float(entry.get('seconds_since_start') or 0):.0f} s")
    return ": " + ", ".join(steps) if steps else ""
