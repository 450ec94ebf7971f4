# SPDX-License-Identifier: Apache-2.0
"""The checks of all nodes as rows of a matrix: measured value, minimum, and the minimum's source. Pure functions."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.runs import evaluate_document, hashed
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.burn_in import FORMAT
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.health import expected_by
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import (
    CONTENT,
    COULD_NOT_CHECK,
    FAIL,
    NOT_APPLICABLE,
    PASS,
    VERDICTS,
    worst,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu.burn_in_cluster import evaluate_cluster
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.values import at, listed, mapping, words

COMPUTE, GPUS, FABRIC, PINS, SYSTEM = "compute", "gpus", "fabric", "pins", "system"
GROUPS = {
    COMPUTE: "What the GPUs compute",
    GPUS: "GPUs, their links and the kernel's log",
    FABRIC: "Fabric",
    PINS: "Pins: packages, driver, image, model",
    SYSTEM: "System",
}
_GROUP_OF = {
    "burn_in": COMPUTE,
    **dict.fromkeys(("gpu", "gpus", "nvlink", "topo", "fabric_manager", "kernel"), GPUS),
    **dict.fromkeys(("fabric", "link", "rdma", "port"), FABRIC),
    **dict.fromkeys(
        ("package", "hold", "driver", "cuda", "cdi", "image", "container", "venv", "snapshot", "weights", "firmware"),
        PINS,
    ),
}
_WANTED = {
    "package": "the pinned version",
    "hold": "on hold",
    "cuda": "the pinned release",
    "image": "the pinned digest",
    "snapshot": "the pinned revision, verified",
    "firmware": "as when the fabric was tested",
    "fabric.ping": "packets that fill the MTU arrive",
    "fabric.route": "leaves by its own port",
    "fabric.port": "address, MTU and carrier",
    "fabric.duplicate": "no other machine has its address",
    "fabric.arp": "it alone answers",
}
"""Expectation of a whole family of checks."""
_RATE = re.compile(r"(?P<rate>[0-9.]{1,12}) Gb/s")

Row = dict[str, Any]
Record = Mapping[str, Any]


def rows_of(
    records: Mapping[str, Sequence[Record]], *, profile: str, stack: str, hosts: Sequence[str]
) -> tuple[list[Row], list[str]]:
    """Return the matrix, with failures first in each group, and the ids of checks that apply to no node.

    GPU checks have a row each. Other checks that pass are merged by family, so that a thousand files as planned form
    one row; each check that does not pass has a row of its own.
    """
    rows: dict[str, Row] = {}
    families: dict[str, dict[str, list[Record]]] = {}
    for host in hosts:
        for one in records.get(host, ()):
            name = str(one.get("id"))
            group = _GROUP_OF.get(name.partition(".")[0], SYSTEM)
            if group in (COMPUTE, GPUS) or one.get("verdict") not in CONTENT:
                row = rows.setdefault(name, _row(group, name, whose(name, profile, stack)))
                row["cells"][host] = _cell(one)
                if row["minimum"] is None and one.get("verdict") != NOT_APPLICABLE:
                    row["minimum"] = words(one.get("expected"))
            if group not in (COMPUTE, GPUS):
                families.setdefault(_family(name), {}).setdefault(host, []).append(one)
    for family, found in families.items():
        if not any(one.get("verdict") in CONTENT for own in found.values() for one in own):
            continue  # all of its checks have rows of their own
        rows[f"{family}.*"] = _together(family, found, whose(family, profile, stack))
    applicable = [row for row in rows.values() if _status(row) != NOT_APPLICABLE]
    order = {group: place for place, group in enumerate(GROUPS)}
    rank = {FAIL: 0, COULD_NOT_CHECK: 1}
    applicable.sort(key=lambda row: (order[row["group"]], rank.get(_status(row), 2)))
    return applicable, sorted(row["id"] for row in rows.values() if _status(row) == NOT_APPLICABLE)


def whose(name: str, profile: str, stack: str) -> str:
    """Return the source of a check's expected value."""
    if name.startswith(("burn_in.host_power", "burn_in.rack_power")):
        return "firstlight_power of the inventory"
    kind = name.partition(".")[0]
    group = _GROUP_OF.get(kind, SYSTEM)
    if kind == "kernel":
        return "Firstlight: none since the boot"
    if group in (COMPUTE, GPUS) or name.startswith(("fabric.tcp", "fabric.rdma")):
        return f"hardware profile {profile}"
    return f"stack {stack}" if group == PINS and kind not in ("firmware", "weights", "snapshot") else "the plan"


def _row(group: str, name: str, by: str) -> Row:
    return {"group": group, "id": name, "minimum": None, "whose": by, "cells": {}}


def _cell(one: Record) -> dict[str, Any]:
    verdict = one.get("verdict")
    cell = {"status": verdict if verdict in VERDICTS else COULD_NOT_CHECK, "measured": words(one.get("observed"))}
    return cell | {key: words(one[key]) for key in ("remedy", "by") if one.get(key) and verdict not in CONTENT}


