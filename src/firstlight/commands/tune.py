# SPDX-License-Identifier: Apache-2.0
"""`firstlight tune`: try serving settings one at a time, and keep those that are faster with equally good answers."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
from typing import Any

from firstlight.errors import DONE, INTERRUPTED, FirstlightError, UsageError
from firstlight.options import add_host_options, add_json_option


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "tune",
        description="Tries other serving settings, one at a time: each is served and measured, its answers are "
        "checked, and it is kept only if it is faster than the last one by more than the runs differ, meets the "
        "targets and answers as well. The server restarts for each of them. At the end it serves what was kept, and "
        "the command shows what to write into the inventory, and the rollback. An interrupted run continues with "
        "--resume, or is undone with --restore.",
    )
    parser.set_defaults(run=run)
    add_host_options(parser)
    add_json_option(parser)
    parser.add_argument(
        "--ladder", metavar="NAME|FILE", help="what to try: a ladder of the catalog, or a file (default: default)"
    )
    parser.add_argument(
        "--workload", metavar="NAME", help="a workload of the catalog (default: the ladder's own, or chat)"
    )
    parser.add_argument("--streams", type=_count, metavar="N", help="number of concurrent requests, for all settings")
    parser.add_argument(
        "--repeats", type=_repeats, metavar="N", help="how often each is measured, at least 2 (default: 3)"
    )
    parser.add_argument(
        "--conversations", default="", metavar="FILE", help="for workloads with conversations: ShareGPT or JSONL"
    )
    parser.add_argument(
        "--in-service", default="", metavar="NAME", help="tune even if it is in use: the name of the cluster or model"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--resume", action="store_true", help="continue an interrupted run")
    how.add_argument("--restore", action="store_true", help="serve the settings from before the last run again")
    how.add_argument("--check", action="store_true", help="only show what would be tried; no host is contacted")


class _CutOffError(FirstlightError):
    """The run was cut off: repeating the same command would be refused."""

    status = INTERRUPTED


def run(arguments: argparse.Namespace) -> int:
    """Begin, resume or restore a run."""
    from firstlight.trials import Kept, read_cluster

    if arguments.resume and (arguments.ladder or arguments.workload or arguments.streams or arguments.repeats):
        raise UsageError(
            "--resume continues with the options of that run: leave the other options out, or start a new run"
        )
    cluster = read_cluster(arguments)
    kept = Kept(cluster.name, "tune")
    if arguments.restore:
        return _restore(arguments, cluster, kept)
    document = _resumed(cluster, kept) if arguments.resume else _begun(arguments, cluster, kept)
    if not arguments.check:
        document = _climb(arguments, kept, document)
    if arguments.json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        from firstlight.tune_view import show

        show(document)
    return DONE


def _begun(arguments: argparse.Namespace, cluster: Any, kept: Any) -> dict[str, Any]:
    """Return the document of a new run; with --check, only planned."""
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.journal import RUNNING, Run, new_document
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.rungs import USUAL, load_ladder

    from firstlight.trials import new_run, one_point, serving_place, shown

    cut = kept.newest(RUNNING)
    if cut and not arguments.check:
        raise UsageError(
            f"{kept.path(cut)} is an interrupted run, expected none: continue it with "
            f"`{_again(arguments, '--resume')}`, or undo it with `{_again(arguments, '--restore')}`"
        )
    try:
        ladder = load_ladder(arguments.ladder or USUAL, cluster.catalogs)
    except CatalogError as error:
        raise UsageError(str(error)) from error
    hardware = cluster.configuration["hardware"]
    if ladder.hardware and hardware not in ladder.hardware:
        raise UsageError(
            f"ladder {ladder.name} is for {', '.join(ladder.hardware)}, and this is {hardware}: choose another one"
        )
    workload = one_point(
        cluster,
        arguments.workload or ladder.workload or "chat",
        arguments.streams or (None if arguments.workload else ladder.streams),
        arguments.repeats,
        conversations=bool(arguments.conversations),
    )
    # A catalog workload may be measured just once, but a single run has no spread to compare with.
    workload = dataclasses.replace(workload, repeats=max(2, workload.repeats))
    if arguments.streams:
        ladder = ladder.at_fixed_load()
    name, started = new_run()
    document = new_document(
        Run(
            cluster.name,
            name,
            started,
            ladder.name,
            ladder.rungs,
            shown(workload),
            cluster.configuration["plan_sha256"],
            cluster.serving,
            start=ladder.baseline,
            place=serving_place(arguments.inventory),
            restore=_again(arguments, "--restore"),
        )
    )
    return _on_paper(arguments, kept, document) if arguments.check else document


def _on_paper(arguments: argparse.Namespace, kept: Any, document: dict[str, Any]) -> dict[str, Any]:
    """Plan each rung on top of the baseline to see which are legal; which ones would be kept is not known yet."""
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.journal import PLAN, Step, record
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.rungs import merged, settings
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.trial import RungError

    trial = _trial(arguments, kept, document)
    start = document["journal"]["start"]
    _plan_start(trial, document)
    for number, rung in enumerate(document["rungs"]):
        wanted = merged(start, rung["change"])
        try:
            trial.plan(settings(wanted))
        except RungError as error:
            document = record(document, Step(PLAN, wanted, number), None, str(error))
    return document


def _plan_start(trial: Any, document: dict[str, Any]) -> None:
    """Raises UsageError if the ladder's baseline is not legal."""
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.rungs import settings
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.trial import RungError

    try:
        trial.plan(settings(document["journal"]["start"]))
    except RungError as error:
        raise UsageError(f"the baseline of ladder {document['ladder']} is refused: {error}") from error


