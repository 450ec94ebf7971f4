# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of a plan, with the expected figures of every point."""

from __future__ import annotations

from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.expected import Served, expected
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import Workload
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.bench.intent import Bench


def bench_document(bench: Bench, served: Served | None) -> dict[str, Any]:
    """Return the benchmark section of the plan document."""
    return {
        "after_bring_up": bench.after_bring_up,
        "repeats": bench.repeats,
        "gate": list(bench.gate),
        "workloads": [_workload(one, served) for one in bench.workloads],
    }


def _workload(workload: Workload, served: Served | None) -> dict[str, Any]:
    own: dict[str, Any] = {
        "name": workload.name,
        "prompts": workload.prompts,
        "input": workload.input,
        "output": workload.output,
    }
    loads: list[tuple[int | None, float | None]] = [(streams, None) for streams in workload.streams]
    loads += [(None, rate) for rate in workload.rates]
    return {**own, "points": [_point(own, streams, rate, served) for streams, rate in loads]}


def _point(workload: dict[str, Any], streams: int | None, rate: float | None, served: Served | None) -> dict[str, Any]:
    found = expected(served, workload, streams=streams, rate=rate)
    ranges = {metric: [float(f"{one:.3g}") for one in limits] for metric, limits in found.ranges.items()}
    return {"streams": streams, "rate": rate, "expected": ranges, "why": found.why}
