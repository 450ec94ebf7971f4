# SPDX-License-Identifier: Apache-2.0
"""`firstlight bench --layouts`: measure the same load on several GPU layouts, then restore the original one."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# First: it sets up Ansible's collection import hook.
from .trials import Cluster, Kept, PlaybookTrial, new_run, one_point, read_cluster, shown, tell

# isort: split
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.expected import expected
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.results import configuration_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.trace import TraceError, communication_share
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.envelopes import load_envelopes
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.prices import load_prices, price_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.journal import (
    RUNNING,
    Run,
    new_document,
    restored,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.layouts import (
    DIRECTORY,
    WORKLOAD,
    layout_name,
    layout_rungs,
    layouts_of,
    parse_layouts,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.trial import TrialError, run_trials

from .errors import DONE, OPEN, FirstlightError, UsageError


def run_layouts(arguments: argparse.Namespace, bench: Mapping[str, Any]) -> int:
    """Measure the layouts, restore the original, and print the result. `bench` has extra variables for
    playbooks/bench.yml.
    """
    if len(arguments.workload) > 1 or len(arguments.streams) > 1 or arguments.rate:
        raise UsageError(
            "layouts are compared at one load, expected one --workload, one number of --streams, no --rate"
        )
    try:
        layouts = parse_layouts(arguments.layouts)
    except ValueError as error:
        raise UsageError(str(error)) from error
    traced = _traced(arguments.trace, layouts)
    cluster = read_cluster(arguments)
    kept = Kept(cluster.name, DIRECTORY)
    document, given_up = _begun(arguments, cluster, kept, layouts)
    began = "layouts" in document
    # Figures of an earlier run do not apply to this one.
    told = {**bench, "bench_resume": "auto" if began else "never"}
    trial = PlaybookTrial(arguments, cluster.serving, document["workload"], kept.answers(document), told)
    if arguments.check:
        for rung in document["rungs"]:
            tell(f"{rung['name']}: {_problem(trial, rung['change']) or 'would be measured'}")
        return DONE

    def save(state: dict[str, Any]) -> None:
        measured = {one["name"]: one["change"] for one in state["rungs"] if one["summary"]}
        shares = {name: _share(trial, change, state["workload"]) for name, change in measured.items()}
        replicas = {name: _replicas(trial, change) for name, change in measured.items()}
        state["layouts"] = [
            {
                **one,
                "communication": traced.get((one["tensor_parallel"], one["pipeline_parallel"]), one["communication"]),
            }
            for one in layouts_of(state, shares, replicas)
        ]
        kept.save(state)

    try:
        trial.check(resumed=began)
        began = True
        save(document)
        if given_up is not None:
            # This run also restores the original layout when it ends, so the abandoned run is marked as restored.
            kept.save(restored(given_up, document["started"]))
        document = run_trials({**document, "configuration": cluster.configuration}, trial, save, tell)
    except TrialError as error:
        if not began:
            raise FirstlightError(f"{error}. Nothing was changed") from error
        raise FirstlightError(
            f"{error}. The measurements are kept in {kept.path(document)}: fix the reported cause and run the same "
            "command again to continue, or run playbooks/serve.yml to serve as the inventory says"
        ) from error
    if arguments.output:
        Path(arguments.output).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    _show(arguments, document, cluster)
    return DONE if all(one["summary"] for one in document["layouts"]) else OPEN


def _traced(directory: str, layouts: Sequence[tuple[int, int]]) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the communication shares in profiler traces, which are in directories named after the layouts."""
    if not directory:
        return {}
    places = {one: Path(directory) / layout_name(*one) for one in layouts}
    known = {one: place for one, place in places.items() if place.is_dir()}
    if not known:
        names = ", ".join(layout_name(*one) for one in layouts)
        raise UsageError(f"{directory} has no directory for any layout, expected traces in {names}: put them there")
    try:
        return {one: {"share": communication_share(place), "source": "profiler"} for one, place in known.items()}
    except TraceError as error:
        raise UsageError(str(error)) from error


def _begun(
    arguments: argparse.Namespace, cluster: Cluster, kept: Kept, layouts: Sequence[tuple[int, int]]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return a new run or an interrupted one with the same parameters, and any interrupted run that it replaces."""
    workload = one_point(
        cluster,
        (arguments.workload or [WORKLOAD])[0],
        arguments.streams[0] if arguments.streams else None,
        arguments.repeats,
        conversations=bool(arguments.conversations),
    )
    name, started = new_run()
    document = new_document(
        Run(
            cluster.name,
            name,
            started,
            DIRECTORY,
            layout_rungs(layouts),
            shown(workload),
            cluster.configuration["plan_sha256"],
            cluster.serving,
            compare=True,
        )
    )
    former = kept.newest(RUNNING)
    if former is not None and not arguments.new and _same(former, document):
        return former, None
    if arguments.resume:
        raise UsageError(f"{kept.directory} has no unfinished run of this plan and load: leave --resume out")
    return document, former


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    def asked(document: Mapping[str, Any]) -> Any:
        changes = [rung["change"] for rung in document["rungs"]]
        return changes, document["workload"], document["journal"]["plan_sha256"]

    return bool(asked(one) == asked(other))


def _problem(trial: PlaybookTrial, change: Mapping[str, Any]) -> str:
    plan = trial.planned(change)
    return "; ".join(one["found"] for one in [*plan.errors, *plan.missing_inputs])


def _replicas(trial: PlaybookTrial, change: Mapping[str, Any]) -> int:
    """Return the number of servers in the plan with this layout; each has its own GPUs."""
    return int(configuration_of(trial.planned(change).hosts)["replicas"])


def _share(trial: PlaybookTrial, change: Mapping[str, Any], workload: Mapping[str, Any]) -> float | None:
    """Return the estimated share of communication in a step; None with pipelines, which the estimate does not cover."""
    if change["pipeline_parallel"] > 1:
        return None
    return expected(trial.planned(change).assessment.served, workload, streams=workload["streams"]).communication_share


def _show(arguments: argparse.Namespace, document: Mapping[str, Any], cluster: Cluster) -> None:
    """Print the figures and their analysis, which is computed only here."""
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench import scaling  # noqa: PLC0415 - only here

    analysis = scaling.analyse(document, _prices(arguments, cluster), load_envelopes(cluster.catalogs)[0])
    if arguments.plot:
        Path(arguments.plot).write_text(scaling.plot(analysis) + "\n", encoding="utf-8")
    if arguments.json:
        sys.stdout.write(json.dumps({**document, "analysis": analysis}, indent=2) + "\n")
    else:
        print("\n".join(analysis["lines"]))


def _prices(arguments: argparse.Namespace, cluster: Cluster) -> dict[str, Any]:
    """Return the hourly price of a GPU from the option, the inventory or the catalog."""
    own = arguments.gpu_hour
    if own is None:
        own = cluster.plan.served.get("price_per_gpu_hour")
    usual = price_of(load_prices(cluster.catalogs)[0], "gpu_hour", str(cluster.configuration["hardware"]), "USD")
    if own is not None or usual is None:
        return {"gpu_hour": own, "currency": None}
    return {"gpu_hour": usual.value, "currency": "USD"}
