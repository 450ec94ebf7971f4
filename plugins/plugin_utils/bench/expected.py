# SPDX-License-Identifier: Apache-2.0
"""What a plan expects of one point of a benchmark: the one place where a verdict uses the estimate (docs/advice.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.advise import HIGH, LOW
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.performance import (
    ModelLoad,
    Speculation,
    missing_figures,
    prefill,
    serve,
)

ENDS = 0.9
"""Least share of the request rate that a run shows if the server keeps up, as a run lasts until the last answer."""

Range = tuple[float, float]


@dataclass(frozen=True)
class Served:
    """The served model as input of the estimate: on `replicas` groups of GPUs."""

    load: ModelLoad
    hardware: Mapping[str, Any]
    tensor_parallel: int
    replicas: int
    hosts: int
    """Hosts that one replica spans."""
    rails: int | None = None
    rdma: bool | None = None
    speculation: Speculation | None = None
    most: Callable[[int], int] = field(default=lambda _: 1, compare=False)
    """Maps a request size in tokens to how many such requests one replica serves concurrently."""


@dataclass(frozen=True)
class Expected:
    """The expected range of each metric, given the error of the estimate."""

    ranges: Mapping[str, Range] = field(default_factory=dict)
    communication_share: float | None = None
    """Share of communication in a decode step."""
    why: str = ""
    """Why nothing is expected."""


def expected(
    served: Served | None, workload: Mapping[str, Any], *, streams: int | None = None, rate: float | None = None
) -> Expected:
    """Return what to expect of `streams` concurrent requests, or of `rate` requests per second."""
    prompt, output = workload.get("input"), workload.get("output")
    if served is None:
        return Expected(why="the plan has no estimate for this model")
    missing = missing_figures(served.hardware)
    if missing:
        return Expected(why=f"hardware {served.hardware.get('name')} lacks {' and '.join(missing)}")
    if not prompt or not output:
        return Expected(why="its prompts have no fixed length, which the estimate needs")
    if workload.get("prefix"):
        return Expected(why="its prompts share a prefix, and the estimate does not know how much of it is cached")
    most = served.most(prompt + output)
    if most < 1:
        return Expected(why=f"no request of {prompt + output} tokens fits into the KV cache")
    if streams is not None:
        return _closed(served, prompt, output, streams, most)
    if rate is not None:
        return _open(served, prompt, output, rate, most)
    return Expected(why="neither streams nor a rate were given")


def _closed(served: Served, prompt: int, output: int, streams: int, most: int) -> Expected:
    used = max(1, min(served.replicas, streams))
    batch = min(-(-streams // used), most)
    group = _group(served)
    whole = serve(served.load, served.hardware, batch=batch, prompt=prompt, output=output, **group)
    rate = whole.tokens_per_s_per_stream * min(streams, batch * used)
    step = 1e3 / whole.decode.tokens_per_s_per_stream
    ranges = {
        "output_tokens_per_s": (rate * LOW, rate * HIGH),
        # In a batch, other requests' prefill delays the tokens; a single request has no such delay.
        "tpot_ms.50": (step / HIGH, (whole.tpot_seconds * 1e3 if batch > 1 else step) / LOW),
    }
    if batch == 1 and streams <= used:
        first = prefill(served.load, served.hardware, prompt=prompt, **group).ttft_seconds * 1e3
        ranges["ttft_ms.50"] = (first / HIGH, first / LOW)
    return Expected(ranges, whole.decode.communication_share)


def _open(served: Served, prompt: int, output: int, rate: float, most: int) -> Expected:
    whole = serve(served.load, served.hardware, batch=most, prompt=prompt, output=output, **_group(served))
    limit, asked = whole.tokens_per_s * served.replicas, rate * output
    ranges = {"output_tokens_per_s": (min(asked * ENDS, limit * LOW), min(asked, limit * HIGH))}
    return Expected(ranges, whole.decode.communication_share)


def _group(served: Served) -> dict[str, Any]:
    return {
        "tensor_parallel": served.tensor_parallel,
        "hosts": served.hosts,
        "rails": served.rails,
        "rdma": served.rdma,
        "speculation": served.speculation,
    }
