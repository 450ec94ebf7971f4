# SPDX-License-Identifier: Apache-2.0
"""Model how long the GPUs of a tensor-parallel group take for an all-reduce."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Link = Mapping[str, Any]
"""A link between ranks: `bandwidth_gb_s` (one direction of one rank) and `latency_us` by number of ranks."""

LINK_EFFICIENCY = 0.8
"""Share of a link's nominal bandwidth that large messages reach.

366 of 450 GB/s on 4 x H100 (nccl-tests, waynehacking8.github.io "nccl-collectives-bench", 2026-05-31); 20.5 of 25 GB/s
on two GB10 with both halves of a port.
"""

QUICK_SHARE = 0.25
"""Share of the bandwidth that the low-latency kernels reach, which trade bandwidth for fewer steps.

Fitted to vLLM's kernel on H100, github.com/sgl-project/sglang/pull/2904, as bf16 elements.
"""

BULK_LATENCY = 3.0
"""Start-up of a bandwidth-optimal all-reduce in units of a low-latency one.

NCCL's ring starts in about 30 us on 8 x H100, where the low-latency kernel takes 10.
"""

UNKNOWN_LINK: Link = {"bandwidth_gb_s": 3.1, "latency_us": {2: 50, 4: 100}}
"""Assumed where the catalog has no data on the link: 25 Gb/s Ethernet without RDMA."""


TCP_LATENCY = 3.0
"""Start-up of a small all-reduce over TCP in units of one over RDMA; an estimate, not measured here.

Every message goes through the kernel and is copied by a CPU thread on both sides, where RDMA writes into the peer's
memory.
"""

TCP_SHARE = 0.5
"""Share of a port's RDMA bandwidth that the few sockets of NCCL reach; an estimate, not measured here."""


def all_reduce_seconds(message: float, ranks: int, link: Link) -> float:
    """Return the seconds of one all-reduce of `message` bytes over `ranks` GPUs.

    Every GPU sends and receives 2 (N - 1) / N of the message. Like NCCL, take whichever is faster: few steps at low
    bandwidth (decode) or full bandwidth after a longer start (prefill).
    """
    if ranks <= 1 or message <= 0:
        return 0.0
    bandwidth = positive(link.get("bandwidth_gb_s"))
    latencies = _latencies(link.get("latency_us"))
    if bandwidth is None or not latencies:
        return all_reduce_seconds(message, ranks, UNKNOWN_LINK)
    latency = _latency_us(ranks, latencies) * 1e-6
    transfer = 2 * (ranks - 1) / ranks * message / (bandwidth * 1e9)
    return min(latency + transfer / QUICK_SHARE, BULK_LATENCY * latency + transfer / LINK_EFFICIENCY)


def group_all_reduce_seconds(
    message: float,
    hardware: Mapping[str, Any],
    *,
    ranks: int,
    hosts: int,
    rails: int | None = None,
    rdma: bool | None = None,
) -> float:
    """Return the seconds of an all-reduce over `hosts` hosts: inside each host, then between the hosts."""
    inside: Link = hardware.get("interconnect") or UNKNOWN_LINK
    if hosts <= 1:
        return all_reduce_seconds(message, ranks, inside)
    local = all_reduce_seconds(message, -(-ranks // hosts), inside)
    return local + all_reduce_seconds(message, hosts, fabric_link(hardware, rails, rdma))


def fabric_link(hardware: Mapping[str, Any], rails: int | None = None, rdma: bool | None = None) -> Link:
    """Return the link between hosts, with the bandwidth of all rails together.

    `rails` are those the plan uses, by default all that add bandwidth. The catalog's figures are those of its fabric
    as it is; disabling `rdma` on a fabric that supports it makes it slower by the factors above. Without a rail the
    link is assumed to be an unknown network.
    """
    fabric = hardware.get("fabric") or {}
    speed = positive(fabric.get("speed_gb_s"))
    if speed is None or (rails is not None and rails < 1):
        return UNKNOWN_LINK
    useful = int(positive(fabric.get("rails")) or 1)
    bandwidth = speed * min(useful if rails is None else rails, useful)
    latencies = _latencies(fabric.get("latency_us"))
    if rdma is False and fabric.get("rdma"):
        bandwidth *= TCP_SHARE
        latencies = {ranks: us * TCP_LATENCY for ranks, us in latencies.items()}
    return {"bandwidth_gb_s": bandwidth, "latency_us": latencies}


def positive(value: Any) -> float | None:
    """Return a number above zero; None for anything else that a file may hold."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        return None
    return float(value)


def _latencies(value: Any) -> dict[int, float]:
    if not isinstance(value, Mapping):
        return {}
    known = {int(ranks): positive(us) for ranks, us in value.items() if str(ranks).isdecimal() and int(ranks) > 1}
    return {ranks: us for ranks, us in sorted(known.items()) if us is not None}


def _latency_us(ranks: int, known: Mapping[int, float]) -> float:
    """Return the latency for this many ranks: known, or interpolated from the nearest two, growing as log2."""
    if ranks in known:
        return known[ranks]
    below = [one for one in known if one < ranks]
    above = [one for one in known if one > ranks]
    if not below:
        return known[above[0]]
    if above:
        low, high = below[-1], above[0]
        share = math.log2(ranks / low) / math.log2(high / low)
        return known[low] + share * (known[high] - known[low])
    last = below[-1]
    slope = (known[last] - known[below[-2]]) / math.log2(last / below[-2]) if len(below) > 1 else known[last]
    return known[last] + max(0.0, slope) * math.log2(ranks / last)
