# SPDX-License-Identifier: Apache-2.0
"""Try serving settings on a cluster: each is served, measured and queried with the regular playbooks."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import secrets
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# First: it sets up Ansible's collection import hook.
from .inventory import plan_inventory, read_inventory

# isort: split
from ansible_collections.firstlight.cluster.plugins.module_utils.host import write_file
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.points import points_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.results import configuration_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.verdict import unbelievable
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import (
    Workload,
    WorkloadError,
    chosen,
    load_workloads,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import cluster_name, state_directory
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors, explain_errors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planning import catalog_directories
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.rungs import overrides
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.trial import RungError, TrialError

from .errors import DONE, INTERRUPTED, FirstlightError, UsageError
from .playbooks import playbook_words, run_playbook

Document = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The parts of an inventory that trials need."""

    name: str
    plan: ClusterPlan
    serving: Mapping[str, Any]
    catalogs: Sequence[str]

    @property
    def configuration(self) -> dict[str, Any]:
        return configuration_of(self.plan.hosts)


def read_cluster(arguments: argparse.Namespace) -> Cluster:
    """Read and plan the inventory. Raises UsageError if the plan is refused, as nothing can be tried then."""
    plan = _plan(arguments, {})
    if plan.errors or plan.missing_inputs:
        raise UsageError(explain_errors(plan.errors, plan.missing_inputs))
    hosts = read_inventory(
        arguments.inventory,
        ROLES,
        extra_vars=arguments.extra_vars,
        vault_password_files=arguments.vault_password_file,
    )
    intent = hosts[0].intent
    front = plan.hosts[plan.cluster["head"]]["roles"].get("endpoint") or {}
    name = str(front.get("endpoint_cluster") or "") or cluster_name(arguments.inventory)
    # Convert to plain values, without the origin that Ansible attaches, because they are kept and written.
    serving = json.loads(json.dumps(intent.get("firstlight_serving") or {}))
    return Cluster(name, plan, serving, catalog_directories(intent, PlanErrors()))


def _plan(arguments: argparse.Namespace, serving: Mapping[str, Any]) -> ClusterPlan:
    more = [json.dumps({"plan_serving": serving})] if serving else []
    return plan_inventory(
        arguments.inventory,
        extra_vars=[*arguments.extra_vars, *more],
        vault_password_files=arguments.vault_password_file,
    )


def one_point(
    cluster: Cluster, name: str, streams: int | None, repeats: int | None, *, conversations: bool = False
) -> Workload:
    """Return a workload at one concurrency: the requested one, or the workload's largest. Raises UsageError."""
    context = cluster.configuration["max_model_len"]
    try:
        (workload,) = chosen(
            load_workloads(cluster.catalogs),
            [name],
            repeats=repeats,
            context=context if isinstance(context, int) else None,
            conversations=conversations,
        )
    except WorkloadError as error:
        raise UsageError(str(error)) from error
    load = streams or max(workload.streams, default=0)
    if not load:
        raise UsageError(
            f"workload {name} has rates but no streams: at a fixed rate a faster server gives no more tokens; add "
            "--streams N"
        )
    return dataclasses.replace(workload, streams=(load,), rates=())


def shown(workload: Workload) -> Document:
    """Return a workload at one point as a document."""
    point = points_of([workload])[0]
    load = {"streams": point.streams, "warmup": point.warmups, "requests": point.requests, "repeats": workload.repeats}
    return {**workload.shown(), **load}


def _tokens(workload: Mapping[str, Any]) -> int:
    """Return the maximum context length of a request, as far as it is known."""
    return sum(int(workload.get(part) or 0) for part in ("prefix", "input", "output"))


