# SPDX-License-Identifier: Apache-2.0
"""Build the document of a report: one plain structure of a cluster's records, which the page shows. Pure functions."""

from __future__ import annotations

import base64
import binascii
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt_history import shown
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report import compare
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.checks import burn_in_of, rows_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.materials import (
    bill_of,
    links_of,
    loads_of,
    now_of,
    pairs_of,
    topology_of,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.plans import is_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.values import (
    at,
    cleaned,
    listed,
    mapping,
    number,
    words,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.verdict import evaluate
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.status import status_document

FORMAT = 1
KIND = "firstlight report"
MOST_CHANGES = 20
"""Maximum number of latest package changes shown per host."""
BANDS = {"output_tokens_per_s": None, "ttft_ms": "50", "tpot_ms": "50"}
"""Figures whose range over runs is shown as a band, with the percentile used."""
_PLANNED = ("hardware", "stack", "model", "engine", "engine_version", "profile", "head", "size")
_SERVED = ("repository", "revision", "image", "tensor_parallel", "pipeline_parallel", "replicas", "context")
_CONFIGURATION = ("model", "revision", "engine", "engine_version", "image", "stack", "driver", "gpus", "argv")
_QUALITY = ("asked", "status", "prompts", "exact_match", "token_agreement", "bleu", "rouge_l")
_STARTUP = ("read_s", "compile_s", "limit_s", "first_s", "later_s", "disk_read_gb_s", "disk_read_from")

Document = dict[str, Any]


@dataclass(frozen=True)
class Inputs:
    """Everything a report is made from."""

    cluster: str
    run: str
    made: str
    version: str
    inventory: Sequence[str]
    plan: Mapping[str, Any]
    """The plan's document, as `firstlight plan --json` prints it."""
    known_plans: Sequence[str]
    """SHA-256 digests by which measurements identify the plan: as planned, then with the ports that were found."""
    hardware: Mapping[str, Any] = field(default_factory=dict)
    """The catalog's hardware entry, with its sources."""
    gpu_verify: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Variables of role gpu_verify by host."""
    gathered: Mapping[str, Any] = field(default_factory=dict)
    """The data that playbooks/report.yml collected."""
    bench: Mapping[str, Any] | None = None
    bench_verdict: Mapping[str, Any] | None = None
    tune: Mapping[str, Any] | None = None
    layouts: Mapping[str, Any] | None = None
    quality: Mapping[str, Any] | None = None
    accepted: Mapping[str, Any] | None = None
    """The document of the last accepted report."""
    serials: bool = False


def make_document(given: Inputs) -> Document:
    """Build the report, with its verdict and the differences from the last accepted one."""
    plan, hosts = given.plan, mapping(given.gathered.get("hosts"))
    hardware = str(at(plan, "cluster", "hardware"))
    accepted_records, runs = burn_in_of(
        {host: mapping(hosts.get(host)) for host in plan["hosts"]},
        {host: _tried(plan, host, mapping(given.gpu_verify.get(host))) for host in plan["hosts"]},
        next((mapping(one.get("gpu_verify_power")) for one in given.gpu_verify.values()), {}),
    )
    records = {
        host: [
            *(one for one in listed(mapping(hosts.get(host)).get("records")) if isinstance(one, Mapping)),
            *(accepted_records.get(host) or ()),
        ]
        or [_silent(host)]
        for host in plan["hosts"]
    }
    rows, not_applicable = rows_of(
        records, profile=hardware, stack=str(at(plan, "cluster", "stack")), hosts=list(plan["hosts"])
    )
    status = status_document(
        {host: mapping(mapping(hosts.get(host)).get("serving")) for host in plan["hosts"]},
        str(at(plan, "cluster", "head")),
        str(given.gathered.get("at") or given.made),
        at(plan, "served", "targets"),
    )
    document: Document = {
        "format": FORMAT,
        "kind": KIND,
        "cluster": given.cluster,
        "run": given.run,
        "made": given.made,
        "firstlight": given.version,
        "plan": {
            "sha256": given.known_plans[0],
            **{key: at(plan, "cluster", key) for key in _PLANNED},
            **{key: at(plan, "served", key) for key in _SERVED},
            "hosts": list(plan["hosts"]),
            "hazards": [mapping(one) for one in listed(plan.get("hazards"))],
        },
        "minimums": _minimums(hardware, given.hardware),
        "how": _how(given),
        "silent": {host: words(hosts[host]["problem"]) for host in plan["hosts"] if at(hosts.get(host), "problem")},
        "checks": rows,
        "not_applicable": not_applicable,
        "burn_in": {host: {key: run[key] for key in ("date", "problem")} for host, run in runs.items()},
        "materials": bill_of(plan, hosts, serials=given.serials),
        "topology": topology_of(plan, hosts),
        "links": links_of(plan, hosts),
        "pairs": pairs_of(plan, hosts),
        "diagnoses": [words(one) for one in listed(given.gathered.get("diagnoses"))],
        "bandwidth": given.gathered.get("bandwidth") is True,
        "startup": _startup(plan, status),
        "serving": _serving(status),
        "bench": _bench(given),
        "tune": _tune(given.tune),
        "layouts": _layouts(given.layouts),
        "quality": _quality(given),
        "loads": loads_of(runs),
        "now": now_of(plan, hosts),
        "changes": _changes(plan, hosts),
        "serials": given.serials,
    }
    document["verdict"] = evaluate(document)
    document = cleaned(document, serials=given.serials)
    document["since"] = _since(given.accepted, document)
    return document


def _silent(host: str) -> Mapping[str, Any]:
    """Return the record of a host without data, as when --limit left it out."""
    return {
        "id": "host.answer",
        "verdict": "could_not_check",
        "expected": "an answer",
        "observed": "it was not queried",
        "remedy": f"make {host} answer and make the report again",
    }


def _tried(plan: Mapping[str, Any], host: str, role: Mapping[str, Any]) -> dict[str, Any]:
    want = mapping(at(plan, "hosts", host, "desired", "gpu_verify", "gpu_health"))
    keys = ("gpu_verify_engine", "gpu_verify_image", "gpu_verify_python")
    return {**want, "engine": next((str(role[key]) for key in keys if role.get(key)), "")}


def _minimums(profile: str, hardware: Mapping[str, Any]) -> dict[str, Any]:
    """Return the source of the minimums: the hardware profile with its sources and its unverified fields."""
    return {
        "profile": profile,
        "description": words(hardware.get("description") or ""),
        "source": " ".join(str(hardware.get("source") or "").split()),
        "date": str(hardware.get("date") or ""),
        "unverified": {str(key): words(value) for key, value in mapping(hardware.get("unverified")).items()},
        "burn_in": mapping(hardware.get("burn_in")),
        "fabric": mapping(at(hardware, "fabric", "minimum_bandwidth")),
    }


def _how(given: Inputs) -> dict[str, str]:
    """Return the commands that produce each part again, with the operator's own inventory."""
    inventory = " ".join(f"-i {shlex.quote(one)}" for one in given.inventory)
    return {
        "plan": f"firstlight plan {inventory}",
        "verify": f"firstlight verify {inventory}",
        "burn_in": f"ansible-playbook playbooks/verify.yml {inventory} -e verify_compute=true",
        "fabric": f"firstlight report {inventory} --bandwidth",
        "start": f"ansible-playbook playbooks/restart.yml {inventory}",
        "bench": f"firstlight bench {inventory}",
        "tune": f"firstlight tune {inventory}",
        "layouts": f"firstlight bench {inventory} --layouts {_sizes(given.plan)}",
        "quality": f"firstlight quality {inventory}",
        "report": f"firstlight report {inventory} -o report.html",
    }


def _sizes(plan: Mapping[str, Any]) -> str:
    """Return the powers of two up to the number of planned GPUs, as a value of --layouts."""
    gpus = sum(int(number(at(one, "expected", "gpus")) or 0) for one in plan["hosts"].values())
    return ",".join(str(2**power) for power in range(max(gpus, 1).bit_length()))


# --- start-up and serving ------------------------------------------------------------------------------------------
def _startup(plan: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the phases of the last start of each group, with the planned times."""
    starts = []
    for name, group in mapping(status.get("groups")).items():
        seconds, reading = number(at(group, "started", "seconds")), number(at(group, "started", "read_seconds")) or 0.0
        if seconds is not None:
            reading = min(reading, seconds)
            starts.append(
                {
                    "group": str(name),
                    "seconds": seconds,
                    "phases": {"read the weights": reading, "compile, capture, first answer": seconds - reading},
                    "bytes_read": at(group, "started", "bytes_read"),
                    "events": [
                        {"at": words(at(one, "at")), "event": words(at(one, "event"))}
                        for one in listed(at(group, "history"))
                    ],
                }
            )
    planned = mapping(plan.get("startup"))
    return {"starts": starts, "planned": {key: planned[key] for key in _STARTUP if key in planned}}


def _serving(status: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("verdict", "why", "head", "model", "at")
    service = mapping(status.get("service"))
    return {
        **{key: status.get(key) for key in kept},
        "missed": [words(one) for one in listed(service.get("missed"))],
        "memory": {str(one["name"]): mapping(one.get("memory")) for one in listed(status.get("nodes"))},
    }


# --- measurements ----------------------------------------------------------------------------------------------------
def _bench(given: Inputs) -> Document | None:
    """Return the benchmark without individual runs: for each point the summary, the range, and the failures."""
    result = given.bench
    if not result:
        return None
    configuration = mapping(result.get("configuration"))
    return {
        **{key: result.get(key) for key in ("run", "started", "finished", "client")},
        "other_plan": not is_of(result, given.known_plans),
        "configuration": {key: configuration.get(key) for key in _CONFIGURATION},
        "workloads": [
            {
                **{key: workload.get(key) for key in ("name", "input", "output", "prompts", "targets")},
                "points": [_point(point) for point in listed(workload.get("points"))],
            }
            for workload in listed(result.get("workloads"))
        ],
        "verdict": given.bench_verdict,
    }


def _point(point: Mapping[str, Any]) -> Document:
    runs = [mapping(one) for one in listed(point.get("runs"))]
    counting = [run for run in runs if run.get("problem") is None]
    figures = {
        name: [
            value for run in counting if (value := number(at(run, name, part) if part else run.get(name))) is not None
        ]
        for name, part in BANDS.items()
    }
    failures: dict[str, float] = {}
    for run in runs:
        for kind, count in mapping(run.get("failures")).items():
            failures[str(kind)] = failures.get(str(kind), 0) + (number(count) or 0)
    return {
        "streams": point.get("streams"),
        "rate": point.get("rate"),
        "summary": point.get("summary"),
        "range": {name: [min(values), max(values)] for name, values in figures.items() if values},
        "requests": sum(number(run.get("requests")) or 0 for run in runs),
        "failed": sum(number(run.get("failed")) or 0 for run in runs),
        "failures": failures,
        "problems": list(dict.fromkeys(words(run["problem"]) for run in runs if run.get("problem"))),
    }


def _tune(document: Mapping[str, Any] | None) -> Document | None:
    if not document:
        return None
    return {
        **{key: document.get(key) for key in ("run", "ladder", "started", "finished", "baseline")},
        "workload": mapping(document.get("workload")),
        "rungs": [
            {
                **{key: at(one, key) for key in ("name", "stage", "change", "decision", "reason", "summary")},
                "quality": at(one, "quality", "status"),
            }
            for one in listed(document.get("rungs"))
        ],
        "result": {key: at(document, "result", key) for key in ("change", "diff", "restore")},
    }


def _layouts(document: Mapping[str, Any] | None) -> Document | None:
    if not document:
        return None
    return {key: document.get(key) for key in ("run", "started", "finished", "workload", "layouts")}


def _quality(given: Inputs) -> Document | None:
    """Return the quality assessment without the answers themselves."""
    document = given.quality
    if not document:
        return None
    return {
        **{key: document.get(key) for key in _QUALITY},
        "other_plan": not is_of(document, given.known_plans),
        "reference": {key: at(document, "reference", key) for key in ("run", "asked")}
        if document.get("reference")
        else None,
        "reasons": [words(one) for one in listed(document.get("reasons"))],
    }


# --- what changed --------------------------------------------------------------------------------------------------
def _changes(plan: Mapping[str, Any], hosts: Mapping[str, Any]) -> dict[str, Any]:
    """Return each host's boot time, the latest changes of its pinned packages, and its re-pins."""
    found = {}
    for host in plan["hosts"]:
        part = mapping(hosts.get(host))
        packages = [
            {
                "at": words(at(one, "at")),
                "package": str(name),
                "before": words(at(one, "before")),
                "after": words(at(one, "after")),
                "command": shown(words(at(one, "command") or "")),
            }
            for name, one in mapping(at(part, "history", "packages")).items()
        ]
        packages.sort(key=lambda one: (one["at"], one["package"]), reverse=True)
        found[host] = {
            "boot": words(at(part, "history", "boot") or "not known"),
            "packages": packages[:MOST_CHANGES],
            "repins": list(_repins(listed(part.get("repins")))),
        }
    return found


def _repins(texts: Iterable[Any]) -> Iterable[dict[str, str]]:
    for text in texts:
        try:
            journal = json.loads(base64.b64decode(str(text), validate=True))
        except (ValueError, binascii.Error, RecursionError):
            continue
        entries = listed(at(journal, "entries"))
        if entries:
            yield {
                "at": words(at(entries[-1], "at")),
                "before": words(at(journal, "previous_stack")),
                "after": words(at(journal, "stack")),
                "state": words(at(entries[-1], "state")),
            }


def _since(accepted: Mapping[str, Any] | None, document: Document) -> dict[str, Any] | None:
    """Return the differences from the last accepted report; None if there is none."""
    if not accepted:
        return None
    # If only one report includes device identifiers, drop them from both: that alone is not a difference.
    serials = bool(document["serials"] and accepted.get("serials"))
    before, after = (cleaned(one, serials=serials) for one in (accepted, document))
    return {
        "run": words(before.get("run")),
        "made": words(before.get("made")),
        "differences": compare.differences(before, after),
    }
