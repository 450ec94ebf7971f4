# SPDX-License-Identifier: Apache-2.0
"""How a serving group stands in the middle of a re-pin: the group is moved as a whole, or put back as a whole."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.evaluate import BACK, LEAVE, MOVE, REFUSE

Facts = Mapping[str, Mapping[str, Any]]

NOT_DRAINED = "not-drained"
"""Outcome of a host on which something could not be stopped: nothing was changed."""

UNTOUCHED_STATES = (None, "planned")
"""Where a run that ends here has done nothing to a host."""

FACTS = {
    name: f"repin_{name}" for name in ("decision", "prepared", "drained", "result", "back", "served", "served_back")
}
SILENT = "it does not answer SSH any more. Run again once it does"


def with_silent(hosts: Facts, answering: Container[str]) -> dict[str, dict[str, Any]]:
    """The facts by host, with what a host comes to that was to move and does not answer.

    Ansible goes on without a host that is unreachable; the group cannot. Where nothing was drained yet, such a host
    could only not be prepared. One that was silent from the start has no decision; where a move is open, it is one of
    it.
    """
    outcome = "lost" if any(facts.get("drained") for facts in hosts.values()) else "unprepared"
    found = {name: dict(facts) for name, facts in hosts.items()}
    for name, facts in found.items():
        action = (facts.get("decision") or {"action": MOVE}).get("action")
        outcomes = [(facts.get(part) or {}).get("outcome") for part in ("result", "back")]
        over = any(one not in (None, "verified") for one in outcomes)
        if name not in answering and action == MOVE and not over:
            facts["result"] = {"outcome": outcome if "decision" in facts else "lost", "problem": SILENT}
    return found


def group_state(hosts: Facts) -> dict[str, Any]:
    """From each host's `decision` and, once it was touched, `result`, `back` and `served`.

    - `refused`: sentences for which nothing may be done at all
    - `order`: the hosts as they are taken, those that move first
    - `left`: hosts that are left alone
    - `forward`: whether the group moves; not where an earlier run left a host on its way back
    - `failed`: what went wrong, by host, the group's serving included
    - `whole`: every host that was to move has moved
    - `put_back`: hosts that have to be put back when something failed
    - `waits_for`: hosts without which the group cannot serve
    """
    decisions = {name: facts.get("decision") or {} for name, facts in hosts.items()}
    # A task that was skipped leaves a result without an outcome.
    results = {name: _ended(facts.get("result")) for name, facts in hosts.items()}
    backs = {name: _ended(facts.get("back")) for name, facts in hosts.items()}
    by_action = {
        action: [name for name, decision in decisions.items() if decision.get("action") == action]
        for action in (MOVE, BACK, LEAVE)
    }
    moving, returning = by_action[MOVE], by_action[BACK]
    outcomes = {name: result.get("outcome") for name, result in results.items()}
    failed = {
        name: str(result.get("problem") or result["outcome"])
        for name, result in results.items()
        if result and result["outcome"] != "verified"
    }
    failed |= {
        name: str(facts["served"]["problem"])
        for name, facts in hosts.items()
        if (facts.get("served") or {}).get("problem") and name not in failed
    }
    unprepared = "unprepared" in outcomes.values()
    put_back = [
        name
        for name in (*moving, *returning)
        if (decisions[name].get("resumes") is not None or hosts[name].get("prepared"))
        and outcomes[name] in (None, "verified", "unprepared", NOT_DRAINED)
        and not (unprepared and decisions[name].get("resumes") in UNTOUCHED_STATES)
    ]
    astray = [name for name, back in backs.items() if back.get("outcome", "rolled-back") != "rolled-back"]
    return {
        "refused": [
            f"{name}: {reason}"
            for name, decision in decisions.items()
            if decision.get("action") == REFUSE
            for reason in decision.get("reasons", ())
        ],
        "order": [*reversed(moving), *(name for name in hosts if name not in moving)],
        "forward": bool(moving) and not returning,
        "left": by_action[LEAVE],
        "failed": failed,
        "whole": bool(moving) and all(outcomes[name] == "verified" for name in moving) and not failed,
        "put_back": put_back if failed or returning else [],
        "waits_for": sorted(
            {name for name, outcome in outcomes.items() if outcome in ("lost", "failed")} | {*astray, *by_action[LEAVE]}
        ),
    }


def _ended(result: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return result if result and result.get("outcome") else {}