def _status(row: Row) -> str:
    return worst(cell["status"] for cell in row["cells"].values())


def _family(name: str) -> str:
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] == "fabric" else parts[0]


def _together(family: str, found: Mapping[str, Sequence[Record]], by: str) -> Row:
    """Return the row of a family: how many checks pass on each node, and the lowest rate if there are any."""
    row = _row(_GROUP_OF.get(family.partition(".")[0], SYSTEM), f"{family}.*", by)
    row["minimum"] = _WANTED.get(family) or next(
        (words(one["expected"]) for own in found.values() for one in own if _RATE.search(words(one.get("expected")))),
        "as planned",
    )
    for host, own in found.items():
        counted = [one for one in own if one.get("verdict") != NOT_APPLICABLE]
        right = sum(one.get("verdict") == PASS for one in counted)
        rates = [float(told["rate"]) for one in counted if (told := _RATE.match(words(one.get("observed"))))]
        least = f", least {min(rates):g} Gb/s" if rates else ""
        row["cells"][host] = {
            # Failures are evaluated by their own rows.
            "status": PASS if right == len(counted) and counted else worst(str(one.get("verdict")) for one in own),
            "measured": f"{right} of {len(counted)} right{least}" if counted else "none apply",
        }
    return row


def burn_in_of(
    hosts: Mapping[str, Mapping[str, Any]],
    wanted: Mapping[str, Mapping[str, Any]],
    power: Mapping[str, Any],
) -> tuple[dict[str, list[Record]], dict[str, dict[str, Any]]]:
    """Return the records of the burn-ins stored on hosts, evaluated by the current minimums, and each host's run.

    `wanted` has for each host `profile`, `hardware`, `accept`, and the `engine` for which a run must be valid.
    """
    runs = {host: _run(mapping(part), mapping(wanted.get(host))) for host, part in hosts.items()}
    results = {}
    for host, run in runs.items():
        if run["problem"] or not run["measured"]:
            continue
        want = mapping(wanted.get(host))
        try:
            checks = evaluate_document(run["measured"], (), expected_by(want))
        except ValueError as error:
            run["problem"] = f"its figures cannot be evaluated: {error}"
            continue
        results[host] = {"checks": checks, "measured": run["measured"], "hardware": mapping(want.get("hardware"))}
    accepted = next((listed(at(one, "accept")) for one in wanted.values()), ())
    try:
        records = evaluate_cluster(results, power, [str(one) for one in accepted])["records"] if results else {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        records = {}
        for run in runs.values():
            run["problem"] = run["problem"] or f"its figures cannot be compared with those of the others: {error!r}"
    return records, runs


def _run(part: Mapping[str, Any], want: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run stored on a host, with the reason if it does not count."""
    nothing: dict[str, Any] = {"date": None, "problem": "", "measured": {}}
    content = part.get("burn_in")
    if part.get("problem"):
        return {**nothing, "problem": "the host gave no answer"}
    if not isinstance(content, str) or not content:
        return {**nothing, "problem": "no run is on record"}
    try:
        record = json.loads(base64.b64decode(content, validate=True))
    except (ValueError, binascii.Error, RecursionError):
        record = None
    measured = mapping(at(record, "measured"))
    if not measured:
        return {**nothing, "problem": "its record cannot be read"}
    found = {"date": words(at(record, "date")), "problem": "", "measured": measured}
    held = mapping(at(record, "valid_for"))
    driver = at(part, "observation", "driver", "loaded") or at(part, "observation", "gpus", "driver")
    if held.get("device") not in (None, "cuda"):
        return {**found, "problem": "it was run without a GPU, as the inventory asks for"}
    if held.get("workload") != FORMAT:
        return {**found, "problem": "it was run with another version of the workload"}
    if driver and held.get("driver") and held["driver"] != driver:
        return {**found, "problem": f"it was run with driver {words(held['driver'])}, now {words(driver)} is loaded"}
    uuids = [at(gpu, "uuid") for gpu in listed(at(part, "gpus", "smi-xml", "gpus"))]
    if uuids and all(uuids) and held.get("gpus") != sorted(hashed(str(uuid)) for uuid in uuids):
        return {**found, "problem": "it was run on other GPUs than the host has now"}
    if want.get("engine") and held.get("engine") and held["engine"] != want["engine"]:
        return {**found, "problem": "it was run with another image or virtual environment than is planned now"}
    return found


def wrong_cells(rows: Iterable[Row], status: str) -> list[tuple[str, Row, Mapping[str, Any]]]:
    """Return every host, row and cell of this status; for a family only if no row of its own covers it."""
    listed_rows = list(rows)
    own = {(host, _family(row["id"])) for row in listed_rows if not row["id"].endswith(".*") for host in row["cells"]}
    return [
        (host, row, cell)
        for row in listed_rows
        for host, cell in row["cells"].items()
        if cell["status"] == status and not (row["id"].endswith(".*") and (host, row["id"][:-2]) in own)
    ]
