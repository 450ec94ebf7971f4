# SPDX-License-Identifier: Apache-2.0
"""A plan for a person: what is done to each host, what is expected of it, and what to change or to supply."""

from __future__ import annotations

import datetime as dt
import math
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.image import RAY_MARK
from ansible_collections.firstlight.cluster.plugins.module_utils.core.image_recipe import recipe_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.fit.hazards import overdue
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan, Plan
from rich.console import Console
from rich.markup import escape

from .console import open_console, print_rows, safe
from .memory_view import gib, print_memory

MOST_HOSTS = 8
"""Hosts shown one by one; a rack differs only in its addresses, and --json has them all."""


def show(plan: ClusterPlan, today: dt.date | None = None) -> None:
    """Print the plan; refusals and gaps last, where the eye is. A plan knows no day: what is overdue is told here."""
    console = open_console()
    document = plan.document()
    if plan.hosts and not plan.refusals:
        _title(console, document["cluster"])
        for name in list(plan.hosts)[:MOST_HOSTS]:
            _host(console, plan.hosts[name])
        if len(plan.hosts) > MOST_HOSTS:
            console.print(f"... and {len(plan.hosts) - MOST_HOSTS} more hosts of the same kind; --json has them all.\n")
    if document["fit"]:
        _fit(console, document["fit"])
    if not plan.refusals:
        _startup(console, document["startup"])
        _expected(console, document["expected"])
        _advice(console, document["advice"])
    for note in [*plan.notes, *overdue(plan.judgement.hazards, today or dt.datetime.now(dt.UTC).date())]:
        console.print(f"[bold]Note[/]   {_shown(note)}")
    print_refusals(console, "To supply before a host can be touched", "yellow", plan.gaps)
    print_refusals(console, "Refused; no host was touched. To change", "red", plan.refusals)
    sys.stdout.flush()


def _shown(text: str) -> str:
    """Somebody else's text inside markup."""
    return escape(safe(text))


def _title(console: Console, cluster: Mapping[str, Any]) -> None:
    hosts = "1 host" if cluster["size"] == 1 else f"{cluster['size']} hosts"
    console.print(
        f"[bold]{hosts} {cluster['hardware']}, {cluster['model']}[/], served by {cluster['engine']} "
        f"{cluster['engine_version']} (profile {cluster['profile']}, stack {cluster['stack']})\n"
    )


def _host(console: Console, plan: Plan) -> None:
    host = plan["host"]
    part = "head" if host["is_head"] else "worker"
    console.print(f"[bold]{_shown(host['name'])}[/] ({part}, rank {host['rank']})")
    print_rows(console, [(f"  {label}", value) for label, value in _rows(plan)], style="cyan", gap=2)
    console.print()


def _rows(plan: Plan) -> Iterator[tuple[str, str]]:
    host, desired = plan["host"], plan["desired"]
    for rail in host["fabric"]:
        yield "fabric", f"{_place(rail)} {rail['address']}, MTU {rail['mtu']}"
    states = list(desired.values())
    yield from _joined("packages", (_pin(*item) for item in _items(states, "packages")))
    yield from _joined("kernel", (f"{key} = {value}" for key, value in _items(states, "sysctl")))
    yield from _joined("files", (path for path, _ in _items(states, "files")))
    yield from _joined("units", (name for name, unit in _items(states, "units") if unit.get("active")))
    yield from _joined("image", (_image(*item) for item in _items(states, "images")))
    yield from _joined("weights", (_weights(*item) for item in _items(states, "snapshots")))
    yield from _joined("expects", (f"{name} {value}" for name, value in host.get("expected", {}).items()))
    for command in host["launch"]:
        yield command["name"], shlex.join(command["argv"])
        for path in command.get("files") or {}:
            yield "", f"with {path}"


def _image(name: str, want: Mapping[str, Any]) -> str:
    """The pinned image, or the recipe it is built from, and what is added to it."""
    ray, reference = name.partition(RAY_MARK)[2], str(want.get("reference") or name)
    recipe = recipe_of(reference)
    told = f"built on the head from recipe {recipe}, {reference.partition('@')[2]}" if recipe else reference
    return told + (f", with Ray {ray} added where it has none" if ray else "")


def _weights(path: str, want: Mapping[str, Any]) -> str:
    """Where the weights go, and which of several copies in a repository are brought."""
    formats = [str(one["name"]) for one in (want.get("selection") or {}).get("formats") or []]
    return path + (f" (the first there is of {', '.join(formats)})" if formats else " (every file)")