class PlaybookTrial:
    """Trials on the cluster of an inventory. `bench` has extra variables for playbooks/bench.yml."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        former: Mapping[str, Any],
        workload: Mapping[str, Any],
        answers: Path,
        bench: Mapping[str, Any] | None = None,
    ) -> None:
        self._arguments, self._former, self._workload, self._answers = arguments, former, workload, answers
        self._bench = dict(bench or {})
        self._plans: dict[str, ClusterPlan] = {}

    def planned(self, change: Mapping[str, Any]) -> ClusterPlan:
        """Return the plan with a change, cached."""
        key = json.dumps(change, sort_keys=True)
        if key not in self._plans:
            self._plans[key] = _plan(self._arguments, overrides(self._former, change))
        return self._plans[key]

    def plan(self, change: Mapping[str, Any]) -> str:
        plan = self.planned(change)
        refused = [*plan.errors, *plan.missing_inputs]
        if refused:
            more = f" (and {len(refused) - 1} more)" if refused[1:] else ""
            raise RungError(f"{refused[0]['found']}: {refused[0]['rule']}{more}")
        configuration = configuration_of(plan.hosts)
        context, tokens = configuration["max_model_len"], _tokens(self._workload)
        if isinstance(context, int) and tokens > context:
            raise RungError(
                f"workload {self._workload['name']} has {tokens} tokens in prompt and answer, expected at most "
                f"{context}, the context of this configuration"
            )
        return str(configuration["plan_sha256"])

    def serve(self, change: Mapping[str, Any]) -> None:
        why = self._play("serve.yml", change, {})
        if why:
            raise RungError(f"it does not serve: {why}")

    def check(self, *, resumed: bool = False) -> None:
        """Check whether measuring is allowed, before anything restarts. Raises TrialError.

        An interrupted run may have left a server that is down, and a client that is still sending: the client is
        removed.
        """
        asked = self._asked(int(self._workload["streams"]))
        if resumed:
            # "never": do not look for a complete measurement.
            why = self._play("bench.yml", {}, {**asked, "bench_look": True, "bench_resume": "never"})
        else:
            why = self._play("bench.yml", {}, asked, ["--check"])
        if why:
            raise TrialError(why)

    def measure(self, change: Mapping[str, Any], streams: int) -> Document:
        with tempfile.TemporaryDirectory(prefix="firstlight-") as scratch:
            file, verdict = Path(scratch) / "document.json", Path(scratch) / "verdict.json"
            asked = {**self._asked(streams), "bench_document": str(file), "bench_verdict_document": str(verdict)}
            why = self._play("bench.yml", change, asked)
            document = _read(file)
        if document is None:
            # The server was not queried: somebody uses it, or another run works on the cluster.
            raise TrialError(f"nothing was measured: {why or 'there are no figures'}")
        (workload,) = document["workloads"]
        (point,) = workload["points"]
        wrong = unbelievable(workload, point)
        if wrong:
            raise RungError(wrong)
        problems = [str(run["problem"]) for run in point["runs"] if run["problem"]]
        counted = len(point["runs"]) - len(problems)
        # A single run has no spread to compare with; and a failure that ended the playbook affected the server.
        if problems and (why or counted < min(2, int(self._workload["repeats"]))):
            raise RungError(f"{counted} of {self._workload['repeats']} runs count: {problems[-1]}")
        found: Document = point["summary"]
        return found

    def _asked(self, streams: int) -> Document:
        same = {"bench_workloads": [self._workload["name"]], "bench_repeats": self._workload["repeats"]}
        return {**same, "bench_streams": [streams], **self._bench}

    def keep_answers(self, change: Mapping[str, Any]) -> bool:
        # Asked twice, so that the engine's own variation is not blamed on a rung.
        asked = {"quality_baseline": True, "quality_answers_document": str(self._answers)}
        why = self._play("quality.yml", change, asked)
        why = why or str((_read(self._answers) or {"problem": "none were written"}).get("problem") or "")
        if why:
            raise TrialError(f"the answers to compare with could not be obtained: {why}")
        return True

    def assess(self, change: Mapping[str, Any]) -> Document | None:
        with tempfile.TemporaryDirectory(prefix="firstlight-") as scratch:
            file = Path(scratch) / "assessment.json"
            asked = {"quality_reference": str(self._answers), "quality_document": str(file)}
            why = self._play("quality.yml", change, asked)
            # Worse answers may fail the playbook; its document has the details.
            return _read(file) or {"format": 1, "status": "could_not_ask", "reasons": [why or "nothing was written"]}

    def _play(self, playbook: str, change: Mapping[str, Any], own: Mapping[str, Any], more: Sequence[str] = ()) -> str:
        """Run a playbook on the inventory with a change; return why it failed, or an empty string."""
        told = {**own, "plan_serving": overrides(self._former, change)}
        with tempfile.TemporaryDirectory(prefix="firstlight-") as scratch:
            timings = Path(scratch) / "timings.json"
            status = run_playbook(
                playbook_words(playbook, self._arguments, told, more),
                stdout=sys.stderr if self._arguments.json else None,
                own={"FIRSTLIGHT_TIMINGS": str(timings)},
            )
            reasons = (_read(timings) or {}).get("reasons") or {}
        if status == DONE:
            return ""
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        said: dict[str, list[str]] = {}
        for host, reason in reasons.items():
            said.setdefault(str(reason), []).append(str(host))
        return "; ".join(f"{', '.join(hosts)}: {reason}" for reason, hosts in said.items()) or f"{playbook} failed"


def _read(path: Path) -> Document | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found if isinstance(found, dict) else None


class Kept:
    """The documents of one kind that the controller keeps for a cluster."""

    def __init__(self, cluster: str, kind: str) -> None:
        self.directory = state_directory(cluster) / kind

    def path(self, document: Mapping[str, Any]) -> Path:
        return self.directory / f"{document['run']}.json"

    def answers(self, document: Mapping[str, Any]) -> Path:
        """Return the path of the answers that a run is compared with."""
        return self.directory / "answers" / f"{document['run']}.json"

    def save(self, document: Mapping[str, Any]) -> None:
        """Write the document atomically, readable by its owner only."""
        for place in (self.directory, self.answers(document).parent):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(str(self.path(document)), json.dumps(document, indent=1) + "\n", 0o600)

    def newest(self, *states: str) -> Document | None:
        """Return the newest run in one of these states. Raises FirstlightError for a file that cannot be read."""
        for path in sorted(self.directory.glob("*.json"), reverse=True):
            try:
                document = _read(path)
                if document and document["journal"]["state"] in states:
                    return document
            except (ValueError, LookupError, TypeError) as error:
                raise FirstlightError(f"{path} cannot be read ({error!r}), expected a journal: move it away") from error
        return None


def new_run() -> tuple[str, str]:
    """Return a name for a run and its start time."""
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}", now.isoformat()


def tell(line: str) -> None:
    """Print a line of progress to stderr, as standard output is for the result."""
    print(f"==> {line}" if not line.startswith(" ") else line, file=sys.stderr, flush=True)


def serving_place(sources: Sequence[str]) -> str:
    """Return the inventory file that sets firstlight_serving, or the name of the variable if there is none."""
    for source in (Path(source) for source in sources if "," not in source):
        root = source if source.is_dir() else source.parent
        for path in (source, *sorted(root.rglob("*.yml")), *sorted(root.rglob("*.yaml"))):
            if path.is_file() and any(
                line.startswith("firstlight_serving:") for line in path.read_text(errors="replace").splitlines()
            ):
                return str(path)
    return "firstlight_serving"
