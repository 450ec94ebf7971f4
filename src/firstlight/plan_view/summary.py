# SPDX-License-Identifier: Apache-2.0
"""The first screen of a plan as rows of text, derived only from the document that `--json` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.image.recipe import recipe_of

from .parts import hosts_words, some

MOST_HOSTS, MOST_RACKS = 12, 8
"""Maximum number of hosts listed one by one; with more hosts, the maximum number of racks."""
LEFT_TO_SSH = "(ssh)"
"""Shown if neither the inventory nor ansible.cfg names a user: SSH uses the one of its own configuration."""

Document = Mapping[str, Any]
Rows = list[tuple[str, str]]


def title(document: Document) -> str:
    """The number and hardware of the hosts, and the model they serve."""
    cluster = document["cluster"]
    hosts = many(cluster["size"], "host")
    return f"{hosts} ({cluster['hardware']}) serve{'s' if cluster['size'] == 1 else ''} {cluster['model']}"


def served_rows(document: Document) -> Rows:
    """Rows for engine, parallelism, addresses, image and weights."""
    served, cluster = document["served"], document["cluster"]
    if not served:
        return []
    fit = document["fit"]
    splits = [f"TP {served['tensor_parallel']}", f"PP {served['pipeline_parallel']}", f"{served['replicas']} replicas"]
    used = [one for one, count in zip(splits, _counts(served), strict=True) if count > 1] or [splits[0]]
    context = f", {served['context']:,} tokens of context" if served["context"] else ""
    requests = f", {fit['max_num_seqs']} requests at a time" if fit.get("max_num_seqs") else ""
    listens = served["engine_url"] + (f" on {served['head']}" if len(cluster["hosts"]) > 1 else "")
    rows = [
        (
            "engine",
            f"{served['engine']} {served['engine_version']}, profile {cluster['profile']}, stack {cluster['stack']}",
        ),
        ("parallel", ", ".join(used) + context + requests),
        (
            "endpoint",
            f"{served['endpoint_url']}, in front of {listens}" if served["endpoint_url"] else _closed(listens),
        ),
    ]
    if served["image"]:
        rows.append(("image", image_words(served["image"])))
    if served["targets"]:
        rows.append(("targets", ", ".join(f"{name} {value:g}" for name, value in served["targets"].items())))
    licence = f", licence {served['licence']}" if served["licence"] else ""
    gated = ", gated" if served["gated"] else ""
    if served["needs_token"]:
        gated += (
            f": accept it at https://huggingface.co/{served['repository']} and give an access token (docs/weights.md)"
        )
    return [*rows, ("weights", f"{served['repository']} at {served['revision'][:12]}{licence}{gated}")]


def _counts(served: Mapping[str, Any]) -> tuple[int, int, int]:
    return served["tensor_parallel"], served["pipeline_parallel"], served["replicas"]


def _closed(listens: str) -> str:
    inside = any(f"//{own}" in listens for own in ("127.", "localhost", "[::1]"))
    return f"{listens}{', for programs on that host only' if inside else ''}; firstlight_endpoint is not set"


def image_words(reference: str) -> str:
    """Describe the pinned image or the recipe it is built from."""
    recipe = recipe_of(reference)
    return f"built on the head from recipe {recipe}, {reference.partition('@')[2]}" if recipe else reference


def many(count: int | str, noun: str) -> str:
    return f"{count} {noun}{'' if str(count) == '1' else 's'}"


def host_table(document: Document) -> list[list[str]]:
    """Return how the hosts are reached; many hosts are grouped by rack. The first row has the headings."""
    hosts: Mapping[str, Mapping[str, Any]] = document["hosts"]
    listed = [[name, *_cells(host)] for name, host in hosts.items()]
    if len(hosts) > MOST_HOSTS:
        racks: dict[str | None, list[list[str]]] = {}
        for row, host in zip(listed, hosts.values(), strict=True):
            first = "".join(str(rail["address"]) for rail in host["fabric"][:1])  # of many hosts, only the first rail
            racks.setdefault(host.get("rack"), []).append([*row[:-1], first or "none"])
        grouped = [_rack_row(rack, rows) for rack, rows in racks.items()]
        listed = grouped[:MOST_RACKS]
        if len(grouped) > MOST_RACKS:
            listed.append([many(len(grouped) - MOST_RACKS, "more rack"), "", "", "", "", ""])
    rows = [["name", "address", "user", "port", "role", "fabric"], *listed]
    shown = [column for column in range(6) if column != 3 or any(row[3] for row in listed)]
    return [[row[column] for column in shown] for row in rows]


def _cells(host: Mapping[str, Any]) -> list[str]:
    reach = host.get("reach") or {}
    port = reach.get("port")
    return [
        str(reach.get("address") or ""),
        str(reach.get("user") or LEFT_TO_SSH),
        "" if port is None else str(port),
        "head" if host["is_head"] else "worker",
        "  ".join(str(rail["address"]) for rail in host["fabric"]) or "none",
    ]


def _rack_row(rack: str | None, rows: Sequence[Sequence[str]]) -> list[str]:
    """Summarise many hosts in one row: first and last values, or the common one."""
    name = f"{f'rack {rack}: ' if rack else ''}{many(len(rows), 'host')}"
    columns = [list(dict.fromkeys(row[column] for row in rows)) for column in range(1, 6)]
    heads = sum(row[4] == "head" for row in rows)
    workers = many(len(rows) - heads, "worker")
    address, user, port, _, fabric = (
        found[0] if len(found) == 1 else f"{found[0]} ... {found[-1]}" if found else "" for found in columns
    )
    return [name, address, user, port, f"head, {workers}" if heads else workers, fabric]


def on_host_rows(document: Document) -> Rows:
    """Return what is decided on the hosts, naming the hosts only if a decision does not apply to all."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, host in document["hosts"].items():
        merged: dict[tuple[str, str, str], list[str]] = {}
        for one in host.get("on_host") or ():
            merged.setdefault((one["what"], one["does"], one["when"]), []).extend(decided_names(one))
        for (what, does, when), names in merged.items():
            found.setdefault((what, _decided(some(names), does, when)), []).append(name)
    everywhere = len(document["hosts"])
    return [
        (what, words if len(names) == everywhere else f"{hosts_words(names)}: {words}")
        for (what, words), names in found.items()
    ]


