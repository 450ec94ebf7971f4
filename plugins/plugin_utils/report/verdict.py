# SPDX-License-Identifier: Apache-2.0
"""Decide whether a cluster can be accepted, by its failures and by what was not checked. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import COULD_NOT_CHECK, FAIL
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.verdict import NOT_MEASURED, SLOW, line_text
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.checks import wrong_cells
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.values import at, listed, mapping, words
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.status import SERVES, UNKNOWN

ACCEPTED, NOT_ACCEPTED, INCOMPLETE = "accepted", "not accepted", "incomplete"
CLUSTER = "cluster"
"""Takes the place of a node's name for reasons that concern the whole cluster."""
WORSE = "worse"

Reason = dict[str, str]


def evaluate(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict on a report's document: failures reject the cluster, missing checks leave it incomplete."""
    reasons, missing = list(_wrong(document)), list(_missing(document))
    verdict = NOT_ACCEPTED if reasons else INCOMPLETE if missing else ACCEPTED
    return {"verdict": verdict, "reasons": reasons, "missing": missing}


def reason_text(one: Mapping[str, Any]) -> str:
    """Render a reason as one line: where, what, and what to do."""
    return f"{one['where']}: {one['check']}: {one['found']}" + (f"; {one['do']}" if one.get("do") else "")


def _reason(where: str, check: str, found: str, do: str = "") -> Reason:
    return {"where": where, "check": check, "found": found, "do": do}


def _wrong(document: Mapping[str, Any]) -> Iterator[Reason]:
    for host, row, cell in wrong_cells(document["checks"], FAIL):
        yield _reason(host, row["id"], f"{cell['measured']}, expected {row['minimum']}", cell.get("remedy", ""))
    bench = mapping(at(_of_this_plan(document, "bench"), "verdict"))
    for line in listed(bench.get("lines")):
        if at(line, "verdict") == SLOW:
            yield _reason(CLUSTER, "benchmark", line_text(line), words(next(iter(listed(bench.get("look_at"))), "")))
    quality = _of_this_plan(document, "quality")
    if quality.get("status") == WORSE:
        told = "; ".join(words(one) for one in listed(quality.get("reasons"))) or "answers are worse than the reference"
        yield _reason(CLUSTER, "quality", told)
    serving = mapping(document.get("serving"))
    if serving.get("verdict") not in (None, SERVES, UNKNOWN):
        told = f"{serving['verdict']}: {words(serving.get('why') or 'no reason given')}"
        yield _reason(CLUSTER, "serving", told, "see `firstlight status` and `firstlight logs`")


def _of_this_plan(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a measurement; empty if it is of another plan, like every trial of other settings."""
    found = mapping(document.get(name))
    return {} if found.get("other_plan") else found


def _missing(document: Mapping[str, Any]) -> Iterator[Reason]:
    for host, row, cell in wrong_cells(document["checks"], COULD_NOT_CHECK):
        yield _reason(host, row["id"], cell["measured"], cell.get("remedy", ""))
    commands = mapping(document.get("how"))
    for host, run in mapping(document.get("burn_in")).items():
        if at(run, "problem"):
            yield _reason(host, "burn-in", words(at(run, "problem")), words(commands.get("burn_in")))
    bench = document.get("bench")
    again = words(commands.get("bench"))
    if not bench:
        yield _reason(CLUSTER, "benchmark", "it was not run", again)
    elif at(bench, "other_plan"):
        yield _reason(CLUSTER, "benchmark", "it was run with a plan other than today's", again)
    elif at(bench, "verdict", "verdict") not in (SLOW, "pass"):
        lines = [one for one in listed(at(bench, "verdict", "lines")) if at(one, "verdict") == NOT_MEASURED]
        told = "; ".join(line_text(one) for one in lines[:3]) or "it has no verdict"
        yield _reason(CLUSTER, "benchmark", told, again)
    if at(document, "serving", "verdict") in (None, UNKNOWN):
        told = words(at(document, "serving", "why") or "it is not known whether it serves")
        yield _reason(CLUSTER, "serving", told, "see `firstlight status`")
    if _of_this_plan(document, "quality").get("status") == "could_not_ask":
        yield _reason(CLUSTER, "quality", "the fixed prompts could not be sent", words(commands.get("quality")))
