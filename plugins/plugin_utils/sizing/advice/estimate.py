# SPDX-License-Identifier: Apache-2.0
"""Estimate how fast a model is on given GPUs, as its clients see it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.advise import HIGH, LOW
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.closed_loop import Demand, simulate
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.model_load import load_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.performance import (
    ACCEPTANCE,
    Group,
    Speculation,
    missing_figures,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.budget import Fit
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape

ERRORS = {
    "estimate.arguments": (
        "Lengths, clients and rates are positive numbers in the range of real servers; anything else would give a "
        "meaningless speed."
    ),
    "estimate.length": "A request, prompt and answer together, is no longer than the engine's configured limit.",
    "estimate.hardware": "Speed follows from memory bandwidth and computing rates of the hardware's catalog entry.",
}

LIMITS = {"input": 1 << 24, "output": 1 << 24, "concurrency": 1 << 16}
DENSE, MIXTURE = 0.15, 0.25
"""Largest deviation of measured runs on one H200 from the model (docs/advice.md)."""


def check_demand(values: Mapping[str, Any], rate: float | None, acceptance: float | None, errors: PlanErrors) -> None:
    """Refuse lengths, clients, a rate and an acceptance that no server can have."""
    for name, most in LIMITS.items():
        if not 1 <= values[name] <= most:
            errors.add(
                "estimate.arguments",
                f"--{name} is {str(values[name])[:30]}",
                f"--{name} is a whole number from 1 to {most}",
                f"correct --{name}",
            )
    if rate is not None and not (math.isfinite(rate) and 0 < rate <= 1e6):
        rule = "--rate is a number of requests per second above 0"
        errors.add("estimate.arguments", f"--rate is {rate}", rule, "correct --rate, or leave it out")
    if acceptance is not None and not 0 <= acceptance <= 1:
        rule = "--acceptance is the share of drafted tokens that are accepted, from 0 to 1"
        errors.add("estimate.arguments", f"--acceptance is {acceptance}", rule, "correct --acceptance")


def estimate(
    shape: ModelShape,
    hardware: Mapping[str, Any],
    found: Fit,
    *,
    demand: Demand,
    kv_dtype: str = "auto",
    dtype: str | None = None,
    speculation: Speculation | None = None,
) -> dict[str, Any]:
    """Return the estimate of what `demand.clients` clients see of all replicas that the GPUs hold.

    `found` is what fits; it determines how many requests run at once.
    """
    load = load_of(shape, kv_dtype, dtype)
    replicas, ranks = found.replicas, found.tensor_parallel
    each = math.ceil(demand.clients / replicas)
    slots = found.streams(demand.prompt + demand.output)
    busy = min(replicas, demand.clients)  # fewer clients than replicas leave some of them idle
    rate = None if demand.rate is None else demand.rate / busy
    group = Group(
        load,
        hardware,
        tensor_parallel=ranks,
        hosts=-(-ranks // hardware["gpus"]),
        speculation=speculation,
    )
    asked = Demand(demand.prompt, demand.output, each, slots, demand.chunk, rate)
    seen = simulate(group, asked)
    # At a fixed rate each replica answers its share of the requests, however many clients it may have.
    speed = seen.output_tokens_per_s * (min(demand.clients / each, busy) if rate is None else busy)
    low, high = _spread(load.experts is not None, ranks, hardware)
    queued = max(0, each - slots)
    running = min(demand.clients, min(each, slots) * busy)
    bound = seen.bound_by
    if queued and rate is None:
        bound = "max_num_seqs" if slots == found.max_num_seqs else "cache"
    return {
        "output_tokens_per_s": _figure(speed),
        "ttft_ms": _figure(seen.ttft_seconds * 1e3),
        "tpot_ms": _figure(seen.tpot_seconds * 1e3),
        "bound_by": bound,
        "range": [_figure(speed * low), _figure(speed * high)],
        "requests_per_s": _figure(speed / demand.output),
        "tensor_parallel": ranks,
        "replicas": replicas,
        "running": running,
        "waiting": demand.clients - running if queued else 0,
        "tokens_per_step": _figure(group.tokens_per_step),
    }


def nothing() -> dict[str, Any]:
    """Return the same keys, all None, where no estimate is possible."""
    names = "output_tokens_per_s ttft_ms tpot_ms bound_by range requests_per_s tensor_parallel replicas running waiting"
    return dict.fromkeys([*names.split(), "tokens_per_step"])


def check_hardware(hardware: Mapping[str, Any], errors: PlanErrors) -> None:
    """Refuse hardware whose catalog entry lacks the figures that speed is computed from."""
    missing = missing_figures(hardware)
    if missing:
        errors.add(
            "estimate.hardware",
            f"hardware {hardware.get('name')} lacks {' and '.join(missing)}",
            "both are in the catalog entry",
            "add them to the entry from the data sheet",
        )


def speculation_of(tokens: int | None, acceptance: float | None) -> Speculation | None:
    """Return the speculation for this many drafted tokens; None if nothing is drafted."""
    return Speculation(tokens, ACCEPTANCE if acceptance is None else acceptance) if tokens else None


def _spread(experts: bool, ranks: int, hardware: Mapping[str, Any]) -> tuple[float, float]:
    """Return the error range: measured for one GPU with its own memory, else from published figures."""
    if ranks > 1 or hardware.get("unified"):
        return LOW, HIGH
    share = MIXTURE if experts else DENSE
    return 1 - share, 1 + share


def _figure(value: float) -> float:
    return float(f"{value:.4g}")