def decision_words(decision: Mapping[str, Any]) -> str:
    """Describe what may be done, and under which condition."""
    return _decided(", ".join(decided_names(decision)), decision["does"], decision["when"])


def decided_names(decision: Mapping[str, Any]) -> list[str]:
    """Return the packages and units that a decision affects."""
    return [*(pin(*item) for item in decision["packages"].items()), *decision["units"]]


def _decided(names: str, does: str, when: str) -> str:
    return f"{when}: {names}{' ' if names else ''}{does}"


def pin(name: str, version: str | None) -> str:
    """Return a package with its version, if it has one."""
    return name if version is None else f"{name}={version}"


def start_text(startup: Mapping[str, Any]) -> str:
    """Describe how long a start may take, and how that limit is derived."""
    ranks, size = startup["ranks_per_host"], startup["weights_bytes_per_host"]
    each = f", {ranks} ranks of {startup['weights_bytes_per_rank'] / 1e9:.1f} GB" if ranks > 1 else ""
    told = {"fit": "", "files": ", from the size of the files", "memory": ", as much as the memory takes"}
    weights = f"{size / 1e9:.1f} GB per host{each}{told[startup['weights_from']]}"
    rate = f"{startup['disk_read_gb_s']:g} GB/s ({startup['disk_read_from']})"
    by_hand = startup["limit_from"] != "computed"
    whence = f", set by {startup['limit_from']} (computed: {duration(startup['computed_s'])})" if by_hand else ""
    return (
        f"{_usual_start(startup)}at most {duration(startup['limit_s'])}{whence}: "
        f"{duration(startup['read_s'])} to read {weights} at {rate}, "
        f"{duration(startup['compile_s'])} to compile the first time; "
        f"fails after {duration(startup['progress_timeout_s'])} without progress"
    )


def _usual_start(startup: Mapping[str, Any]) -> str:
    """Describe how long starts probably take; empty if the model's dimensions are unknown."""
    if startup["first_s"] is None:
        return ""
    return f"the first about {duration(startup['first_s'])}, later ones about {duration(startup['later_s'])}; "