def _resumed(cluster: Any, kept: Any) -> dict[str, Any]:
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.journal import RUNNING

    document: dict[str, Any] | None = kept.newest(RUNNING)
    if document is None:
        raise UsageError(f"{kept.directory} has no interrupted run, expected one: leave --resume out")
    if document["journal"]["plan_sha256"] != cluster.configuration["plan_sha256"]:
        raise UsageError(
            f"the plan is not the one that {kept.path(document)} began with, so its figures are no longer valid: "
            "restore the inventory, or undo the run with --restore and start a new one"
        )
    return document


def _trial(arguments: argparse.Namespace, kept: Any, document: dict[str, Any]) -> Any:
    import os

    from firstlight.trials import PlaybookTrial

    bench = {
        # Figures of an earlier run do not apply to this one.
        "bench_resume": "auto" if arguments.resume else "never",
        "bench_in_service": arguments.in_service,
        "bench_conversations": os.path.abspath(arguments.conversations) if arguments.conversations else "",
    }
    given = {name: value for name, value in bench.items() if value}
    return PlaybookTrial(arguments, document["journal"]["former"], document["workload"], kept.answers(document), given)


def _climb(arguments: argparse.Namespace, kept: Any, document: dict[str, Any]) -> dict[str, Any]:
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.trial import TrialError, run_trials

    from firstlight.trials import tell

    trial = _trial(arguments, kept, document)
    began = arguments.resume
    if not began and document["journal"]["start"]:
        _plan_start(trial, document)
    try:
        trial.check(resumed=arguments.resume)
        began = True
        kept.save(document)
        return run_trials(document, trial, kept.save, tell)
    except KeyboardInterrupt:
        if not began:
            raise
        ways = [_again(arguments, option) for option in ("--resume", "--restore")]
        raise _CutOffError("interrupted: continue with `{}`, or roll back with `{}`".format(*ways)) from None
    except TrialError as error:
        if not began:
            raise FirstlightError(f"{error}. Nothing was changed") from error
        raise FirstlightError(
            f"{error}. The measurements are kept in {kept.path(document)}: fix the reported cause and continue with "
            f"`{_again(arguments, '--resume')}`, or roll back with `{_again(arguments, '--restore')}`"
        ) from error


def _restore(arguments: argparse.Namespace, cluster: Any, kept: Any) -> int:
    """Serve the settings from before the last run, even if the inventory has changed since."""
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.journal import (
        FORMER,
        RUNNING,
        TUNED,
        restored,
    )
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.trial import RungError

    from firstlight.trials import PlaybookTrial, new_run, tell

    document = kept.newest(RUNNING, TUNED, FORMER)
    if document is None:
        raise UsageError(
            f"{kept.directory} has no run that changed what serves, expected one: there is nothing to restore"
        )
    if document["journal"]["state"] == FORMER:
        raise UsageError(
            f"{kept.path(document)} is the last run, and the settings from before it are served again, expected a run "
            "that changed what serves: there is nothing to restore"
        )
    former = document["journal"]["former"]
    keys = [*former, *(key for key in cluster.serving if key not in former)]
    change = {key: former.get(key) for key in keys if former.get(key) != cluster.serving.get(key)}
    tell("serve the former settings")
    try:
        PlaybookTrial(arguments, cluster.serving, document["workload"], kept.answers(document)).serve(change)
    except RungError as error:
        raise FirstlightError(f"the former settings were not restored: {error}. Run the same command again") from error
    document = restored(document, new_run()[1])
    kept.save(document)
    tell("the former settings are served again")
    if arguments.json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return DONE


def _again(arguments: argparse.Namespace, option: str) -> str:
    """Return the command for another step of the same run, without extra variables, as they may contain secrets."""
    words = ["firstlight", "tune", *(word for one in arguments.inventory for word in ("-i", one)), option]
    if option == "--resume":
        measured = (("--in-service", arguments.in_service), ("--conversations", arguments.conversations))
        words += [word for name, value in measured if value for word in (name, value)]
    return shlex.join(words) + (" -e ..." if arguments.extra_vars else "")


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 100000")
    return int(text)


def _repeats(text: str) -> int:
    if _count(text) < 2:
        raise argparse.ArgumentTypeError("one run has no spread to compare with, expected at least 2")
    return int(text)
