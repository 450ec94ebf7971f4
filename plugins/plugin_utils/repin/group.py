# SPDX-License-Identifier: Apache-2.0
"""Evaluate the state of a serving group during a re-pin: it is moved as a whole or rolled back as a whole."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.evaluate import BACK, LEAVE, MOVE, REFUSE

Facts = Mapping[str, Mapping[str, Any]]

NOT_DRAINED = "not-drained"
"""Outcome of a host on which something could not be stopped; nothing was changed."""

UNTOUCHED_STATES = (None, "planned")
"""Journal states in which a run has not changed the host yet."""

FACTS = {
    name: f"repin_{name}" for name in ("decision", "prepared", "drained", "result", "back", "served", "served_back")
}
SILENT = "it no longer answers SSH. Run again once it does"


def with_silent(hosts: Facts, answering: Container[str]) -> dict[str, dict[str, Any]]:
    """Return the facts by host, with an outcome for each host that should move but does not answer.

    Ansible continues without an unreachable host; the group cannot. If nothing was drained yet, such a host is merely
    unprepared. One that was silent from the start has no decision and is treated as one that moves.
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
    """Evaluate each host's `decision` and, once it was changed, `result`, `back` and `served`.

    - `refused`: reasons why nothing may be done at all
    - `order`: the hosts in processing order, those that move first
    - `left`: hosts that are left alone
    - `forward`: whether the group moves; false if an earlier run left a host in a rollback
    - `failed`: failures by host, including those of serving
    - `whole`: whether every host that should move has moved
    - `put_back`: hosts to roll back after a failure
    - `waits_for`: hosts without which the group cannot serve
    """
    decisions = {name: facts.get("decision") or {} for name, facts in hosts.items()}
    # A skipped task registers a result without an outcome.
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