def _place(rail: Mapping[str, Any]) -> str:
    """Where a rail is: its port and cage, or what its port is found by once the host was looked at."""
    if rail["port"]:
        return str(rail["port"]) + ("" if rail["cage"] is None else f" (cage {rail['cage']})")
    cage = "the one cage that has a cable" if rail["cage"] is None else f"cage {rail['cage']}"
    return f"half {rail['half']} of {cage}, found on the host,"


def _items(states: Iterable[Mapping[str, Any]], kind: str) -> list[tuple[str, Any]]:
    return [item for state in states for item in (state.get(kind) or {}).items()]


def _joined(label: str, values: Iterable[str]) -> Iterator[tuple[str, str]]:
    listed = list(dict.fromkeys(values))  # one file may be of two roles, as the cluster's token is
    if listed:
        yield label, ", ".join(listed)


def _pin(name: str, version: str | None) -> str:
    return f"{name} (as installed)" if version is None else f"{name}={version}"


def _fit(console: Console, fit: Mapping[str, Any]) -> None:
    memory = fit["memory"]
    if not memory["total_bytes"]:
        return  # refused as unknown
    console.print(f"[bold]Memory of each GPU[/], {gib(memory['total_bytes'])}")
    print_memory(console, memory)
    if fit["fits"]:
        console.print(
            f"Cache for {fit['kv_tokens']:,} tokens, {fit['max_concurrency']:.1f} requests of {fit['context']:,} "
            "tokens at a time\n"
        )
    else:
        console.print("[red]It does not fit.[/]\n")


_WEIGHTS_FROM = {"fit": "", "files": " (from the size of the files)", "memory": " (as much as the memory takes)"}


def _startup(console: Console, startup: Mapping[str, Any]) -> None:
    """How long a start may take, with what that follows from."""
    if not startup:
        return
    ranks, size = startup["ranks_per_host"], startup["weights_bytes_per_host"]
    each = f", {ranks} ranks of {startup['weights_bytes_per_rank'] / 1e9:.1f} GB" if ranks > 1 else ""
    weights = f"{size / 1e9:.1f} GB of weights per host{each}{_WEIGHTS_FROM[startup['weights_from']]}"
    rate = f"{startup['disk_read_gb_s']:g} GB/s ({startup['disk_read_from']})"
    rows = [
        ("  read", f"{_duration(startup['read_s'])}: {weights} at {rate}"),
        ("  compile", f"{_duration(startup['compile_s'])} for kernels and CUDA graphs, the first time"),
        ("  hangs", f"after {_duration(startup['progress_timeout_s'])} without any progress on any host"),
    ]
    by_hand = startup["limit_from"] != "computed"
    whence = f", set by {startup['limit_from']}; computed: {_duration(startup['computed_s'])}" if by_hand else ""
    console.print(f"[bold]Start limit[/]  {_duration(startup['limit_s'])}{_shown(whence)}")
    print_rows(console, rows, style="cyan", gap=2)
    console.print()


def _duration(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{math.ceil(seconds / 60)} min"


def _expected(console: Console, expected: Mapping[str, Any] | None) -> None:
    if not expected:
        return
    if expected["decode_tokens_per_s"] is None:
        console.print(f"[bold]Expected[/]  speed not known, because {_shown(expected['why'])}\n")
        return
    low, high = expected["decode_tokens_per_s"]
    console.print(
        f"[bold]Expected[/]  {low:.0f} to {high:.0f} tokens/s for one request "
        f"(memory bandwidth alone: {expected['roofline_tokens_per_s']:.0f})\n"
    )


def _advice(console: Console, advice: Sequence[Mapping[str, Any]]) -> None:
    if not advice:
        return
    console.print("[bold]Advice[/], from the model in docs/advice.md")
    print_rows(console, [(f"  {one['workload']}", one["why"]) for one in advice], style="cyan")
    console.print()


def print_refusals(console: Console, title: str, colour: str, refusals: Sequence[Mapping[str, str]]) -> None:
    """A numbered list: what was found, the rule, the change that would pass."""
    if not refusals:
        return
    console.print(f"[bold {colour}]{title}:[/]")
    for number, refusal in enumerate(refusals, 1):
        console.print(f"{number}. {_shown(refusal['found'])} [dim]{escape('[' + refusal['id'] + ']')}[/]")
        print_rows(console, [("   rule:", refusal["rule"])])
        print_rows(console, [("   change:", refusal["remedy"])])
    console.print()
