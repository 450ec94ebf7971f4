# SPDX-License-Identifier: Apache-2.0
"""Compare two reports: pins, parts, checks and figures, each as better, worse or just changed. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import CONTENT, PASS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.verdict import (
    figure,
    figure_words,
    metric_words,
    point_words,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.values import at, listed, mapping, number, words
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.verdict import ACCEPTED, NOT_ACCEPTED

BETTER, WORSE, CHANGED = "better", "worse", "changed"
METRICS = ("output_tokens_per_s", "ttft_ms.50", "tpot_ms.50")
ANSWER = "host.answer"
"""The check of a host that could not be observed."""
LEAST = 0.02
"""Relative difference below which figures count as equal, however small the spread of their runs."""
STARTS = 0.2
"""The same for start-up times, of which each report has only one."""
_PLAN = (
    *("hardware", "stack", "model", "revision", "engine", "engine_version", "image", "profile"),
    *("tensor_parallel", "pipeline_parallel", "replicas", "context"),
)

Difference = dict[str, Any]


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Return everything that differs: worse first, then better, then changed, each in the order of a report's parts."""
    found = [
        *_verdict(before, after),
        *_plan(before, after),
        *_checks(before, after),
        *_materials(before, after),
        *_starts(before, after),
        *_figures(before, after),
    ]
    order = {WORSE: 0, BETTER: 1, CHANGED: 2}
    return sorted(found, key=lambda one: order[one["kind"]])


def _difference(part: str, where: str, what: str, before: Any, after: Any, kind: str = CHANGED) -> Difference:
    told = {"before": words(before), "after": words(after)}
    return {"part": part, "where": where, "what": what, **told, "kind": kind}


def _verdict(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    old, new = at(before, "verdict", "verdict"), at(after, "verdict", "verdict")
    if old != new:
        kind = BETTER if new == ACCEPTED else WORSE if old == ACCEPTED or new == NOT_ACCEPTED else CHANGED
        yield _difference("verdict", "cluster", "verdict", old, new, kind)


def _plan(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    for key in _PLAN:
        if at(before, "plan", key) != at(after, "plan", key):
            yield _difference("plan", "cluster", key, at(before, "plan", key), at(after, "plan", key))
    old, new = listed(at(before, "plan", "hosts")), listed(at(after, "plan", "hosts"))
    for host in [*old, *(one for one in new if one not in old)]:
        if (host in old) != (host in new):
            yield _difference("plan", words(host), "node", *(("there", "gone") if host in old else ("none", "new")))


def _checks(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    old, new = _statuses(before), _statuses(after)
    looked_at = {
        str(host)
        for host in listed(at(after, "plan", "hosts"))
        if host not in mapping(after.get("silent")) and new.get((str(host), ANSWER), (PASS,))[0] in CONTENT
    }
    for place in [*new, *(one for one in old if one not in new)]:
        then, now = old.get(place), new.get(place)
        # A passing check that was added or removed is due to another plan.
        if now is None and (place[0] not in looked_at or _not_tried(after, *place)):
            continue  # it was not checked, which is reported separately
        told = [one for one in (then, now) if one]
        if (then or ("",))[0] == (now or ("",))[0] or all(one[0] in CONTENT for one in told):
            continue
        worse = now is not None and now[0] not in CONTENT
        yield _difference("checks", place[0], place[1], _said(then), _said(now), WORSE if worse else BETTER)


def _not_tried(document: Mapping[str, Any], host: str, name: str) -> bool:
    """Return whether this is a burn-in check of a host without a valid burn-in."""
    return name.startswith("burn_in.") and bool(at(document, "burn_in", host, "problem"))


def _statuses(document: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, str]]:
    return {
        (str(host), str(at(row, "id"))): (str(at(cell, "status")), words(at(cell, "measured")))
        for row in listed(document.get("checks"))
        for host, cell in mapping(at(row, "cells")).items()
    }


def _said(told: tuple[str, str] | None) -> str:
    return "not among the checks" if told is None else f"{told[0].replace('_', ' ')}: {told[1]}"


def _materials(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    old = {str(at(one, "name")): mapping(at(one, "values")) for one in listed(before.get("materials"))}
    for one in listed(after.get("materials")):
        name = str(at(one, "name"))
        for host, value in mapping(at(one, "values")).items():
            then = mapping(old.get(name)).get(host)
            if then is not None and then != value:
                yield _difference("parts", str(host), name, then, value)


def _starts(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    old = {at(one, "group"): number(at(one, "seconds")) for one in listed(at(before, "startup", "starts"))}
    for one in listed(at(after, "startup", "starts")):
        then, now = old.get(at(one, "group")), number(at(one, "seconds"))
        if then and now and abs(now - then) > STARTS * then:
            kind = BETTER if now < then else WORSE
            what = "seconds to the first answer"
            yield _difference("start", words(at(one, "group")), what, f"{then:.0f}", f"{now:.0f}", kind)


def _figures(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    old, new = _points(before), _points(after)
    for place, summary in new.items():
        if place not in old:
            continue
        for metric in METRICS:
            then, now = figure(old[place], metric), figure(summary, metric)
            if not then or not now:
                continue
            name = metric.partition(".")[0]
            spreads = [number(at(one, "spread", name)) or 0.0 for one in (old[place], summary)]
            if abs(now / then - 1) <= max(LEAST, *spreads):
                continue
            better = (now > then) == metric.endswith("_per_s")
            told = f"{figure_words(now)} ({now / then - 1:+.0%})"
            where = f"{place[0]}, {point_words({'streams': place[1], 'rate': place[2]})}"
            kind = BETTER if better else WORSE
            yield _difference("figures", where, metric_words(metric), figure_words(then), told, kind)


def _points(document: Mapping[str, Any]) -> dict[tuple[str, Any, Any], Mapping[str, Any]]:
    return {
        (str(at(workload, "name")), at(point, "streams"), at(point, "rate")): mapping(at(point, "summary"))
        for workload in listed(at(document, "bench", "workloads"))
        for point in listed(at(workload, "points"))
        if mapping(at(point, "summary"))
    }
