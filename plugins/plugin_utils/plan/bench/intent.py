# SPDX-License-Identifier: Apache-2.0
"""Read the benchmark part of an intent: which workloads are measured, which of them gate, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import USUAL, Workload
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import read_mapping
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import TRUTH

ERRORS = {
    "bench.workload": "A workload that is not in the catalog, or does not fit into the context, is never measured.",
    "bench.gate": "A workload that is not measured would gate nothing, or everything.",
    "bench.repeats": "A result is the median of its runs, and a regression only if it exceeds their spread.",
}
BENCH_KEYS = ("workloads", "gate", "repeats", "after_bring_up")
MOST_REPEATS = 100


@dataclass(frozen=True)
class Bench:
    """The benchmarks to run."""

    workloads: tuple[Workload, ...]
    gate: tuple[str, ...] = ()
    """The workloads that must pass."""
    repeats: int | None = None
    """Runs of every point; None leaves it to the workload."""
    after_bring_up: bool = False


def read_bench(
    intent: Mapping[str, Any], known: Mapping[str, Workload], context: int | None, errors: PlanErrors
) -> Bench | None:
    """Read firstlight_bench and report an error for each invalid value; None if no benchmark is asked for.

    firstlight_bench_now makes a bring-up measure, whatever the inventory says about it.
    """
    now = TRUTH.get(str(intent.get("firstlight_bench_now")).lower(), False)
    if intent.get("firstlight_bench") is None and not now:
        return None
    given = read_mapping(intent, "firstlight_bench", BENCH_KEYS, errors)
    gate = _names(given.get("gate"), "gate", known, errors)
    asked = _names(given.get("workloads"), "workloads", known, errors)
    names = asked or gate or [name for name in USUAL if name in known]
    outside = [name for name in gate if name not in names]
    if outside:
        errors.add(
            "bench.gate",
            f"firstlight_bench.gate has {', '.join(outside)}",
            f"only what is measured can gate, and firstlight_bench.workloads has {', '.join(names)}",
            "add it to workloads, or remove it from gate",
        )
    workloads = [known[name] for name in names]
    for one in workloads:
        if context and one.tokens > context:
            errors.add(
                "bench.workload",
                f"workload {one.name} of firstlight_bench has requests of {one.tokens} tokens",
                f"prompt and answer fit into the context that is served, {context} tokens",
                "choose another workload, or raise firstlight_serving.max_model_len",
            )
    repeats, after = _repeats(given.get("repeats"), errors), _after(given, errors)
    return Bench(tuple(workloads), tuple(gate), repeats, after or now)


def _names(value: object, key: str, known: Mapping[str, Workload], errors: PlanErrors) -> list[str]:
    """Return the workloads of a list without duplicates; those that the catalog does not have are refused."""
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        errors.add(
            "intent.type",
            f"firstlight_bench.{key} is {value!r}",
            f"{key} is a list of workload names from the catalog",
            f"write it as {key}: [{', '.join(USUAL)}]",
        )
        return []
    names: Sequence[str] = list(dict.fromkeys(str(one) for one in value))
    for name in names:
        if name not in known:
            errors.add(
                "bench.workload",
                f"firstlight_bench.{key} has {name!r}",
                "a workload is an entry of workloads.yml in the catalog",
                suggest(name, sorted(known), otherwise="add it to workloads.yml of a directory of firstlight_catalog"),
            )
    return [name for name in names if name in known]


def _repeats(value: object, errors: PlanErrors) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_REPEATS:
        errors.add(
            "bench.repeats",
            f"firstlight_bench.repeats is {value!r}",
            f"it is a whole number from 1 to {MOST_REPEATS}",
            "leave it out for the workload's default, or write 3 without quotes",
        )
        return None
    return value


def _after(given: Mapping[str, Any], errors: PlanErrors) -> bool:
    value = given.get("after_bring_up")
    if value is None or isinstance(value, bool):
        return value is True
    errors.add(
        "intent.type",
        f"firstlight_bench.after_bring_up is {value!r}",
        "after_bring_up is true or false",
        "write true to run the benchmarks at the end of site.yml, or leave it out",
    )
    return False