def duration(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{math.ceil(seconds / 60)} min"


def speed_text(expected: Mapping[str, Any] | None) -> str:
    """Describe the expected speed of a single request."""
    if not expected:
        return ""
    if expected["decode_tokens_per_s"] is None:
        return f"speed not known, because {expected['why']}"
    low, high = expected["decode_tokens_per_s"]
    limit = expected["roofline_tokens_per_s"]
    return f"{low:.0f} to {high:.0f} tokens/s for one request (memory bandwidth alone: {limit:.0f})"


def bench_rows(bench: Mapping[str, Any]) -> Rows:
    """Return one row per benchmark workload, with the tokens/s expected of each point."""
    rows: Rows = []
    for one in bench.get("workloads") or ():
        points = [_point_text(point) for point in one["points"]]
        unknown = next((point["why"] for point in one["points"] if point["why"]), "")
        told = "; ".join(filter(None, points)) or f"not known, because {unknown}"
        rows.append((one["name"], f"{told}{'; gates' if one['name'] in bench['gate'] else ''}"))
    return rows


def _point_text(point: Mapping[str, Any]) -> str:
    limits = point["expected"].get("output_tokens_per_s")
    if limits is None:
        return ""
    load = f"{point['rate']:g} requests/s" if point["rate"] is not None else many(point["streams"], "stream")
    return f"{load} {limits[0]:g} to {limits[1]:g}"


def price_text(served: Mapping[str, Any]) -> str:
    """Describe the price on which costs are based."""
    price = served.get("price_per_gpu_hour")
    if price is None:
        return "no cost: set firstlight_price_per_gpu_hour"
    return f"cost at {price:g} per GPU and hour (firstlight_price_per_gpu_hour)"


def speed_table(document: Document) -> list[list[str]]:
    """Return the planned layout for each kind of work, and a better one if there is one; empty without figures."""
    served, rows = document["served"], []
    for one in document["advice"]:
        planned = next((option for option in one["options"] if _is_planned(option, served)), None)
        best = next((option for option in one["options"] if _is_layout(option, one)), None)
        chosen = planned or best
        if chosen is None:
            continue
        better = "" if best is None or chosen is best else f"{layout(best)}: {_better(one['workload'], best)}"
        rows.append([one["workload"], layout(chosen), *_figures(chosen), better])
    if not rows:
        return []
    heading = ["work", "layout", "requests", "tokens/s", "each", "first token", "cost/M tokens", "better layout"]
    shown = [column for column in range(len(heading)) if column not in (6, 7) or any(row[column] for row in rows)]
    return [[row[column] for column in shown] for row in [heading, *rows]]


def _is_planned(option: Mapping[str, Any], served: Mapping[str, Any]) -> bool:
    planned = (served.get("tensor_parallel"), served.get("replicas"), served.get("pipeline_parallel"))
    return (option["tp"], option["replicas"], 1) == planned and option["tokens_per_s"] is not None


def _is_layout(option: Mapping[str, Any], advice: Mapping[str, Any]) -> bool:
    return (option["tp"], option["replicas"]) == (advice["tensor_parallel"], advice["replicas"])


def layout(option: Mapping[str, Any]) -> str:
    replicas = int(option["replicas"])
    return f"TP {option['tp']}" if replicas == 1 else f"{replicas} x TP {option['tp']}"


def _figures(option: Mapping[str, Any]) -> list[str]:
    cost, wait = option["cost_per_million_tokens"], option["ttft_ms"]
    return [
        str(option["concurrency"]),
        f"{option['tokens_per_s']:g}",
        f"{option['tokens_per_s_per_stream']:g}",
        f"{wait:.0f} ms" if wait < 1000 else f"{wait / 1000:.1f} s",
        "" if cost is None else f"{cost:.2f}",
    ]


def _better(workload: str, option: Mapping[str, Any]) -> str:
    """Describe the gain of a better layout, in the measure relevant to its kind of work."""
    if workload == "latency":
        return f"{option['tokens_per_s_per_stream']:g} tokens/s each"
    if workload == "long-context":
        return f"{option['concurrency']} requests"
    cost = option["cost_per_million_tokens"]
    return f"{option['tokens_per_s']:g} tokens/s" + ("" if cost is None else f", {cost:.2f}/M tokens")
