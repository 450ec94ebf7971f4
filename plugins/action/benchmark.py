# SPDX-License-Identifier: Apache-2.0
"""The action `benchmark`: plan a benchmark, run its measurements, and store the figures on the controller."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.module_utils.benchmark.runner import DIRECTORY as ON_HOST
from ansible_collections.firstlight.cluster.plugins.module_utils.benchmark.runner import INSIDE
from ansible_collections.firstlight.cluster.plugins.module_utils.benchmark.usage import hit_rate, silent
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import SERVER_ENVIRONMENT_PATH
from ansible_collections.firstlight.cluster.plugins.modules.benchmark import ARGUMENTS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.client import (
    ENDPOINT,
    Client,
    Served,
    choose_client,
    client_argv,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.conversations import (
    LARGEST,
    prompts_for,
    read_conversations,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.limits import uncounted
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.points import (
    Point,
    is_over,
    left_words,
    new_seed,
    points_of,
    remaining,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.results import (
    DIRECTORY,
    add_run,
    configuration_of,
    is_complete,
    new_document,
    problems_of,
    same_benchmark,
    seeds_of,
    table_lines,
    unfinished,
    without_problems,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import (
    CONVERSATIONS,
    Workload,
    WorkloadError,
    chosen,
    load_workloads,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import (
    ClientHelp,
    NoEndpointError,
    planned_help,
    state_directory,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.bench.cluster import (
    catalogs_of,
    cluster_of,
    head_of,
    now,
    plans_of,
    run_name,
    server_url,
    sources_of,
    unusable_place,
    write_document,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.endpoint import DEFAULTS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.notes import note

ON_THE_HOST = ("clean", "reach", "usage", "metrics")


class ActionModule(ActionBase):
    """Starts a benchmark, measures and records its points, and finishes it."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the requested action; errors that the operator can fix become a single message."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(ARGUMENTS)
        try:
            if arguments["action"] in ON_THE_HOST:
                found = self._execute_module(module_args=dict(self._task.args), task_vars=task_vars)
            else:
                found = getattr(self, f"_{arguments['action']}")(arguments, task_vars or {})
        except (WorkloadError, CatalogError, NoEndpointError) as error:
            found = {"failed": True, "msg": str(error)}
        except OSError as error:
            found = {"failed": True, "msg": unusable_place(error, "figures")}
        return {**result, "changed": False, **found}

    def _prepare(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return the endpoint's URL and the certificate to verify it with."""
        plans = plans_of(variables)
        head = head_of(plans)
        if arguments["through"] == "server" or not plans[head]["roles"].get("endpoint"):
            return {"url": "", "authority": ""}
        help_ = _help(plans, head, variables, arguments["key"])
        return {"url": help_.url.removesuffix("/v1"), "authority": _authority(help_)}

    def _begin(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return what to measure and from where, without the points that an earlier run has measured."""
        plans = plans_of(variables)
        configuration = configuration_of(plans)
        head, cluster = head_of(plans), cluster_of(plans, variables)
        # Record the loaded driver, not just the planned one: a factory-installed driver is not pinned.
        loaded = (variables["hostvars"][head].get("bench_cleaned") or {}).get("driver")
        configuration["driver"] = loaded or configuration["driver"]
        names = sorted({cluster, configuration["served_name"]})
        if arguments["in_service"] and arguments["in_service"] not in names:
            raise WorkloadError(
                f"--in-service is {arguments['in_service']!r}, expected the name of the cluster or of its model, "
                f"{' or '.join(names)}: name the server that you want to measure while people use it"
            )
        workloads = self._workloads(arguments, variables, configuration["max_model_len"])
        reached = {name: _reached(variables["hostvars"][name]) for name in plans}
        address = arguments["benchmark"].get("url") or None
        client = choose_client(
            head, list(plans), server_url(plans[head]), address, _known(reached), arguments["through"]
        )
        began = now()
        document = new_document(cluster, run_name(began), began.isoformat(), configuration, client.shown(), workloads)
        place = _directory(plans, variables)
        former = [one for one in unfinished(place) if same_benchmark(one, document)]
        if arguments["resume"] == "always" and not former:
            raise WorkloadError(
                f"{place} has no unfinished benchmark of this configuration and these workloads, expected one "
                "to resume: leave --resume out"
            )
        resumed = bool(former) and arguments["resume"] != "never"
        document = without_problems(former[0]) if resumed else document
        points = remaining(points_of(workloads), document)
        benchmark = {
            "path": str(place / f"{document['run']}.json"),
            "run": document["run"],
            "client": dataclasses.asdict(client),
            "points": [dataclasses.asdict(point) for point in points],
            "names": [point.words for point in points],
            "workloads": {one.name: dataclasses.asdict(one) for one in workloads},
            "conversations": arguments["conversations"],
            "key": arguments["key"],
            "in_service": bool(arguments["in_service"]),
            "server_url": server_url(plans[head]),
            "resumed": resumed,
        }
        if not self._task.check_mode:
            write_document(benchmark["path"], document)
        return {"benchmark": benchmark, "lines": _begin_lines(benchmark, client)}

    def _workloads(self, arguments: dict[str, Any], variables: Mapping[str, Any], context: Any) -> list[Workload]:
        known = load_workloads(catalogs_of(variables))
        if arguments["conversations"]:
            _conversations(arguments["conversations"])
        return chosen(
            known,
            arguments["workloads"],
            streams=arguments["streams"],
            rates=arguments["rates"],
            repeats=arguments["repeats"],
            context=context if isinstance(context, int) else None,
            conversations=bool(arguments["conversations"]),
        )

    def _measure(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Measure one point from the host of this task. The key is passed to the module, never through a variable."""
        plans, benchmark = plans_of(variables), arguments["benchmark"]
        head, client = head_of(plans), Client(**benchmark["client"])
        points = [Point(**point) for point in benchmark["points"]]
        point = points[arguments["index"]]
        workload = Workload(**benchmark["workloads"][point.workload])
        document = _read(benchmark["path"])
        seed = new_seed(secrets.randbelow, seeds_of(document))
        server = plans[head]["roles"]["inference_server"]
        venv = server["inference_server_runtime"] == "venv"
        # A unique name: a killed run that still cleans up must not remove this one's files.
        name = f"{benchmark['run']}-{seed:08x}"
        place = f"{ON_HOST}/{name}" if venv else INSIDE
        served = _served(plans[head])
        asked: dict[str, Any] = {
            "action": "measure",
            "run": name,
            "engine": served.engine,
            "argv": client_argv(served, client, workload, point, seed, place),
            "runtime": server["inference_server_runtime"],
            "image": server["inference_server_image"],
            "writable": list((server.get("inference_server_container") or {}).get("writable") or ()),
            "model_directory": server["inference_server_model_directory"],
            "requests": point.requests,
            "targets": dict(workload.targets or {}),
            "limit": workload.limit_s,
            "stall": workload.stall_s,
        }
        if workload.prompts == CONVERSATIONS:
            asked["prompts"] = prompts_for(_conversations(benchmark["conversations"]), point.requests, seed)
        if client.through == ENDPOINT:
            help_ = _help(plans, head, variables, benchmark["key"])
            asked["api_key"] = _kept(help_.files.key(help_.key)).strip()
            asked["authority"] = _authority(help_)
        else:
            asked["key_path"] = SERVER_ENVIRONMENT_PATH
        started = now().isoformat()
        speaker = str(variables.get("inventory_hostname", ""))
        note(speaker, f"{point.words} ({left_words(document, points, arguments['index'])})")
        answer = self._execute_module(module_args=asked, task_vars=variables)
        note(speaker, "")
        if answer.get("failed") or answer.get("unreachable"):
            return {key: answer[key] for key in ("failed", "unreachable", "msg") if key in answer}
        return {"measured": {"seed": seed, "started": started, **answer["measured"]}}

    def _record(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Record one run, together with the servers' metrics before and after it."""
        benchmark = arguments["benchmark"]
        points = [Point(**point) for point in benchmark["points"]]
        run = dict(arguments["measured"])
        stop = bool(run.pop("stop"))
        point = points[arguments["index"]]
        run["prefix_hit_rate"] = hit_rate(arguments["before"], arguments["after"], point.requests, point.warmups)
        run["problem"] = run["problem"] or uncounted(run)
        dead = silent(arguments["after"])
        if dead and run["problem"]:
            run["problem"], stop = f"{run['problem']}; the server died or hangs: {dead}", True
        document = add_run(_read(benchmark["path"]), point, run)
        write_document(benchmark["path"], document)
        told = f"{point.words}: {_run_words(run)}"
        return {"line": told, "stop": stop, "problem": run["problem"] or ""}

    def _finish(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Finish the benchmark and return its results."""
        path = arguments["benchmark"]["path"]
        document = _read(path)
        if is_over([Point(**point) for point in arguments["benchmark"]["points"]], document):
            document["finished"] = now().isoformat()
            write_document(path, document)
        if arguments["document"]:
            write_document(os.path.expanduser(arguments["document"]), document)
        problems = problems_of(document)
        lines = [*table_lines(document), *(f"does not count: {one}" for one in problems), f"written to {path}"]
        return {"lines": lines, "complete": is_complete(document), "problems": problems}


def _directory(plans: Mapping[str, Mapping[str, Any]], variables: Mapping[str, Any]) -> Path:
    """Return the directory of this cluster's figures."""
    return state_directory(cluster_of(plans, variables)) / DIRECTORY


def _help(plans: Mapping[str, Mapping[str, Any]], head: str, variables: Mapping[str, Any], key: str) -> ClientHelp:
    """Return how to reach the endpoint, with the key of the highest rate limit unless one is named."""
    roles = plans[head]["roles"]
    usual = roles["endpoint"].get("endpoint_rate", DEFAULTS["endpoint_rate"])
    listed = [(one.get("rate", usual) or float("inf"), str(one["name"])) for one in roles["endpoint"]["endpoint_keys"]]
    name = key or (max(listed, key=lambda one: one[0])[1] if listed else "")
    return planned_help(roles, head, sources_of(variables), key=name)


def _authority(help_: ClientHelp) -> str:
    return _kept(help_.files.authority) if help_.own_authority else ""


def _kept(path: Path) -> str:
    """Read a file that the bring-up stored on the controller. Raises WorkloadError if it is missing."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise WorkloadError(
            f"{path} is not there, expected what clients of the endpoint need: run site.yml from this "
            "machine, which fetches it, or measure --through server"
        ) from error


def _served(plan: Mapping[str, Any]) -> Served:
    server, engine = plan["roles"]["inference_server"], str(plan["cluster"]["engine"])
    program = {"sglang": "python3"}.get(engine, "vllm")
    if server["inference_server_runtime"] == "venv":
        program = f"{server['inference_server_venv']}/bin/{program}"
    return Served(engine, server["inference_server_served_name"], server["inference_server_model_directory"], program)


def _reached(variables: Mapping[str, Any]) -> str | None:
    answer = variables.get("bench_reached") or {}
    return answer.get("problem") if isinstance(answer, Mapping) else None


def _known(reached: Mapping[str, str | None]) -> dict[str, str]:
    return {name: why for name, why in reached.items() if why is not None}


def _conversations(path: str) -> list[tuple[str, str]]:
    place = Path(path).expanduser()
    if place.stat().st_size > LARGEST:
        raise WorkloadError(f"{path} has more than {LARGEST} bytes: give a part of it")
    return read_conversations(place.read_text(encoding="utf-8", errors="replace"), path)


def _begin_lines(benchmark: Mapping[str, Any], client: Client) -> list[str]:
    lines = [
        f"{len(benchmark['points'])} runs from {client.host}, through the {client.through} at {client.url}",
        *(["with the figures of an interrupted benchmark, which is resumed"] if benchmark["resumed"] else []),
        *(f"  {name}" for name in benchmark["names"]),
    ]
    return lines if benchmark["points"] else [f"everything is measured: see {benchmark['path']}"]


def _run_words(run: Mapping[str, Any]) -> str:
    if run["problem"]:
        return f"does not count: {run['problem']}"
    return f"{run['output_tokens_per_s']:.1f} tok/s, TTFT p50 {run['ttft_ms']['50']:.0f} ms, {run['seconds']:.0f} s"


def _read(path: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return document
